"""Devices as a grid: heads x queries x keys.

P = h·a·b devices. A device is at (head group g of h, row i of a, column j of b): it works on its group of heads, with
the queries of row i and the keys of column j. Ring and all-gather attention are (1, P, 1), Ulysses (P, 1, 1), USP and
LoongTrain (h, a, 1), 2D meshes (1, a, b), tree attention (1, 1, P).

Ranks count heads fastest, then columns, then rows: rank = (i·b + j)·h + g. So the ranks of a row are consecutive, and
so are those that exchange heads. As a mesh of torch.distributed that is the shape (queries, keys, heads).

>>> grid = Grid(heads=2, queries=3, keys=2)
>>> grid.devices, grid.place(7)
(12, Place(head_group=1, row=1, column=1))
>>> grid.head_peers(7), grid.row_peers(7), grid.column_peers(7)
((6, 7), (5, 7), (3, 7, 11))
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from attenio.errors import InvalidInput
from attenio.quantities import checked_count
from attenio.workload import Workload, refuse_forms

# More devices than any machine has; numbers beyond are slips of the keyboard.
MOST_DEVICES = 2**17


@dataclass(frozen=True)
class Place:
    """Where a device is in a grid."""

    head_group: int
    row: int
    column: int


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Groups of heads, blocks of queries and blocks of keys: one device for each combination."""

    heads: int = 1
    queries: int = 1
    keys: int = 1

    def __post_init__(self) -> None:
        for each in fields(self):
            checked_count(f"{each.name} of the grid", getattr(self, each.name), most=MOST_DEVICES)
        checked_devices(self.devices)

    @property
    def devices(self) -> int:
        """How many devices the grid has (P)."""
        return self.heads * self.queries * self.keys

    def rank(self, place: Place) -> int:
        """The rank at a place."""
        return (place.row * self.keys + place.column) * self.heads + place.head_group

    def place(self, rank: int) -> Place:
        """The place of a rank."""
        block, head_group = divmod(rank, self.heads)
        row, column = divmod(block, self.keys)
        return Place(head_group, row, column)

    def head_peers(self, rank: int) -> tuple[int, ...]:
        """The ranks of the same row and column, by head group; the rank itself is one of them."""
        first = rank - rank % self.heads
        return tuple(range(first, first + self.heads))

    def row_peers(self, rank: int) -> tuple[int, ...]:
        """The ranks of the same head group and row, by column; the rank itself is one of them."""
        place = self.place(rank)
        return tuple(self.rank(Place(place.head_group, place.row, column)) for column in range(self.keys))

    def column_peers(self, rank: int) -> tuple[int, ...]:
        """The ranks of the same head group and column, by row; the rank itself is one of them."""
        place = self.place(rank)
        return tuple(self.rank(Place(place.head_group, row, place.column)) for row in range(self.queries))

    def __str__(self) -> str:
        return f"{self.heads} x {self.queries} x {self.keys}"


def checked_devices(devices: int) -> int:
    """A number of devices, or a line that says what is wrong with it."""
    checked_count("devices", devices, most=2**63)
    if devices > MOST_DEVICES:
        raise InvalidInput(f"devices is {devices:,}; attenio plans up to {MOST_DEVICES:,}: use fewer")
    return devices


def grids(devices: int, kv_heads: int) -> Iterator[Grid]:
    """Every grid of that many devices whose groups of heads are equal: its heads divide the KV heads.

    >>> [str(grid) for grid in grids(4, 2)]
    ['1 x 1 x 4', '1 x 2 x 2', '1 x 4 x 1', '2 x 1 x 2', '2 x 2 x 1']
    """
    checked_devices(devices)
    for heads in _divisors(devices):
        if kv_heads % heads == 0:
            for queries in _divisors(devices // heads):
                yield Grid(heads=heads, queries=queries, keys=devices // heads // queries)


def _divisors(number: int) -> list[int]:
    small = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return small + [number // each for each in reversed(small) if each * each != number]


def check_grid(grid: Grid, workload: Workload) -> None:
    """Refuse a grid whose groups of heads would not be equal, and workloads that grids do not know."""
    refuse_forms(workload, "plans for many devices know no")
    if workload.kv_heads % grid.heads:
        raise InvalidInput(
            f"a grid of {grid} cuts {workload.kv_heads:,} KV heads into {grid.heads:,} groups, which do not come out"
            f" equal; use a number of head groups that divides {workload.kv_heads:,}"
        )
