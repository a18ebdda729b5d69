"""All the problems of a workload together: counts of their patterns added up, shapes for the largest buffer."""

from dataclasses import dataclass, replace
from typing import Any

from attenio.granularity import FREE_TILES, Granularity
from attenio.masks import SharedPrefix
from attenio.masks.patterns import Band, Pattern
from attenio.masks.patterns.lazy import lazy
from attenio.planning.problems.counts import PatternCounts
from attenio.planning.problems.floors import PatternFloors
from attenio.planning.words.form import Sizes
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Problems:
    """Patterns that one query head meets, and how often all of that happens.

    ``counts`` has the patterns and what they add up to, ``floors`` what searches ask beside it. ``runs`` is per KV head
    and sequence: counts are for one query head, and every dataflow says how often its words occur in a group of
    ``group`` heads. ``held_words`` stay while the rows of a KV head pass, and ``loaded_once`` move once, of all KV
    heads.
    """

    counts: PatternCounts
    runs: int
    group: int
    d: int
    value_dim: int
    intermediate_words: int
    granularity: Granularity = FREE_TILES
    values_in_keys: bool = False
    entries_per_word: int = 1
    held_words: int = 0
    loaded_once: int = 0

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
            counts=PatternCounts(patterns),
            runs=runs,
            group=workload.group,
            d=workload.d,
            value_dim=workload.value_dim,
            intermediate_words=workload.accumulator_words,
            granularity=granularity,
            values_in_keys=workload.values_in_keys,
            entries_per_word=workload.entries_per_word,
            held_words=workload.held_words,
            loaded_once=workload.kv_heads * workload.once_words,
        )

    def held_by(self, workload: Workload) -> "Problems":
        """The same with what this workload holds: the same problems are asked about in both directions."""
        held, once = workload.held_words, workload.kv_heads * workload.once_words
        known = (held, once) == (self.held_words, self.loaded_once)
        return self if known else replace(self, held_words=held, loaded_once=once)

    @lazy
    def transposed(self) -> "Problems":
        """Rows and keys exchanged, for dataflows that keep keys."""
        across, turned = tuple((p.transposed, times) for p, times in self.counts.patterns), self.granularity.transposed
        # Of dense and symmetric windows one answer does for both ways; larger patterns take long to compare.
        alike = self.counts.only_band is not None and across == self.counts.patterns and turned == self.granularity
        return self if alike else self._with(PatternCounts(across), turned)

    def _with(self, counts: PatternCounts, granularity: Granularity) -> "Problems":
        """The same for other patterns: every plan asks, and no field has to be looked at again."""
        other = object.__new__(Problems)
        fields = {name: self.__dict__[name] for name in Problems.__dataclass_fields__}
        other.__dict__.update(fields, counts=counts, granularity=granularity)
        return other

    @lazy
    def heads_as_rows(self) -> "Problems":
        """The heads of a group one under the other, as gradients have them where every row needs every key.

        All that a head by itself may do rows of one head may, and tiles of rows need not end where heads do.
        """
        if self.group == 1 or not all(bool(p.is_dense) for p, _ in self.counts.patterns):
            return self
        rows = tuple((Band.dense(self.group * p.rows, p.keys), times) for p, times in self.counts.patterns)
        return replace(self, counts=PatternCounts(rows), group=1)

    @lazy
    def floors(self) -> PatternFloors:
        """Numbers that the counts do not go below."""
        return PatternFloors(self.counts)

    @lazy
    def answers(self) -> dict[object, Any]:
        """What several searches ask about these problems, by question, so that it is looked for once."""
        return {}

    @lazy
    def unmasked(self) -> "Problems":
        """The same shapes with every score required, for operators that are blind to the mask."""
        every = tuple((Band.dense(p.rows, p.keys), times) for p, times in self.counts.patterns)
        alike = self.counts.only_band is not None and every == self.counts.patterns
        return self if alike else self._with(PatternCounts(every), self.granularity)

    @lazy
    def sizes(self) -> Sizes:
        """The widths that words depend on; where values are part of keys both are one latent."""
        per_word = self.entries_per_word
        key_words = (self.d if self.values_in_keys else self.d + self.value_dim) // per_word
        return Sizes(self.d, self.value_dim, key_words, self.intermediate_words, self.group, per_word)
