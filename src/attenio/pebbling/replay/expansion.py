"""What one event of a run means on the graph: which values it loads, stores and computes, in which order.

Values are found by their names, from the row, key and column numbers of the event: what the graph has not, because a
mask hides it or because it is a sum of one term, is not computed. The referee alone judges whether it all fits.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice, product
from typing import assert_never

from attenio.memory import Event, EventKind, Step
from attenio.pebbling.replay.problems import PebbledProblem
from attenio.pebbling.schedule import MoveKind

# The state of a row that a run may leave in slow memory and take up again: matrix, row, column.
Place = tuple[str, int, int]
# What the parts of a row's state are called in slow memory.
_STATE = {"partial O": "O", "max": "max", "sum": "sum"}


class Expansion:
    """Events of one problem as moves on its graph, in turn: it remembers which value each row's state has reached."""

    def __init__(self, problem: PebbledProblem) -> None:
        self._head, self._graph = problem.head, problem.graph
        self._numbers = {name: number for number, name in enumerate(problem.graph.names)}
        # Probabilities that are exponentiated by themselves are those by settled maxima if the graph has any.
        self._settled = ";settled" if any(name.endswith(";settled]") for name in problem.graph.names) else ""
        self._last_key = [problem.head.needed_keys(row)[-1] for row in range(problem.head.rows)]
        self._held: dict[Place, int] = {}
        self._slow: dict[Place, int] = {}
        # How many splits of a row have been joined, and the state they have reached together.
        self._joined: Counter[int] = Counter()
        self._whole: dict[Place, int] = {}

    def moves(self, event: Event) -> list[tuple[MoveKind, int]]:
        """The loads, stores and computations that the event makes."""
        match event.kind:
            case EventKind.LOAD:
                return [(MoveKind.LOAD, vertex) for vertex in self._loaded(event)]
            case EventKind.STORE:
                return [(MoveKind.STORE, vertex) for vertex in self._stored(event)]
            case EventKind.COMPUTE:
                return [(MoveKind.COMPUTE, vertex) for vertex in self._computed(event)]
            case EventKind.RESERVE | EventKind.RELEASE:
                return []
            case _:
                assert_never(event.kind)

    def _loaded(self, event: Event) -> Iterator[int]:
        for row, column in _cells(event):
            if event.operand not in _STATE:
                yield self._numbers[f"{event.operand}[{row},{column}]"]
                continue
            vertex = self._slow[event.operand, row, column]
            self._held[_STATE[event.operand], row % self._head.rows, column] = vertex
            yield vertex

    def _stored(self, event: Event) -> Iterator[int]:
        for row, column in _cells(event):
            if event.operand in ("S", "P"):
                yield self._numbers[f"{event.operand}[{row},{column}]"]
                continue
            # Splits lie one under the other in slow memory.
            vertex = self._held[_STATE.get(event.operand, event.operand), row % self._head.rows, column]
            self._slow[event.operand, row, column] = vertex
            yield vertex

    def _computed(self, event: Event) -> Iterator[int]:
        rows, columns, inner = event.rows.tolist(), event.columns.tolist(), event.inner.tolist()
        match event.step:
            case Step.SCORES:
                return self._scores(rows, columns, inner)
            case Step.EXPONENTIAL | Step.PROBABILITIES:
                return self._named(f"P[{i},{j}{self._settled}]" for i, j in product(rows, columns))
            case Step.MAXIMUM:
                return self._row_statistic("max", "S", rows, columns)
            case Step.SUM:
                return self._row_statistic("sum", "P", rows, columns)
            case Step.STATISTICS:
                return self._named(self._stage("statistics", i, j) for i, j in self._required(rows, columns))
            case Step.SOFTMAX:
                return chain.from_iterable(self._softmax(i, columns) for i in rows)
            case Step.SOFTMAX_BY_ROW:
                return chain.from_iterable(self._softmax_by_row(i, columns, inner) for i in rows)
            case Step.ROW_BY_ROW:
                return chain.from_iterable(self._row_by_row(i, j, inner) for i, j in self._required(rows, columns))
            case Step.OUTPUT | Step.RESCALED_OUTPUT:
                rescaled = event.step is Step.RESCALED_OUTPUT
                return self._outputs(product(inner, rows, columns), hidden_too=rescaled)
            case Step.MERGE:
                return chain.from_iterable(self._merge(i, columns) for i in rows)
            case Step.NORMALISE:
                return self._normalise(rows, columns)
            case (
                Step.LOG_SUM_EXP
                | Step.DELTA
                | Step.SCORE_DELTA
                | Step.SAVED_PROBABILITIES
                | Step.VALUE_SCORES
                | Step.SCORE_GRADIENT
                | Step.VALUE_GRADIENT
                | Step.KEY_GRADIENT
                | Step.QUERY_GRADIENT
                | Step.FEATURE_STATE
                | Step.FEATURE_OUTPUT
                | Step.FEATURE_STATE_GRADIENT
                | Step.FEATURE_GRADIENT
            ):
                raise AssertionError("only runs of the forward pass alone are replayed")
            case None:
                raise AssertionError("a computation says what it computes")
            case _:
                assert_never(event.step)

    def _named(self, names: Iterable[str]) -> Iterator[int]:
        """The vertices of these names, as far as the graph has them."""
        return (self._numbers[name] for name in names if name in self._numbers)

    def _required(self, rows: Iterable[int], keys: Iterable[int]) -> Iterator[tuple[int, int]]:
        return ((i, j) for i, j in product(rows, keys) if self._head.required[i, j])

    def _scores(self, rows: list[int], keys: list[int], depths: list[int]) -> Iterator[int]:
        last = self._head.d - 1
        products = product(rows, keys, depths)
        return self._named(f"S[{i},{j}]" if t == last else f"S[{i},{j};{t + 1}]" for i, j, t in products)

    def _stage(self, what: str, i: int, j: int) -> str:
        """A statistic of a whole row after key j; after the last one it is the row's own."""
        return f"{what}[{i}]" if j == self._last_key[i] else f"{what}[{i};{j}]"

    def _row_statistic(self, what: str, of: str, rows: list[int], keys: list[int]) -> Iterator[int]:
        for i, j in self._required(rows, keys):
            yield from self._reach((what, i, 0), self._stage(what, i, j), otherwise=f"{of}[{i},{j}]")

    def _reach(self, place: Place, name: str, *, otherwise: str) -> Iterator[int]:
        """Compute a statistic if the graph has it; the first score or probability stands for itself."""
        yield from self._named([name])
        self._held[place] = self._numbers[name if name in self._numbers else otherwise]

    def _softmax(self, i: int, keys: list[int]) -> Iterator[int]:
        """A run of keys is taken in: the maximum, the factor for what was summed before, probabilities, the sum."""
        own = [j for _, j in self._required([i], keys)]
        for j in own:
            yield from self._reach(("max", i, 0), f"max[{i};{j}]", otherwise=f"S[{i},{j}]")
        yield from self._named(f"rescale[{i};{j}]" for j in own[:1])
        yield from self._named(f"P[{i},{j}]" for j in own)
        for j in own:
            yield from self._reach(("sum", i, 0), f"sum[{i};{j}]", otherwise=f"P[{i},{j}]")
        for j in keys:
            if j not in own and f"P[{i},{j}]" in self._numbers:  # idle: a hidden key that stands for none
                self._held["max", i, 0], self._held["sum", i, 0] = self._named([f"S[{i},{j}]", f"P[{i},{j}]"])
                yield self._held["sum", i, 0]

    def _softmax_by_row(self, i: int, keys: list[int], columns: list[int]) -> Iterator[int]:
        """A row takes in a run of keys, one after the other, and scales what it has, before any value is there."""
        taken: list[int] = []
        for _, j in self._required([i], keys):
            yield from self._named([f"gap[{i};{j}]"])
            yield from self._reach(("max", i, 0), f"max[{i};{j}]", otherwise=f"S[{i},{j}]")
            yield from self._named([f"sum[{i};{j}]"])
            yield from self._named(f"P[{i},{each};scaled {j}]" for each in taken)
            yield from self._named(f"O[{i},{c};scaled {j}]" for c in columns)
            yield from self._named([f"P[{i},{j}]"])
            self._held["sum", i, 0] = self._numbers.get(f"sum[{i};{j}]", self._numbers[f"P[{i},{j}]"])
            taken.append(j)

    def _row_by_row(self, i: int, j: int, columns: list[int]) -> Iterator[int]:
        """A row takes in one key, from its score to its outputs."""
        yield from self._scores([i], [j], list(range(self._head.d)))
        yield from self._softmax(i, [j])
        yield from self._outputs(((j, i, c) for c in columns), hidden_too=False)

    def _outputs(self, products: Iterable[tuple[int, int, int]], *, hidden_too: bool) -> Iterator[int]:
        """Products are added, those of hidden scores only if a state has to be made of them."""
        for j, i, c in products:
            own = bool(self._head.required[i, j])
            names = [f"O[{i},{c};{j}]"] * (own or hidden_too) + [f"O[{i},{c}]"] * own
            for vertex in islice(self._named(names), 1):
                self._held["O", i, c] = vertex
                yield vertex

    def _merge(self, i: int, columns: list[int]) -> Iterator[int]:
        """The split that was loaded last joins those before it; one that the row needs nothing of changes nothing."""
        places = [("max", i, 0), ("sum", i, 0), *(("O", i, c) for c in columns)]
        if not self._graph.useful[self._held["sum", i, 0]]:
            self._held.update({place: self._whole[place] for place in places if place in self._whole})
            return
        number = self._joined[i]
        if number:
            tags = [f"max[{i};split {number}]", f"sum[{i};split {number}]"]
            names = [*tags, *(f"O[{i},{c};split {number}]" for c in columns)]
            yield from self._named([f"gap[{i};split {number}]", *names])
            joined = {place: self._numbers.get(name) for place, name in zip(places, names, strict=True)}
            # The maximum is not joined with the last split: nothing asks for it.
            self._held.update({place: vertex for place, vertex in joined.items() if vertex is not None})
        self._whole.update({place: self._held[place] for place in places})
        self._joined[i] += 1

    def _normalise(self, rows: list[int], columns: list[int]) -> Iterator[int]:
        """Outputs are divided by their sums; a row that is to meet further keys has been stored before."""
        for i, c in product(rows, columns):
            final = self._numbers[f"O[{i},{c}]"]
            if self._held["O", i, c] in self._graph.parents[final]:
                self._held["O", i, c] = final
                yield final


def _cells(event: Event) -> Iterator[tuple[int, int]]:
    """Row and column of every element that moved."""
    for (place, row), (across, column) in product(enumerate(event.rows.tolist()), enumerate(event.columns.tolist())):
        if event.cells is None or event.cells[place, across]:
            yield row, column
