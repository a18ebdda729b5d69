"""What is to be computed: a directed acyclic graph whose vertices are values and whose edges say what needs what.

>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")], name="addition")
>>> graph.names, graph.inputs.tolist(), graph.outputs.tolist()
(('a', 'b', 'sum'), [0, 1], [2])
>>> ComputationGraph.from_edges([("a", "b"), ("b", "a")])
Traceback (most recent call last):
attenio.errors.InvalidInput: the graph has a cycle: b -> a -> b; a value cannot be needed for itself
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.quantities import checked_count

# Schedules of graphs this size take minutes and gigabytes; larger ones are refused rather than begun.
MOST_VERTICES = 4_000_000
# A vertex weighs as much as it takes words of memory; more than this is a slip of the keyboard.
_HEAVIEST = 2**20

Numbers = NDArray[np.int64]


def check_size(name: str, vertices: int) -> None:
    """Refuse a graph before it is built when it would have too many vertices."""
    if vertices > MOST_VERTICES:
        raise InvalidInput(
            f"{name} has {vertices:,} vertices; attenio pebbles graphs of up to {MOST_VERTICES:,}: use smaller sizes"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ComputationGraph:
    """A graph whose vertices are numbered so that every one comes after its parents.

    The parents of vertex v are ``parent_numbers[parent_starts[v]:parent_starts[v + 1]]``, in the order in which they
    were given. ``weights`` are the words that a value takes. Vertices without parents are inputs. Make graphs with
    ``from_parents`` or ``from_edges``, which check them.
    """

    name: str
    names: tuple[str, ...]
    parent_starts: Numbers
    parent_numbers: Numbers
    weights: Numbers
    outputs: Numbers

    @classmethod
    def from_parents(
        cls,
        parents: Mapping[str, Sequence[str]],
        *,
        name: str = "graph",
        outputs: Iterable[str] | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> "ComputationGraph":
        """A graph from the parents of each vertex; a vertex that is only named as a parent is an input.

        Outputs are the vertices that nothing needs, unless they are given. A weight is 1 unless it is given.
        """
        number: dict[str, int] = {}
        rows: dict[int, tuple[int, ...]] = {}
        for vertex, needs in parents.items():
            for each in needs:
                if each not in number:
                    number[each] = len(number)
            rows[number.setdefault(vertex, len(number))] = tuple([number[each] for each in needs])
        check_size(name, len(number))
        names = tuple(number)
        needed = [rows.get(vertex, ()) for vertex in range(len(number))]
        chosen = None if outputs is None else [_known(number, each, "output") for each in outputs]
        heavy = {} if weights is None else {_known(number, each, "weight"): words for each, words in weights.items()}
        return cls._sorted(name, names, needed, chosen, heavy)

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[tuple[str, str]],
        *,
        name: str = "graph",
        outputs: Iterable[str] | None = None,
        weights: Mapping[str, int] | None = None,
    ) -> "ComputationGraph":
        """A graph from edges (needed value, value computed from it)."""
        parents: dict[str, list[str]] = {}
        for source, target in edges:
            parents.setdefault(source, [])
            parents.setdefault(target, []).append(source)
        return cls.from_parents(parents, name=name, outputs=outputs, weights=weights)

    @classmethod
    def _sorted(
        cls,
        name: str,
        names: tuple[str, ...],
        parents: list[tuple[int, ...]],
        outputs: list[int] | None,
        weights: Mapping[int, int],
    ) -> "ComputationGraph":
        if not names:
            raise InvalidInput(f"{name} has no vertices; give at least one edge")
        _check_distinct(names, *_flat(parents))
        order = np.array(_topological(names, parents), dtype=np.int64)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order), dtype=np.int64)
        words = np.ones(len(order), dtype=np.int64)
        for vertex, weight in weights.items():
            words[place[vertex]] = checked_count(f"the weight of {names[vertex]}", weight, most=_HEAVIEST)
        ordered = order.tolist()
        starts, before = _flat([parents[vertex] for vertex in ordered])
        flat = place[before]
        if outputs is None:
            unneeded = np.ones(len(order), dtype=np.bool_)
            unneeded[flat] = False
            wanted = np.flatnonzero(unneeded)
        else:
            wanted = np.unique(place[outputs]) if outputs else np.zeros(0, dtype=np.int64)
        if not len(wanted):
            raise InvalidInput(f"{name} has no outputs; name at least one vertex to be computed")
        return cls(
            name=name,
            names=tuple(names[vertex] for vertex in ordered),
            parent_starts=starts,
            parent_numbers=flat,
            weights=words,
            outputs=wanted.astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def edges(self) -> int:
        """How many edges there are."""
        return len(self.parent_numbers)

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The parents of each vertex."""
        return _rows(self.parent_starts, self.parent_numbers)

    @cached_property
    def child_lists(self) -> tuple[Numbers, Numbers]:
        """Starts and numbers of the children, as ``parent_starts`` and ``parent_numbers`` hold the parents."""
        owners = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.parent_starts))
        return starts_of(self.parent_numbers, len(self)), owners[np.argsort(self.parent_numbers, kind="stable")]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The vertices that need each vertex."""
        return _rows(*self.child_lists)

    @cached_property
    def inputs(self) -> Numbers:
        """The vertices without parents, which slow memory holds from the start."""
        return np.flatnonzero(np.diff(self.parent_starts) == 0).astype(np.int64)

    @cached_property
    def computed(self) -> NDArray[np.bool_]:
        """Which vertices have parents, and an output depends on them: what every game computes."""
        return self.useful & (np.diff(self.parent_starts) > 0)

    @property
    def heaviest_useful(self) -> int:
        """The most words of a vertex that an output depends on."""
        return int(self.weights[self.useful].max())

    @property
    def output_words(self) -> int:
        """Words of the outputs that are computed, and so have to be stored."""
        return int(self.weights[self.outputs[np.diff(self.parent_starts)[self.outputs] > 0]].sum())

    @cached_property
    def useful(self) -> NDArray[np.bool_]:
        """Which vertices an output depends on; the others need never be touched."""
        useful = np.ones(len(self), dtype=np.bool_)
        # Peeling off what nobody wants takes time in proportion to what is peeled: in most graphs nothing.
        users = np.bincount(self.parent_numbers, minlength=len(self))
        users[self.outputs] += 1
        unwanted = np.flatnonzero(users == 0).tolist()
        while unwanted:
            vertex = unwanted.pop()
            useful[vertex] = False
            for parent in self.parent_numbers[self.parent_starts[vertex] : self.parent_starts[vertex + 1]].tolist():
                users[parent] -= 1
                if not users[parent]:
                    unwanted.append(parent)
        return useful

    @property
    def compulsory_words(self) -> int:
        """Words that any game moves: every input that an output depends on is loaded, every computed output stored."""
        is_input = np.diff(self.parent_starts) == 0
        needed = np.zeros(len(self), dtype=np.bool_)
        needed[self.parent_numbers[np.repeat(self.useful, np.diff(self.parent_starts))]] = True
        return int(self.weights[needed & is_input].sum()) + self.output_words

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def number(self, name: str) -> int:
        """The number of the vertex with this name."""
        return _known(self._numbers, name, "vertex")


def starts_of(keys: Numbers, size: int) -> Numbers:
    """Where the entries of each key begin when they lie sorted by key; one more number than keys."""
    starts = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=size), out=starts[1:])
    return starts


def _rows(starts: Numbers, numbers: Numbers) -> tuple[tuple[int, ...], ...]:
    ends, flat = starts.tolist(), numbers.tolist()
    return tuple(tuple(flat[start:end]) for start, end in pairwise(ends))


def _known(number: Mapping[str, int], name: str, what: str) -> int:
    if name not in number:
        raise InvalidInput(f"unknown {what} {name!r}: the graph has no vertex of that name")
    return number[name]


def _flat(parents: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers]:
    """Rows of numbers as where each row starts, and all of them one after the other."""
    starts = np.zeros(len(parents) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, parents), dtype=np.int64, count=len(parents)), out=starts[1:])
    return starts, np.fromiter(chain.from_iterable(parents), dtype=np.int64, count=int(starts[-1]))


def _check_distinct(names: tuple[str, ...], starts: Numbers, parents: Numbers) -> None:
    owners = np.repeat(np.arange(len(names), dtype=np.int64), np.diff(starts))
    edges = np.sort(owners * len(names) + parents)
    again = np.flatnonzero(edges[1:] == edges[:-1])
    if len(again):
        target, source = divmod(int(edges[again[0]]), len(names))
        raise InvalidInput(f"the edge {names[source]} -> {names[target]} is given twice; keep one")


def _topological(names: tuple[str, ...], parents: list[tuple[int, ...]]) -> list[int]:
    """Vertices after their parents, and otherwise in the order given."""
    if all(u < v for v, needs in enumerate(parents) for u in needs):
        return list(range(len(names)))
    order: list[int] = []
    state = bytearray(len(names))  # 0 not seen, 1 on the stack, 2 placed
    for root in range(len(names)):
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(parents[root]))]
        while stack:
            vertex, rest = stack[-1]
            needed = next((u for u in rest if state[u] != 2), None)
            if needed is None:
                state[vertex] = 2
                order.append(vertex)
                stack.pop()
            elif state[needed] == 1:
                raise InvalidInput(_cycle(names, [v for v, _ in stack], needed))
            else:
                state[needed] = 1
                stack.append((needed, iter(parents[needed])))
    return order


def _cycle(names: tuple[str, ...], stack: list[int], again: int) -> str:
    round_trip = [names[v] for v in reversed(stack[stack.index(again) :])]
    shown = round_trip if len(round_trip) <= 6 else [*round_trip[:3], "...", *round_trip[-2:]]
    path = " -> ".join([names[again], *shown])
    return f"the graph has a cycle: {path}; a value cannot be needed for itself"
