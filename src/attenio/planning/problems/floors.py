"""What a search for tiles wants to know of patterns beside their counts: floors, and where counts bend."""

from dataclasses import dataclass

from attenio.masks.patterns import Band
from attenio.masks.patterns.lazy import lazy
from attenio.masks.patterns.pattern import Counts
from attenio.planning.problems.counts import PatternCounts


@dataclass(frozen=True)
class PatternFloors:
    """Numbers that counts do not go below, and the tiles between which they are concave."""

    counts: PatternCounts

    def most_live_rows(self, query_tile: int) -> int:
        """A number that live_rows does not exceed for tiles up to this one.

        The rows of a band that need a key follow each other, so that two tiles at most have others beside them.
        """
        if self.counts.only_band is None and not all(isinstance(pattern, Band) for pattern, _ in self.counts.patterns):
            return self.counts.rows
        return min(self.counts.rows, self.counts.touched_rows + 2 * self.counts.sequences * (query_tile - 1))

    @lazy
    def key_load_floors(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (constant, area, lost): key_loads(a) is at least constant + area/a - lost*a for every a."""
        if self.counts.only is not None:
            return self.counts.only.key_load_floors
        each = [[[times * x for x in floor] for floor in p.key_load_floors] for p, times in self.counts.patterns]
        totals = [tuple(map(sum, zip(*same, strict=True))) for same in zip(*each, strict=True)]
        return tuple((int(constant), int(area), int(lost)) for constant, area, lost in totals)

    def least_key_loads(self, query_tile: int) -> int:
        """A number that key_loads does not go below for tiles up to this one."""
        least = self.counts.touched_keys
        for constant, area, lost in self.key_load_floors:
            least = max(least, constant - (-area // query_tile) - lost * query_tile)
        return least

    @lazy
    def moving_ends(self) -> tuple[int, int]:
        """Rows over which ends of needed keys move, and how many such stretches there are; bands only."""
        bands = [(p, times) for p, times in self.counts.patterns if isinstance(p, Band)]
        stretches = [(length, times) for band, times in bands for length in band.moving_ends]
        return sum(length * times for length, times in stretches), sum(times for length, times in stretches if length)

    @lazy
    def kinks(self) -> tuple[int, ...] | None:
        """Ends of the pieces on which all counts are concave (see ``Pattern.kinks``), or None if unknown."""
        numbers: set[int] = set()
        for pattern, _ in self.counts.patterns:
            if pattern.kinks is None:
                return None
            numbers.update(pattern.kinks)
        return tuple(sorted(numbers - {0}, reverse=True))

    def run_kinks(self, width: int) -> tuple[int, ...] | None:
        """The same with tile_rows(a, width) among the counts, for a width of at least half the keys."""
        numbers: set[int] = set()
        for pattern, _ in self.counts.patterns:
            if not isinstance(pattern, Band):
                return None
            numbers.update(pattern.kinks, pattern.run_kinks(width))
        return tuple(sorted((x for x in numbers if x > 0), reverse=True))

    @lazy
    def level(self) -> tuple[int, int]:
        """Rows of the only band whose tiles need equally many keys, and by how many more than they have rows."""
        pattern = self.counts.patterns[0][0]
        if len(self.counts.patterns) > 1 or not isinstance(pattern, Band):
            return 0, self.counts.most_keys
        return self.counts.patterns[0][1] * pattern.level_rows, pattern.left + pattern.right

    def loads_and_floor(self, query_tiles: Counts, key_tiles: Counts) -> tuple[Counts, Counts]:
        """The key_loads of arrays of tiles, and numbers that tile_rows does not go below."""
        if self.counts.only is not None:
            loads = self.counts.only.key_loads(query_tiles)
            return loads, self.counts.only.tile_rows_floor(query_tiles, key_tiles, loads)
        stacked = self.counts.stack
        loads, floor = 0 * query_tiles, 0 * query_tiles
        for pattern, times in self.counts.patterns if stacked is None else (stacked,):
            each = pattern.key_loads(query_tiles)
            least = times * pattern.tile_rows_floor(query_tiles, key_tiles, each)
            loads = loads + (times * each if stacked is None else (times * each).sum(axis=0))
            floor = floor + (least if stacked is None else least.sum(axis=0))
        return loads, floor

    @property
    def arrays_at_once(self) -> int:
        """How many tiles to ask about in one call, so that arrays stay in cache."""
        return max(1, 2**16 // len(self.counts.patterns))
