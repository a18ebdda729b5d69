"""Lower bounds on the words that devices must exchange."""

from attenio.cluster.bounds.balanced import balanced_exchange, exchanged_words, trade_off
from attenio.cluster.bounds.cluster import cluster_bounds
from attenio.cluster.bounds.device_memory import device_memory

__all__ = ["balanced_exchange", "cluster_bounds", "device_memory", "exchanged_words", "trade_off"]
