"""The red-blue pebble game on a graph: which rules, and how many red pebbles.

A red pebble marks a value in fast memory, a blue one a value in slow memory. Loading and storing cost the words of the
value; computing and deleting are free. Blue pebbles lie on the inputs at the start and on the outputs at the end.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")], name="addition")
>>> Game(graph=graph, red=3).fewest_red
3
>>> Game(graph=graph, red=2)
Traceback (most recent call last):
attenio.errors.InvalidInput: addition needs at least 3 red pebbles: sum and its 2 parents are red at once; 2 given
>>> Game(graph=graph, red=2, sliding=True).variant.value
'standard'
"""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import assert_never

import numpy as np

from attenio.errors import InvalidInput
from attenio.names import checked_kind, member_named
from attenio.pebbling.graph import ComputationGraph
from attenio.quantities import checked_count

_MOST_RED = 2**40


class Variant(Enum):
    """What may be computed, and how often."""

    STANDARD = "standard"  # any value as often as one likes [Hong and Kung 1981]
    ONE_SHOT = "one-shot"  # every value once
    PARTIAL = "partial"  # every edge once: a value is filled parent by parent [Papp, Sobczyk, Yzelman 2025]


@dataclass(frozen=True, kw_only=True, eq=False)
class Game:
    """A graph, the words of fast memory (red pebbles, counted by weight) and the rules.

    ``sliding`` lets a computed value take the place of one of its parents, as accumulating in place does. The partial
    game accumulates in place anyway.
    """

    graph: ComputationGraph
    red: int
    variant: Variant = Variant.STANDARD
    sliding: bool = False

    def __post_init__(self) -> None:
        checked_kind(self.graph, ComputationGraph, "graph", "a ComputationGraph, such as fft(8)")
        object.__setattr__(self, "variant", member_named(Variant, self.variant, "game"))
        checked_count("red pebbles", self.red, most=_MOST_RED)
        if self.sliding and self.variant is Variant.PARTIAL:
            raise InvalidInput("the partial game has no sliding: it accumulates in place; leave sliding out")
        if self.red < self.fewest_red:
            raise InvalidInput(
                f"{self.graph.name} needs at least {self.fewest_red:,} red pebbles: {self._tightest};"
                f" {self.red:,} given"
            )

    @cached_property
    def _needs(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Words that are red at once when each vertex is computed; 0 where nothing has to be."""
        graph, starts = self.graph, self.graph.parent_starts
        weights, flat = graph.weights, graph.parent_numbers
        computed = np.flatnonzero((np.diff(starts) > 0) & graph.useful)
        needs = np.zeros(len(graph), dtype=np.int64)
        if len(computed):
            # reduceat over the vertices with parents only: an empty range would read its neighbour's first parent
            begins = starts[computed]
            ends = starts[computed + 1]
            sums = np.concatenate([[0], np.cumsum(weights[flat])])
            together = sums[ends] - sums[begins]
            filled = np.flatnonzero(np.diff(starts) > 0)
            heaviest = np.zeros(len(graph), dtype=np.int64)
            heaviest[filled] = np.maximum.reduceat(weights[flat], starts[filled].astype(np.intp, copy=False))
            own = weights[computed]
            match self.variant:
                case Variant.PARTIAL:
                    needs[computed] = heaviest[computed] + own
                case Variant.STANDARD | Variant.ONE_SHOT if self.sliding:
                    needs[computed] = np.maximum(together, together - heaviest[computed] + own)
                case Variant.STANDARD | Variant.ONE_SHOT:
                    needs[computed] = together + own
                case _:
                    assert_never(self.variant)
        return needs

    @property
    def fewest_red(self) -> int:
        """The least number of red pebbles with which the game can be won: whatever else is kept can be stored."""
        return max(1, int(self._needs.max()))

    @property
    def _tightest(self) -> str:
        vertex = int(self._needs.argmax())
        name, count = self.graph.names[vertex], len(self.graph.parents[vertex])
        if self.variant is Variant.PARTIAL:
            return f"{name} and one parent are red at once"
        own = "" if self.sliding else f"{name} and "
        its = f"the parents of {name}" if self.sliding else "its parent" if count == 1 else f"its {count} parents"
        return f"{own}{its} are red at once"
