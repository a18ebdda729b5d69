"""Attention on many devices: grids, the words that ranks exchange, bounds on them, and plans."""

from attenio.cluster.grid import Grid, grids
from attenio.cluster.partition import Sharding
from attenio.cluster.words import Stage, sent_words, stage_words

__all__ = ["Grid", "Sharding", "Stage", "grids", "sent_words", "stage_words"]
