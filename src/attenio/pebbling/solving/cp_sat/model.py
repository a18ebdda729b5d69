"""The integer program: which vertices are loaded, computed, kept and stored in which phase.

Every schedule can be made, without a word more, into one in which no move is pointless, each computation is as late as
possible, each load comes right before the computation that first reads it and each store right after the computation
that last changed the value. Such a schedule falls into phases of loads and a burst of computations and stores, and
satisfies all constraints below. Inside a
burst the constraints only ask that what an item reads is red at the start or computed in the burst, and that what is
kept throughout leaves room for every item; so the least cost of the program is a lower bound, provided that it has as
many phases as a schedule within its budget can have (``Task.most_phases``). Clauses that hold for every possible burst
and exclude impossible ones (reasons found by ``why_not_once`` and ``why_not_again``) are added as they are needed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from attenio.errors import MissingExtra
from attenio.pebbling.game import Variant
from attenio.pebbling.solving.automorphisms import Link
from attenio.pebbling.solving.cp_sat.bursts import Burst
from attenio.pebbling.solving.cp_sat.phases import Item, Phase, Task, Tick, unlimited

try:
    from ortools.sat.python import cp_model
except ImportError as absent:
    raise MissingExtra("the integer program for pebble games", "pebble") from absent

# a Boolean variable or its negation
Literal = Any


@dataclass(frozen=True, kw_only=True)
class Clause:
    """True of every possible phase: some of ``start`` is red before, or some of the rest is not done.

    ``items`` are computed and ``stored`` stored in the phase, ``kept`` are red at its end, ``held`` at its start.
    """

    items: tuple[Item, ...] = ()
    kept: frozenset[int] = frozenset()
    stored: frozenset[int] = frozenset()
    held: frozenset[int] = frozenset()
    start: frozenset[int] = frozenset()

    @classmethod
    def against(cls, burst: Burst) -> "Clause":
        """Not all of this burst in one phase."""
        return cls(items=burst.items, kept=burst.end, held=burst.start)


class PhaseProgram:
    """Booleans for a number of phases and a budget in words; ``phases`` reads a solution."""

    def __init__(self, task: Task, budget_words: int, links: Sequence[Link], tick: Tick = unlimited) -> None:
        self.task, self.variant, self.tick = task, task.game.variant, tick
        self.parents = task.game.graph.parents
        self.model = cp_model.CpModel()
        self.count = task.most_phases(budget_words)
        self.computed = [v for v in task.vertices if self.parents[v]]
        self.writers: dict[int, list[Item]] = {v: [] for v in task.vertices}
        self.readers: dict[int, list[Item]] = {v: [] for v in task.vertices}
        for item in task.items:
            self.writers[item.vertex].append(item)
            for parent in item.reads:
                self.readers[parent].append(item)
        self.used = [self._new(f"used {t}") for t in range(self.count)]
        self.load = self._grid("load", task.vertices)
        self.start = self._grid("start", task.vertices)
        self.act = self._grid("act", task.items)
        self.end = self._grid("end", task.vertices)
        self.store = self._grid("store", self.computed)
        self.touched = self._touched()
        for t in range(self.count):
            self._burst(t)
            self._room(t)
        self._between()
        if self.variant is Variant.PARTIAL:
            self._edges_once()
            self._begun_and_blue()
        else:
            self._values()
        self._first_of_equals(links)
        self._budget(budget_words)

    def exclude(self, clause: Clause) -> None:
        """Add a clause to every phase."""
        for t in range(self.count):
            self.model.add_bool_or(
                [self.start[t][v] for v in clause.start]
                + [~self.act[t][item] for item in clause.items]
                + [~self.end[t][v] for v in clause.kept]
                + [~self.store[t][v] for v in clause.stored]
                + [~self.start[t][v] for v in clause.held]
            )

    def phases(self, value: Callable[[Literal], bool]) -> list[Phase]:
        """The phases of a solution whose values are looked up by ``value``."""
        read = []
        for t in range(self.count):
            if not value(self.used[t]):
                break
            loads = tuple(v for v, variable in self.load[t].items() if value(variable))
            items = tuple(item for item, variable in self.act[t].items() if value(variable))
            stores = tuple(v for v, variable in self.store[t].items() if value(variable))
            start = frozenset(v for v, variable in self.start[t].items() if value(variable))
            end = frozenset(v for v, variable in self.end[t].items() if value(variable))
            read.append(Phase(loads=loads, start=start, items=items, end=end, stores=stores))
        return read

    def _new(self, name: str) -> Literal:
        return self.model.new_bool_var(name)

    def _grid(self, name: str, keys: Iterable[Any]) -> list[dict[Any, Literal]]:
        listed = list(keys)
        grid = []
        for t in range(self.count):
            self.tick()
            grid.append({key: self._new(f"{name} {key} in {t}") for key in listed})
        return grid

    def _touched(self) -> list[dict[int, Literal]]:
        """Whether a vertex is computed, or partly computed, in a phase."""
        if self.variant is not Variant.PARTIAL:
            return [{item.vertex: variable for item, variable in row.items()} for row in self.act]
        touched = self._grid("touched", self.computed)
        for t, v in ((t, v) for t in range(self.count) for v in self.computed):
            acts = [self.act[t][item] for item in self.writers[v]]
            for act in acts:
                self.model.add_implication(act, touched[t][v])
            self.model.add_bool_or([*acts, ~touched[t][v]])
        return touched

    def _if(self, *conditions: Literal, then: Iterable[Literal] = ()) -> None:
        """If all conditions hold, so does one of the rest."""
        self.model.add_bool_or([*(~condition for condition in conditions), *then])

    def _fresh(self, t: int, v: int) -> list[Literal]:
        return [self.touched[t][v]] if self.parents[v] else []

    def _burst(self, t: int) -> None:
        """What is read is there, and nothing is pointless."""
        self.tick()
        for item in self.task.items:
            act = self.act[t][item]
            self.model.add_implication(act, self.used[t])
            for parent in item.reads:
                self._if(act, then=[self.start[t][parent], *self._fresh(t, parent)])
        self._if(self.used[t], then=self.act[t].values())
        for v in self.task.vertices:
            start, end, load = self.start[t][v], self.end[t][v], self.load[t][v]
            uses = [self.act[t][item] for item in self.readers[v]]
            if self.variant is Variant.PARTIAL:
                uses += self._fresh(t, v)
            self._if(end, then=[start, *self._fresh(t, v)])
            self.model.add_implication(load, start)
            self._if(load, then=uses)
            self._if(start, then=[end, *uses])
        for v in self.computed:
            self.model.add_implication(self.store[t][v], self.touched[t][v])

    def _room(self, t: int) -> None:
        """The red words at the start, and for every item those kept throughout beside its own."""
        red, weights, sliding = self.task.game.red, self.task.weights, self.task.game.sliding
        self.model.add(sum(weights[v] * self.start[t][v] for v in self.task.vertices) <= red)
        kept: dict[int, Literal] = {}
        for v in self.task.vertices:
            kept[v] = self._new(f"kept {v} in {t}")
            # a value computed again in the burst may have been gone in between
            again = self._fresh(t, v) if self.variant is Variant.STANDARD else []
            self._if(self.start[t][v], self.end[t][v], then=[kept[v], *again])
        for item in self.task.items:
            own = weights[item.vertex] + self.task.words(item.reads)
            if sliding:
                heaviest = max(weights[u] for u in item.reads)
                own = max(own - weights[item.vertex], own - heaviest)
            beside = [v for v in self.task.vertices if v != item.vertex and v not in item.reads]
            if own + self.task.words(beside) > red:
                room = self.model.add(sum(weights[v] * kept[v] for v in beside) <= red - own)
                room.only_enforce_if(self.act[t][item])

    def _between(self) -> None:
        """From one phase to the next: what is red was kept or is loaded, and something is loaded."""
        self.model.add(self.used[0] == 1)
        for v in self.task.vertices:
            self._if(self.start[0][v], then=[self.load[0][v]])
            self.model.add(self.end[-1][v] == 0)
        for before, t in pairwise(range(self.count)):
            self.model.add_implication(self.used[t], self.used[before])
            self._if(self.used[t], then=self.load[t].values())
            for v in self.task.vertices:
                self._if(self.start[t][v], then=[self.load[t][v], self.end[before][v]])
                self._if(self.load[t][v], self.end[before][v])
                self.model.add_implication(self.end[before][v], self.start[t][v])
                if not self.readers[v]:
                    # nothing reads it, so once stored it is deleted
                    self._if(self.store[before][v], self.end[before][v])
            for item in self.task.items:
                self._late(before, item)

    def _late(self, t: int, item: Item) -> None:
        """An item whose value nothing uses yet, and whose parents all stay, could as well come in the next phase."""
        uses = [self.act[t][reader] for reader in self.readers[item.vertex]]
        stay = [self.end[t][v] for v in (item.vertex, *item.reads)]
        self._if(self.act[t][item], *stay, then=[self.store[t][item.vertex], *uses])

    def _values(self) -> None:
        """Blue pebbles and computations when a value is computed as a whole."""
        once = self.variant is Variant.ONE_SHOT
        for v in self.computed:
            stores = [row[v] for row in self.store]
            if v in self.task.outputs:
                self.model.add_exactly_one(stores)
            else:
                self.model.add_at_most_one(stores)
            acts = [row[v] for row in self.touched]
            (self.model.add_exactly_one if once else self.model.add_at_least_one)(acts)
            for t in range(self.count):
                self._if(self.load[t][v], then=stores[:t])
                if v not in self.task.outputs:
                    self._if(stores[t], then=[row[v] for row in self.load[t + 1 :]])
                self._if(acts[t], then=[self.end[t][v], stores[t], *(self.act[t][item] for item in self.readers[v])])
                if once:
                    self._if(acts[t], self.start[t][v])

    def _edges_once(self) -> None:
        """In the partial game: every edge once, and only out of what is finished."""
        for item in self.task.items:
            acts = [row[item] for row in self.act]
            self.model.add_exactly_one(acts)
            for t, act in enumerate(acts):
                for earlier in self.writers[item.reads[0]]:
                    self._if(act, then=[row[earlier] for row in self.act[: t + 1]])

    def _begun_and_blue(self) -> None:
        """In the partial game: taking in clears blue, and an unsaved value is deleted only when nothing needs it."""
        begun = [*self._grid("begun", self.computed), {v: self._new(f"begun {v}") for v in self.computed}]
        blue = [*self._grid("blue", self.computed), {v: self._new(f"blue {v}") for v in self.computed}]
        for v in self.computed:
            self.model.add(begun[0][v] == 0)
            self.model.add(blue[0][v] == 0)
            if v in self.task.outputs:
                self.model.add(blue[-1][v] == 1)
            for t in range(self.count):
                touched, store, start = self.touched[t][v], self.store[t][v], self.start[t][v]
                self.model.add_implication(begun[t][v], begun[t + 1][v])
                self.model.add_implication(touched, begun[t + 1][v])
                self._if(begun[t + 1][v], then=[begun[t][v], touched])
                self._if(touched, begun[t][v], then=[start])
                self.model.add_implication(start, begun[t][v])
                self.model.add_implication(self.load[t][v], blue[t][v])
                self.model.add_implication(store, blue[t + 1][v])
                self._if(blue[t + 1][v], then=[store, blue[t][v]])
                self._if(blue[t + 1][v], touched, then=[store])
                self._if(blue[t][v], then=[touched, blue[t + 1][v]])
                self._unsaved(t, v, blue[t][v])

    def _unsaved(self, t: int, v: int, blue: Literal) -> None:
        for conditions in ((self.touched[t][v],), (self.start[t][v], ~blue)):
            saved = [self.end[t][v], self.store[t][v]]
            if v in self.task.outputs:
                self._if(*conditions, then=saved)
            for item in self.readers[v]:
                self._if(*conditions, then=[*saved, *(row[item] for row in self.act[: t + 1])])

    def _first_of_equals(self, links: Sequence[Link]) -> None:
        """Of vertices that can be exchanged, the fixed one is loaded or computed first (``symmetry``)."""
        by: dict[int, list[Literal]] = {}
        for link in links:
            for v in (link.fixed, *link.images):
                if v not in by:
                    by[v] = self._by(v)
            for v in link.images:
                for earlier, later in zip(by[link.fixed], by[v], strict=True):
                    self.model.add_implication(later, earlier)

    def _by(self, v: int) -> list[Literal]:
        """Whether a vertex has been loaded (an input) or computed in a phase or before it."""
        by: list[Literal] = []
        for t, row in enumerate(self.touched if self.parents[v] else self.load):
            by.append(self._new(f"{v} by {t}"))
            self.model.add_implication(row[v], by[t])
            if t:
                self.model.add_implication(by[t - 1], by[t])
            self._if(by[t], then=[row[v], *by[t - 1 : t]])
        return by

    def _budget(self, budget_words: int) -> None:
        weights = self.task.weights
        for v in self.task.needed:
            self.model.add_at_least_one(row[v] for row in self.load)
        self.cost = sum(weights[v] * x for row in (*self.load, *self.store) for v, x in row.items())
        self.model.add(self.cost <= budget_words)
        if len({weights[v] for v in self.task.vertices}) > 1:
            self.model.minimize(self.cost)
