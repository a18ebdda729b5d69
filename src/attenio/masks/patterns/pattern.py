"""What every pattern of required scores can answer."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

# An integer, or an array of integers (one per tile size asked about).
Counts = Any
Ints = NDArray[np.int64]
AnyInts = NDArray[np.int64] | NDArray[np.int32]


# About this many boundaries between tiles are looked at in one go, so that arrays stay in cache.
_AT_ONCE = 2**15


def kept_by_fewer_slots(
    pattern: "Pattern", query_tile: Counts, slots: Counts, *, known: Callable[[Ints, Ints], AnyInts] | None = None
) -> Counts:
    """``kept_loads`` of any pattern: some slots keep what two neighbouring tiles need (``keeping_of``).

    Keys that neighbours share are counted unless they are ``known``, by sizes and their numbers of boundaries.
    """
    tiles, room = np.broadcast_arrays(np.asarray(query_tile, dtype=np.int64), np.asarray(slots, dtype=np.int64))
    sizes, keeping = tiles.ravel(), keeping_of(room.ravel(), pattern.touched_keys)
    boundaries = -(-pattern.rows // sizes) - 1
    found = np.empty(len(sizes), dtype=np.int64)
    for part in parts_of(boundaries):
        of_part = sizes[part], boundaries[part]
        shared = _shared_keys(pattern, *of_part) if known is None else known(*of_part)
        found[part] = _kept_over(shared, boundaries[part], keeping[part])
    return found.reshape(tiles.shape) if tiles.ndim else int(found[0])


def keeping_of(slots: Counts, keys: int) -> Counts:
    """How many slots keep keys: one lets them pass, unless each of the ``keys`` that are needed has a slot."""
    if type(slots) is int:
        return slots if slots >= keys else max(slots - 1, 0)
    return np.where(slots < keys, np.maximum(slots - 1, 0), slots)


def parts_of(counts: Ints) -> list[slice]:
    """Sizes in order, so many at once that their tiles or boundaries are few enough."""
    edges = np.flatnonzero(np.diff(np.cumsum(counts) // _AT_ONCE)) + 1
    return [slice(first, last) for first, last in pairwise([0, *edges.tolist(), len(counts)])]


def _shared_keys(pattern: "Pattern", sizes: Ints, boundaries: Ints) -> Ints:
    """Keys that the tiles on both sides of each boundary need, for tiles of each size after the other."""
    ends = np.cumsum(boundaries)
    size = np.repeat(sizes, boundaries)
    starts = (np.arange(len(size), dtype=np.int64) - np.repeat(ends - boundaries, boundaries)) * size
    middles = starts + size
    stops = np.minimum(middles + size, pattern.rows)
    both = pattern.widths(starts, middles) + pattern.widths(middles, stops) - pattern.widths(starts, stops)
    return np.asarray(both, dtype=np.int64)


def _kept_over(shared: AnyInts, boundaries: Ints, keeping: Ints) -> Ints:
    """Keys kept over all boundaries of tiles of each size."""
    ends = np.cumsum(boundaries)
    sums = np.concatenate([[0], np.cumsum(np.minimum(shared, np.repeat(keeping, boundaries)))])
    return np.asarray(sums[ends] - sums[ends - boundaries], dtype=np.int64)


class Pattern(Protocol):
    """Required scores of one sequence of queries against one sequence of keys.

    Queries are cut into tiles of ``query_tile`` consecutive rows, the last one ragged. The keys a tile needs are the
    union of the keys its rows need, in ascending order; they are cut into tiles of ``key_tile`` of them. The counting
    methods take integers or arrays of integers and broadcast; integers give Python integers.
    """

    @property
    def rows(self) -> int:
        """Query rows."""

    @property
    def keys(self) -> int:
        """Key rows."""

    @property
    def scores(self) -> int:
        """Required scores (Z)."""

    @property
    def touched_rows(self) -> int:
        """Rows that need at least one key."""

    @property
    def touched_keys(self) -> int:
        """Keys that at least one row needs."""

    @property
    def is_dense(self) -> bool:
        """Whether every row needs every key."""

    @property
    def transposed(self) -> "Pattern":
        """The same scores with rows and keys exchanged."""

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs: the sum over tiles of their unions."""

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them."""

    def kept_loads(self, query_tile: Counts, slots: Counts) -> Counts:
        """Keys that tiles of queries need not read because ``slots`` keep them from the tile before."""

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""

    def tile_rows_floor(self, query_tile: Counts, key_tile: Counts, key_loads: Counts) -> Counts:
        """A number that tile_rows does not go below, given the key_loads of the tile."""

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key."""

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row."""

    def widths(self, starts: Counts, stops: Counts) -> Counts:
        """How many keys the rows from each start to its stop need."""

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""

    @property
    def key_load_floors(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""

    @property
    def kinks(self) -> tuple[int, ...] | None:
        """Numbers x such that key_loads and live_rows are concave in the tile between x//i + 1 and x//(i-1), or None.

        The pieces of all x together: a least value over a range of tiles is then at an end of the range or at some
        x//i or x//i + 1. None when every tile has to be tried.
        """
