"""Plans of many cases of one pass, one array a quantity."""

from dataclasses import dataclass

import numpy as np

from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import NOTHING, Ints
from attenio.planning.sweeping.columns import ABSENT, DATAFLOWS
from attenio.planning.sweeping.forms import Plans


@dataclass
class Solution:
    """The best plan of every case so far; ``dataflow`` is a position in DATAFLOWS, ABSENT where there is no plan.

    ``words`` are those of one KV head of one sequence, NOTHING where there is no plan. Of plans that move the same the
    one of the least ``rank`` is taken, in whatever order they come.
    """

    words: Ints
    peak: Ints
    dataflow: Ints
    rank: Ints
    tiles: dict[str, Ints]

    @classmethod
    def empty(cls, count: int, tile_names: tuple[str, ...]) -> "Solution":
        """No plan yet for any case."""
        return cls(
            words=np.full(count, NOTHING, dtype=np.int64),
            peak=np.zeros(count, dtype=np.int64),
            dataflow=np.full(count, ABSENT, dtype=np.int64),
            rank=np.full(count, ABSENT, dtype=np.int64),
            tiles={name: np.full(count, ABSENT, dtype=np.int64) for name in tile_names},
        )

    def limit(self, rank: int) -> Ints:
        """The words that a plan of this rank may have at most to be better than the best so far."""
        return self.words - (self.rank < rank)

    def offer(self, index: Ints, entrant: tuple[int, Dataflow], plans: Plans) -> None:
        """Take the plans, of a dataflow and its rank, of some cases in which they are better than the best so far."""
        rank, dataflow = entrant
        better = np.flatnonzero(plans.words <= self.limit(rank)[index])
        chosen = index[better]
        self.words[chosen], self.peak[chosen] = plans.words[better], plans.peak[better]
        self.dataflow[chosen], self.rank[chosen] = DATAFLOWS.index(dataflow), rank
        for name, values in self.tiles.items():
            values[chosen] = plans.sizes[name][better] if name in plans.sizes else ABSENT

    def put(self, index: Ints, part: "Solution") -> None:
        """Take the plans of some cases from a solution of just these."""
        self.words[index], self.peak[index] = part.words, part.peak
        self.dataflow[index], self.rank[index] = part.dataflow, part.rank
        for name, sizes in part.tiles.items():
            self.tiles[name][index] = sizes

    def numbers(self) -> dict[str, Ints]:
        """The plans column by column."""
        return {"dataflow": self.dataflow, **self.tiles, "moved_words": self.words, "peak_words": self.peak}
