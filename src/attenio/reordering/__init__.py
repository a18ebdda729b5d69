"""Other orders of queries and keys under a block-sparse mask, so that rows of a tile share the keys they need."""

from attenio.reordering.best import Reordered, best_reordering
from attenio.reordering.reorder import Method, Reordering, reorder

__all__ = ["Method", "Reordered", "Reordering", "best_reordering", "reorder"]
