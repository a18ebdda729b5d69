"""Gradients that nothing contributes to: zeros, stored one after the other from a single word."""

import numpy as np
from numpy.typing import NDArray

from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import compact, size

__all__ = ["store_zeros"]


def store_zeros(fast: FastMemory, target: SlowArray, written: NDArray[np.bool_]) -> None:
    """Store zeros to the rows of a gradient that have not been ``written``."""
    rows = np.flatnonzero(~written)
    if len(rows) == 0:
        return
    with fast.buffer("zero", 1, 1):
        values = np.zeros((len(rows), size(target.columns)), dtype=np.float32)
        fast.store(Tile(target.name, values, compact(rows), target.columns), target)
