"""Every bound on what devices exchange, and the largest."""

from fractions import Fraction

from attenio.bounds.lower_bound import LowerBound
from attenio.cluster.bounds.balanced import balanced_exchange
from attenio.cluster.bounds.device_memory import device_memory
from attenio.workload import Workload


def cluster_bounds(
    workload: Workload, devices: int, *, memory_words: int | None = None, imbalance: Fraction | float = 1
) -> tuple[LowerBound, ...]:
    """Every bound on the words that all devices together exchange.

    A training step also does what its passes do, so their bounds hold for it.

    >>> [bound.theorem for bound in cluster_bounds(Workload(n=4096, d=64), 16, memory_words=2**20)]
    ['balanced-exchange', 'device-memory']
    """
    balanced = balanced_exchange(workload, devices, imbalance=imbalance)
    limited = () if memory_words is None else (device_memory(workload, devices, memory_words),)
    return (balanced, *limited)
