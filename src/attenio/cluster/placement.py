"""Where the ranks of a grid sit in a topology.

A placement is an order of the grid's axes, the one that sits closest first: with heads first, the ranks that exchange
heads are neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.grid import Grid

Counts = NDArray[np.int64]


class Axis(Enum):
    """A side of the grid."""

    HEADS = "heads"
    KEYS = "keys"
    QUERIES = "queries"


# The position of each side in arrays [row, column, head group], as ranks count.
POSITION = {Axis.QUERIES: 0, Axis.KEYS: 1, Axis.HEADS: 2}


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The axes of a grid, the one whose ranks sit closest together first."""

    order: tuple[Axis, ...] = (Axis.HEADS, Axis.KEYS, Axis.QUERIES)

    def devices(self, grid: Grid) -> Counts:
        """The device of every rank."""
        shape = (grid.queries, grid.keys, grid.heads)
        index, stride = np.zeros(shape, dtype=np.int64), 1
        for axis in self.order:
            position = POSITION[axis]
            sides = [1, 1, 1]
            sides[position] = shape[position]
            index = index + stride * np.arange(shape[position], dtype=np.int64).reshape(sides)
            stride *= shape[position]
        return np.broadcast_to(index, shape).reshape(-1)

    def __str__(self) -> str:
        return ", ".join(axis.value for axis in self.order)


def placements(grid: Grid) -> Iterator[Placement]:
    """The orders that put ranks of a grid differently: axes of one rank have no place."""
    sides = {Axis.HEADS: grid.heads, Axis.KEYS: grid.keys, Axis.QUERIES: grid.queries}
    idle = [axis for axis, side in sides.items() if side == 1]
    for order in permutations([axis for axis, side in sides.items() if side > 1]):
        yield Placement(order=(*order, *idle))
