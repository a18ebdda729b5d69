"""All the problems of a workload together: counts of their patterns added up, shapes for the largest buffer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.granularity import FREE_TILES, Granularity
from attenio.masks import SharedPrefix
from attenio.patterns import Band, Pattern, PrefixedRequests
from attenio.patterns.lazy import lazy
from attenio.patterns.pattern import Counts
from attenio.workload import Workload

__all__ = ["Problems"]

# Below this many patterns a loop of Python integers is faster than arrays.
_FEW = 6


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Patterns that one query head meets, each with how often, and how often all of that happens.

    ``runs`` is per KV head and sequence: counts here are for one query head, and every dataflow says how often its
    words occur in a group of ``group`` heads. Sums of counts stay below 2^61 for lengths up to 2^30.
    """

    patterns: tuple[tuple[Pattern, int], ...]
    runs: int
    group: int
    d: int
    value_dim: int
    intermediate_words: int
    granularity: Granularity = FREE_TILES
    values_in_keys: bool = False

    @classmethod
    def separate(cls, workload: Workload, granularity: Granularity = FREE_TILES) -> "Problems":
        """Every sequence by itself."""
        return cls._of(workload, workload.separate_patterns, workload.batch * workload.kv_heads, granularity)

    @classmethod
    def stacked(cls, workload: Workload, granularity: Granularity = FREE_TILES) -> "Problems":
        """Requests with a shared prefix one under the other; otherwise the same as separate."""
        if isinstance(workload.mask, SharedPrefix):
            return cls._of(workload, workload.stacked_patterns, workload.kv_heads, granularity)
        return cls.separate(workload, granularity)

    @classmethod
    def _of(
        cls, workload: Workload, patterns: tuple[tuple[Pattern, int], ...], runs: int, granularity: Granularity
    ) -> "Problems":
        return cls(
            patterns=patterns,
            runs=runs,
            group=workload.group,
            d=workload.d,
            value_dim=workload.value_dim,
            intermediate_words=workload.accumulator_words,
            granularity=granularity,
            values_in_keys=workload.values_in_keys,
        )

    @lazy
    def transposed(self) -> "Problems":
        """Rows and keys exchanged, for dataflows that keep keys."""
        across, turned = tuple((p.transposed, times) for p, times in self.patterns), self.granularity.transposed
        # Of dense and symmetric windows one answer does for both ways; larger patterns take long to compare.
        alike = self.only_band is not None and across == self.patterns and turned == self.granularity
        return self if alike else self._with(across, turned)

    @lazy
    def answers(self) -> dict[object, Any]:
        """What several searches ask about these problems, by question, so that it is looked for once."""
        return {}

    @lazy
    def unmasked(self) -> "Problems":
        """The same shapes with every score required, for operators that are blind to the mask."""
        every = tuple((Band.dense(p.rows, p.keys), times) for p, times in self.patterns)
        return self if self.only_band is not None and every == self.patterns else self._with(every, self.granularity)

    def _with(self, patterns: tuple[tuple[Pattern, int], ...], granularity: Granularity) -> "Problems":
        return Problems(
            patterns=patterns,
            runs=self.runs,
            group=self.group,
            d=self.d,
            value_dim=self.value_dim,
            intermediate_words=self.intermediate_words,
            granularity=granularity,
            values_in_keys=self.values_in_keys,
        )

    @property
    def key_words(self) -> int:
        """Words of a key and its value where both are at hand: one latent where values are part of keys."""
        return self.d if self.values_in_keys else self.d + self.value_dim

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

    def most_live_rows(self, query_tile: int) -> int:
        """A number that live_rows does not exceed for tiles up to this one.

        The rows of a band that need a key follow each other, so that two tiles at most have others beside them.
        """
        if not all(isinstance(pattern, Band) for pattern, _ in self.patterns):
            return self.rows
        return min(self.rows, self.touched_rows + 2 * self.sequences * (query_tile - 1))

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
    def key_load_floors(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""
        if self._only is not None:
            return self._only.key_load_floors
        each = [[[times * x for x in floor] for floor in p.key_load_floors] for p, times in self.patterns]
        totals = [tuple(map(sum, zip(*same, strict=True))) for same in zip(*each, strict=True)]
        return tuple((int(constant), int(area), int(lost)) for constant, area, lost in totals)

    def least_key_loads(self, query_tile: int) -> int:
        """A number that key_loads does not go below for tiles up to this one."""
        least = self.touched_keys
        for constant, area, lost in self.key_load_floors:
            least = max(least, constant - (-area // query_tile) - lost * query_tile)
        return least

    @lazy
    def moving_ends(self) -> tuple[int, int]:
        """Rows over which ends of needed keys move, and how many such stretches there are; bands only."""
        stretches = [(length, times) for p, times in self.patterns if isinstance(p, Band) for length in p.moving_ends]
        return sum(length * times for length, times in stretches), sum(times for length, times in stretches if length)

    @lazy
    def kinks(self) -> tuple[int, ...] | None:
        """Ends of the pieces on which all counts are concave (see ``Pattern.kinks``), or None if unknown."""
        numbers: set[int] = set()
        for pattern, _ in self.patterns:
            if pattern.kinks is None:
                return None
            numbers.update(pattern.kinks)
        return tuple(sorted(numbers - {0}, reverse=True))

    def run_kinks(self, width: int) -> tuple[int, ...] | None:
        """The same with tile_rows(a, width) among the counts, for a width of at least half the keys."""
        numbers: set[int] = set()
        for pattern, _ in self.patterns:
            if not isinstance(pattern, Band):
                return None
            numbers.update(pattern.kinks, pattern.run_kinks(width))
        return tuple(sorted((x for x in numbers if x > 0), reverse=True))

    @lazy
    def level(self) -> tuple[int, int]:
        """Rows of the only band whose tiles need equally many keys, and by how many more than they have rows."""
        pattern = self.patterns[0][0]
        if len(self.patterns) > 1 or not isinstance(pattern, Band):
            return 0, self.most_keys
        return self.patterns[0][1] * pattern.level_rows, pattern.left + pattern.right

    @property
    def only_band(self) -> Band | None:
        """The band, if that is what the problem is."""
        return self._only if isinstance(self._only, Band) else None

    @property
    def stacked_requests(self) -> PrefixedRequests | None:
        """The stacked requests, if that is what the problem is."""
        return self._only if isinstance(self._only, PrefixedRequests) else None

    def key_loads(self, query_tile: Counts) -> Counts:
        """Keys read when every tile of queries reads the keys it needs (U)."""
        if self._only is not None:
            return self._only.key_loads(query_tile)
        return self._sum(lambda pattern: pattern.key_loads(query_tile), query_tile)

    def row_visits(self, key_tile: Counts) -> Counts:
        """Rows visited when every tile of keys visits the rows that need one of them (V)."""
        if self._only is not None:
            return self._only.row_visits(key_tile)
        return self._sum(lambda pattern: pattern.row_visits(key_tile), key_tile)

    def tile_rows(self, query_tile: Counts, key_tile: Counts) -> Counts:
        """Sum over query tiles of (rows in the tile) x (key tiles it meets) (T)."""
        if self._only is not None:
            return self._only.tile_rows(query_tile, key_tile)
        return self._sum(lambda pattern: pattern.tile_rows(query_tile, key_tile), query_tile, key_tile)

    def loads_and_floor(self, query_tiles: Counts, key_tiles: Counts) -> tuple[Counts, Counts]:
        """The key_loads of arrays of tiles, and numbers that tile_rows does not go below."""
        if self._only is not None:
            loads = self._only.key_loads(query_tiles)
            return loads, self._only.tile_rows_floor(query_tiles, key_tiles, loads)
        stacked = self._stack
        loads, floor = 0 * query_tiles, 0 * query_tiles
        for pattern, times in self.patterns if stacked is None else (stacked,):
            each = pattern.key_loads(query_tiles)
            least = times * pattern.tile_rows_floor(query_tiles, key_tiles, each)
            loads = loads + (times * each if stacked is None else (times * each).sum(axis=0))
            floor = floor + (least if stacked is None else least.sum(axis=0))
        return loads, floor

    def live_rows(self, query_tile: Counts) -> Counts:
        """Rows in query tiles that need at least one key (L)."""
        if self._only is not None:
            return self._only.live_rows(query_tile)
        return self._sum(lambda pattern: pattern.live_rows(query_tile), query_tile)

    def scores_beyond(self, resident: Counts) -> Counts:
        """Sum over rows of the scores past the first ``resident`` of that row (X)."""
        if self._only is not None:
            return self._only.scores_beyond(resident)
        return self._sum(lambda pattern: pattern.scores_beyond(resident), resident)

    @property
    def arrays_at_once(self) -> int:
        """How many tiles to ask about in one call, so that arrays stay in cache."""
        return max(1, 2**16 // len(self.patterns))

    def _total(self, name: str) -> int:
        """A count of every pattern, added up."""
        if self._only is not None:
            return int(getattr(self._only, name))
        return sum(int(getattr(pattern, name)) * times for pattern, times in self.patterns)

    @lazy
    def _only(self) -> Pattern | None:
        """The pattern, if there is just one, just once: most workloads, and worth a shorter way."""
        return self.patterns[0][0] if len(self.patterns) == 1 and self.patterns[0][1] == 1 else None

    @lazy
    def _stack(self) -> tuple[Band, NDArray[np.int64]] | None:
        """All bands as one band of arrays, with how often each occurs; None if that does not pay or is not possible."""
        if len(self.patterns) < _FEW or not all(isinstance(p, Band) for p, _ in self.patterns):
            return None
        names = ("rows", "keys", "left", "right", "shift")
        fields = {name: np.array([[getattr(p, name)] for p, _ in self.patterns], dtype=np.int64) for name in names}
        return Band(**fields), np.array([[times] for _, times in self.patterns], dtype=np.int64)

    def _sum(self, count: Callable[[Pattern], Counts], *tiles: Counts) -> Counts:
        if self._stack is None:
            return sum(times * count(pattern) for pattern, times in self.patterns)
        band, often = self._stack
        totals = (often * count(band)).sum(axis=0)
        return totals if any(np.ndim(tile) for tile in tiles) else int(totals[0])
