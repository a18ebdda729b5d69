"""Tiles of keys that stay while rows pass: which rows a tile needs, and which of its keys they need."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.problem import Problem
from attenio.masks.patterns import Pattern
from attenio.memory.indices import Indices, as_array, compact, cuts, size

Positions = NDArray[np.intp]
Marks = NDArray[np.bool_]

# Booleans of a mask looked at together.
_MASK_AT_ONCE = 2**22


@dataclass(frozen=True, kw_only=True)
class KeyTile:
    """A tile of keys that ``positions`` need: ``keys`` are those of its ``span`` that one of them needs."""

    span: slice
    keys: Positions
    positions: Positions
    starts: Marks
    ends: Marks

    def visited(self, positions: Positions) -> Marks:
        """Which of the positions have visited an earlier tile."""
        return ~self.starts[positions]

    def last(self, positions: Positions) -> Marks:
        """Which of the positions will not visit another tile."""
        return self.ends[positions]


class KeyTiles:
    """The keys of a problem in tiles on the grid 0, key_tile, 2 key_tile, ...; ``needing`` marks who visits any."""

    def __init__(self, problem: Problem, key_tile: int) -> None:
        self._problem, self._tile = problem, key_tile
        self._visits = visits_of(problem.pattern, key_tile)
        self.needing: Marks = np.asarray(self._visits.any(axis=1))

    def __iter__(self) -> Iterator[KeyTile]:
        """The tiles that some position needs, in order."""
        pattern, visits = self._problem.pattern, self._visits
        first, last = visits.argmax(axis=1), visits.shape[1] - 1 - visits[:, ::-1].argmax(axis=1)
        for j, span in enumerate(cuts(pattern.keys, self._tile)):
            needing = np.flatnonzero(visits[:, j])
            if len(needing):
                keys = _touched(pattern, needing, as_array(span))
                yield KeyTile(span=span, keys=keys, positions=needing, starts=first == j, ends=last == j)
            self._problem.advance(size(span))


def visits_of(pattern: Pattern, key_tile: int) -> Marks:
    """Which key tiles (columns) hold a key that a position (row) needs."""
    keys, starts = np.arange(pattern.keys, dtype=np.int64), np.arange(0, pattern.keys, key_tile, dtype=np.int64)
    height = max(1, _MASK_AT_ONCE // pattern.keys)
    return np.concatenate(
        [
            np.logical_or.reduceat(
                pattern.required(top, min(top + height, pattern.rows), keys), starts.astype(np.intp, copy=False), axis=1
            )
            for top in range(0, pattern.rows, height)
        ]
    )


def _touched(pattern: Pattern, positions: Positions, keys: Positions) -> Positions:
    """Those of the keys that one of the positions needs."""
    height = max(1, _MASK_AT_ONCE // len(keys))
    touched = np.zeros(len(keys), dtype=np.bool_)
    for top in range(0, len(positions), height):
        touched |= required_scores(pattern, positions[top : top + height], keys).any(axis=0)
    return keys[touched]


def required_scores(pattern: Pattern, positions: Positions, keys: Positions) -> Marks:
    """Which scores are required, for ascending positions that may have gaps."""
    stretches = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    return np.concatenate([pattern.required(int(part[0]), int(part[-1]) + 1, keys) for part in stretches])


def row_tiles(problem: Problem, positions: Positions, tile: int) -> Iterator[tuple[Indices, Positions]]:
    """For each head of the group, the positions in tiles: the rows they are of this head, and the positions."""
    for head in range(problem.group):
        for start in range(0, len(positions), tile):
            some = positions[start : start + tile]
            yield compact(head * problem.pattern.rows + some), some
