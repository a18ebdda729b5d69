"""Counts of several patterns added up, and shapes for the largest buffer."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band, BlockPattern, Pattern, PrefixedRequests
from attenio.masks.patterns.lazy import lazy
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.rolling import met_at_once, rolling_loads
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.problems.kinds import OTHERS, Kind, kind_of
from attenio.planning.words.band_turns import take_turns
from attenio.planning.words.row_ring import RingRows, ring_rows

# Below this many patterns a loop of Python integers is faster than arrays.
_FEW = 6


@dataclass(frozen=True)
class PatternCounts:
    """Patterns that one query head meets, each with how often; sums stay below 2^61 for lengths up to 2^30."""

    patterns: tuple[tuple[Pattern, int], ...]

    def __post_init__(self) -> None:
        (pattern, times), *others = self.patterns
        if times == 1 and not others:  # most workloads, and worth a short cut
            rows, keys = pattern.rows, pattern.keys
            known = {"rows": rows, "keys": keys, "most_rows": rows, "most_keys": keys, "shapes": ((rows, keys),)}
            band, blocks = (pattern if isinstance(pattern, kind) else None for kind in (Band, BlockPattern))
            self.__dict__.update(known, sequences=1, only=pattern, only_band=band, only_blocks=blocks)

    @lazy
    def rows(self) -> int:
        """Query rows (n)."""
        return self._total("rows")

    @lazy
    def keys(self) -> int:
        """Keys (m)."""
        return self._total("keys")

    @lazy
    def sequences(self) -> int:
        """How many problems there are."""
        return sum(times for _, times in self.patterns)

    @lazy
    def area(self) -> int:
        """Scores, required or not: no count of rows, keys or tiles is larger."""
        return sum(pattern.rows * pattern.keys * times for pattern, times in self.patterns)

    @lazy
    def scores(self) -> int:
        """Required scores (Z)."""
        return self._total("scores")

    @lazy
    def touched_rows(self) -> int:
        """Rows that need at least one key."""
        return self._total("touched_rows")

    @lazy
    def touched_keys(self) -> int:
        """Keys that at least one row needs."""
        return self._total("touched_keys")

    @lazy
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and keys of the problems that no other problem exceeds in both; they set the largest buffer."""
        if len(self.patterns) == 1:
            ((pattern, _),) = self.patterns
            return ((pattern.rows, pattern.keys),)
        kept: list[tuple[int, int]] = []
        for rows, keys in sorted({(p.rows, p.keys) for p, _ in self.patterns}, reverse=True):
            if not kept or keys > kept[-1][1]:
                kept.append((rows, keys))
        return tuple(kept)

    @lazy
    def most_rows(self) -> int:
        """Rows of the longest problem: no larger query tile makes a difference."""
        return max(rows for rows, _ in self.shapes)

    @lazy
    def most_keys(self) -> int:
        """Keys of the widest problem: no larger key tile makes a difference."""
        return max(keys for _, keys in self.shapes)

    @lazy
    def is_dense(self) -> bool:
        """Whether every problem requires every score."""
        return all(pattern.is_dense for pattern, _ in self.patterns)

    @lazy
    def only_band(self) -> Band | None:
        """The band, if that is what the problem is."""
        return self.only if isinstance(self.only, Band) else None

    @lazy
    def longest_row(self) -> int:
        """The most keys that a row of the band needs, one at least."""
        assert self.only_band is not None
        return max(1, int(self.only_band.longest_row))

    @lazy
    def ring_rows(self) -> RingRows:
        """The rows of a ring that keys of the band pass."""
        assert self.only_band is not None
        two, three = ring_rows(self.only_band)
        return RingRows(int(two), int(three))

    @lazy
    def kind(self) -> Kind:
        """What kind of problem it is, if it is just one."""
        return OTHERS if self.only_band is None else kind_of(self.only_band)

    @lazy
    def sums_take_turns(self) -> bool:
        """Whether sums of rows, or of keys, may take turns under one causal or window mask, of few or of many."""
        band = self.only_band
        return band is not None and self.kind.rows_roll and bool(take_turns(band))

    @lazy
    def only_blocks(self) -> BlockPattern | None:
        """The blocks, if that is what the problem is."""
        return self.only if isinstance(self.only, BlockPattern) else None

    @property
    def stacked_requests(self) -> PrefixedRequests | None:
        """The stacked requests, if that is what the problem is."""
        return self.only if isinstance(self.only, PrefixedRequests) else None

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs (U)."""
        if self.only is not None:
            return self.only.key_loads(query_tile)
        return self._sum(lambda pattern: pattern.key_loads(query_tile), query_tile)

    def kept_loads(self, query_tile: Counts, slots: Counts) -> Counts:
        """Keys that tiles of queries need not read because ``slots`` keep them from the tile before (K)."""
        if self.only is not None:
            return self.only.kept_loads(query_tile, slots)
        return self._sum(lambda pattern: pattern.kept_loads(query_tile, slots), query_tile, slots)

    def rolling_loads(self, rows_held: int, slots: int, ring: int = 0) -> int:
        """Keys read where rows come and go one by one (V)."""
        band = self.only_band
        assert band is not None
        return int(rolling_loads(band, rows_held, slots, ring))

    def met_at_once(self, rows_held: int) -> int:
        """Keys with a single turn where rows come and go one by one."""
        band = self.only_band
        assert band is not None
        return int(met_at_once(band, rows_held))

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them (V)."""
        if self.only is not None:
            return self.only.row_visits(key_tile)
        return self._sum(lambda pattern: pattern.row_visits(key_tile), key_tile)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets) (T)."""
        if self.only is not None:
            return self.only.tile_rows(query_tile, key_tile)
        return self._sum(lambda pattern: pattern.tile_rows(query_tile, key_tile), query_tile, key_tile)

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key (L)."""
        if self.only is not None:
            return self.only.live_rows(query_tile)
        if self.touched_rows == self.rows:
            return self.rows + 0 * query_tile
        return self._sum(lambda pattern: pattern.live_rows(query_tile), query_tile)

    def boundaries(self, query_tile: Counts) -> Counts:
        """Boundaries between two query tiles of the same problem."""
        return self._sum(lambda pattern: ceil_div(pattern.rows, query_tile) - 1, query_tile)

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row (X)."""
        if self.only is not None:
            return self.only.scores_beyond(resident)
        return self._sum(lambda pattern: pattern.scores_beyond(resident), resident)

    def _total(self, name: str) -> int:
        """A count of every pattern, added up."""
        if self.only is not None:
            return int(getattr(self.only, name))
        return sum(int(getattr(pattern, name)) * times for pattern, times in self.patterns)

    @lazy
    def only(self) -> Pattern | None:
        """The pattern, if there is just one, just once: most workloads, and worth a short cut."""
        return self.patterns[0][0] if len(self.patterns) == 1 and self.patterns[0][1] == 1 else None

    @lazy
    def stack(self) -> tuple[Band, NDArray[np.int64]] | None:
        """All bands as one band of arrays, with how often each occurs; None if that does not pay or is not possible."""
        if len(self.patterns) < _FEW or not all(isinstance(p, Band) for p, _ in self.patterns):
            return None
        names = ("rows", "keys", "left", "right", "shift")
        fields = {name: np.array([[getattr(p, name)] for p, _ in self.patterns], dtype=np.int64) for name in names}
        return Band(**fields), np.array([[times] for _, times in self.patterns], dtype=np.int64)

    def _sum(self, count: Callable[[Pattern], Counts], *tiles: Counts) -> Counts:
        if self.stack is None:
            return sum(times * count(pattern) for pattern, times in self.patterns)
        band, often = self.stack
        totals = (often * count(band)).sum(axis=0)
        return totals if any(np.ndim(tile) for tile in tiles) else int(totals[0])
