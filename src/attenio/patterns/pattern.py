"""What every pattern of required scores can answer."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts", "Pattern"]

# An integer, or an array of integers (one per tile size asked about).
Counts = Any


class Pattern(Protocol):
    """Required scores of one sequence of queries against one sequence of keys.

    Queries are cut into tiles of ``query_tile`` consecutive rows, the last one ragged. The keys a tile needs are the
    union of the keys its rows need, in ascending order; they are cut into tiles of ``key_tile`` of them. The counting
    methods take integers or arrays of integers and broadcast.
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

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs: the sum over tiles of their unions."""

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them."""

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets)."""

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key."""

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row."""

    def needed_keys(self, start: int, stop: int) -> NDArray[np.intp]:
        """The keys that rows ``start`` to ``stop`` need, ascending."""

    def required(self, start: int, stop: int, keys: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which scores of rows ``start`` to ``stop`` with ``keys`` are required."""
