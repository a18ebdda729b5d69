"""Tiles of keys that stay while rows pass: which rows a tile needs, and which of its keys they need."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attenio.patterns import Pattern

__all__ = ["required_scores", "row_tiles", "touched_keys", "visits_of"]

Positions = NDArray[np.intp]

# Booleans of a mask looked at together.
_MASK_AT_ONCE = 2**22


def visits_of(pattern: Pattern, key_tile: int) -> NDArray[np.bool_]:
    """Which key tiles (columns) hold a key that a position (row) needs."""
    keys, starts = np.arange(pattern.keys), np.arange(0, pattern.keys, key_tile)
    height = max(1, _MASK_AT_ONCE // pattern.keys)
    return np.concatenate(
        [
            np.logical_or.reduceat(pattern.required(top, min(top + height, pattern.rows), keys), starts, axis=1)
            for top in range(0, pattern.rows, height)
        ]
    )


def touched_keys(pattern: Pattern, positions: Positions, keys: Positions) -> Positions:
    """Those of the keys that one of the positions needs."""
    height = max(1, _MASK_AT_ONCE // len(keys))
    touched = np.zeros(len(keys), dtype=np.bool_)
    for top in range(0, len(positions), height):
        touched |= required_scores(pattern, positions[top : top + height], keys).any(axis=0)
    return keys[touched]


def required_scores(pattern: Pattern, positions: Positions, keys: Positions) -> NDArray[np.bool_]:
    """Which scores are required, for ascending positions that may have gaps."""
    stretches = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    return np.concatenate([pattern.required(int(part[0]), int(part[-1]) + 1, keys) for part in stretches])


def row_tiles(group: int, positions: Positions, tile: int) -> Iterator[tuple[int, Positions]]:
    """For each head of the group, the positions in tiles."""
    for head in range(group):
        for start in range(0, len(positions), tile):
            yield head, positions[start : start + tile]
