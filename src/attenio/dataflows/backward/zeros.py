"""Gradients that nothing contributes to: zeros, stored one after the other from a single word."""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Pattern
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import compact, size


def store_zeros(fast: FastMemory, target: SlowArray, written: NDArray[np.bool_]) -> None:
    """Store zeros to the rows of a gradient that have not been ``written``."""
    rows = np.flatnonzero(~written)
    if len(rows) == 0:
        return
    with fast.buffer("zero", 1, 1):
        values = np.zeros((len(rows), size(target.columns)), dtype=np.float32)
        fast.store(Tile(target.name, values, compact(rows), target.columns), target)


def store_key_zeros(fast: FastMemory, pattern: Pattern, *targets: SlowArray) -> None:
    """Store zeros to these gradients of the keys that no row needs."""
    needed = np.zeros(pattern.keys, dtype=np.bool_)
    needed[pattern.needed_keys(0, pattern.rows)] = True
    for target in targets:
        store_zeros(fast, target, needed)


def store_row_zeros(fast: FastMemory, pattern: Pattern, group: int, target: SlowArray) -> None:
    """Store zeros to the gradient of the rows that need no key, in all heads of a group."""
    needing = np.zeros(pattern.rows, dtype=np.bool_)
    needing[pattern.transposed.needed_keys(0, pattern.keys)] = True
    store_zeros(fast, target, np.tile(needing, group))
