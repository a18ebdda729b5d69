"""Plans of many cases of one pass, one array a quantity."""

from dataclasses import dataclass

import numpy as np

from attenio.masks.patterns.pattern import Counts
from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import NOTHING, Ints
from attenio.planning.sweeping.columns import ABSENT, DATAFLOWS, names_of_forms
from attenio.planning.sweeping.forms import Plans


@dataclass
class Solution:
    """The best plan of every case so far; ``dataflow`` is a position in DATAFLOWS, ABSENT where there is no plan.

    ``words`` are those of one KV head of one sequence, NOTHING where there is no plan. Of plans that move the same the
    one of the least ``rank`` is taken, in whatever order they come. No plan moves fewer words than ``compulsory`` ones.
    ``sizes`` has the tiles of a case in a row, in the order of their names, which ``form`` is the position of.
    """

    words: Ints
    peak: Ints
    dataflow: Ints
    rank: Ints
    form: Ints
    sizes: Ints
    compulsory: Counts

    @classmethod
    def empty(cls, count: int, compulsory: Counts = 0) -> "Solution":
        """No plan yet for any case."""
        words, peak = (np.full(count, number, dtype=np.int64) for number in (NOTHING, 0))
        dataflow, rank, form = (np.full(count, ABSENT, dtype=np.int64) for _ in range(3))
        sizes = np.empty((count, max(map(len, names_of_forms()))), dtype=np.int64)
        return cls(words, peak, dataflow, rank, form, sizes, compulsory)

    def limit(self, rank: int, index: Ints | slice = slice(None)) -> Ints:
        """The words that a plan of this rank may have at most to be better than the best so far; -1 if none can."""
        limit = self.words[index] - (self.rank[index] < rank)
        limit[limit < (self.compulsory[index] if isinstance(self.compulsory, np.ndarray) else self.compulsory)] = -1
        return limit

    def may_change(self, rank: int) -> Ints:
        """The cases in which a plan of this rank, or of a later one, may be better."""
        return np.flatnonzero((self.words > self.compulsory) | (self.rank >= rank))

    def offer(self, index: Ints, entrant: tuple[int, Dataflow, tuple[str, ...]], plans: Plans) -> None:
        """Take the plans, of a dataflow, its rank and these tiles, of some cases where they beat the best so far."""
        rank, dataflow, names = entrant
        better = np.flatnonzero(plans.words <= self.limit(rank, index))
        chosen = index[better]
        self.words[chosen], self.peak[chosen] = plans.words[better], plans.peak[better]
        self.dataflow[chosen], self.rank[chosen] = DATAFLOWS.index(dataflow), rank
        self.form[chosen] = names_of_forms().index(names)
        for place, name in enumerate(names):
            self.sizes[chosen, place] = plans.sizes[name][better]

    def put(self, index: Ints, part: "Solution") -> None:
        """Take the plans of some cases from a solution of just these."""
        self.words[index], self.peak[index] = part.words, part.peak
        self.dataflow[index], self.rank[index] = part.dataflow, part.rank
        self.form[index], self.sizes[index] = part.form, part.sizes

    def numbers(self, tile_names: tuple[str, ...]) -> dict[str, Ints]:
        """The plans column by column."""
        tiles = {name: np.full(len(self.words), ABSENT, dtype=np.int64) for name in tile_names}
        found = np.flatnonzero(np.bincount(self.form - ABSENT)) + ABSENT
        for form in found[found != ABSENT].tolist():
            index = np.flatnonzero(self.form == form)
            for place, name in enumerate(names_of_forms()[form]):
                tiles[name][index] = self.sizes[index, place]
        return {"dataflow": self.dataflow, **tiles, "moved_words": self.words, "peak_words": self.peak}
