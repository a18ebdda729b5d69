"""What stays and what passes where sums of gradients take turns: rows of all heads, or keys, in places for them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from attenio.dataflows.backward.held_keys import slots_for_keys
from attenio.dataflows.backward.held_rows import row_buffers
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import stream_delta
from attenio.dataflows.online_softmax import ONE
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import Indices, as_array, compact_if_ascending


class Rows:
    """Places for rows of all heads: Q, dO, L and D. They are counted head by head, or ``by_position``."""

    def __init__(
        self, problem: BackwardProblem, fast: FastMemory, places: Sequence[Tile], element: Buffer, *, by_position: bool
    ) -> None:
        self._problem, self._fast, self._places, self._O = problem, fast, places, element
        self._by_position, self.count = by_position, problem.group * problem.pattern.rows
        self.finals, self.columns = [problem.dQ], [("dQ", problem.depth)]
        self._delta, self._known = problem.spilled("D", self.count, 1), np.zeros(self.count, dtype=np.bool_)
        # Q, dO, L and D, which is stored before
        self.again_words = problem.depth + problem.width + 3 * problem.intermediate_words

    def named(self, some: slice) -> Indices:
        """What they are called: head by head."""
        if not self._by_position:
            return some
        position, head = np.divmod(np.arange(some.start, some.stop, dtype=np.int64), self._problem.group)
        return compact_if_ascending(head * self._problem.pattern.rows + position)

    def at(self, some: slice, place: int) -> list[Tile]:
        """These, from some place on."""
        return [part_at(tile, place, some, self.named(some)) for tile in self._places]

    def arrive(self, some: slice, place: int) -> None:
        """They come, and D is loaded or made."""
        Q, dO, L, D = self.at(some, place)
        for source, tile in ((self._problem.Q, Q), (self._problem.dO, dO), (self._problem.L, L)):
            self._fast.load(source, tile)
        if self._known[as_array(Q.rows)].all():
            self._fast.load(self._delta, D)
        else:
            stream_delta(self._fast, self._problem, D, dO, self._O, L)

    def leave(self, some: slice, place: int, *, once: bool) -> None:
        """They will come again; ``once``, D that has been stored is not stored again."""
        named = as_array(self.named(some))
        if not (once and self._known[named].all()):
            self._fast.store(self.at(some, place)[3], self._delta)
            self._known[named] = True


class Keys:
    """Places for keys and their values."""

    def __init__(self, problem: BackwardProblem, fast: FastMemory, places: Sequence[Tile]) -> None:
        self._problem, self._fast, self._places, self.count = problem, fast, places, problem.pattern.keys
        self.finals, self.columns = [problem.dK, problem.dV], [("dK", problem.depth), ("dV", problem.width)]
        self.again_words = problem.depth + problem.width

    def named(self, keys: slice) -> Indices:
        """Themselves."""
        return keys

    def at(self, keys: slice, place: int) -> list[Tile]:
        """These keys, from some place on."""
        return [part_at(tile, place, keys, keys) for tile in self._places]

    def arrive(self, keys: slice, place: int) -> None:
        """They come."""
        for source, tile in zip((self._problem.K, self._problem.V), self.at(keys, place), strict=True):
            self._fast.load(source, tile)

    def leave(self, keys: slice, place: int, *, once: bool) -> None:
        """Nothing of them is stored."""


Side = Rows | Keys


def part_at(tile: Tile, place: int, some: slice, named: Indices) -> Tile:
    """So many of a tile from some place on, and what they are called."""
    return part(tile, slice(place, place + some.stop - some.start), named)


@contextmanager
def places_for_rows(
    problem: BackwardProblem, fast: FastMemory, count: int, *, by_position: bool = False
) -> Iterator[Rows]:
    """Room for so many rows."""
    places = slice(0, count)
    with row_buffers(problem, count, fast) as room, fast.buffer("O", 1, 1) as O_element:
        columns = problem.Q.columns, problem.V.columns, ONE, ONE
        tiles = [each.over(places, of) for each, of in zip(room, columns, strict=True)]
        yield Rows(problem, fast, tiles, O_element, by_position=by_position)


@contextmanager
def places_for_keys(problem: BackwardProblem, fast: FastMemory, count: int) -> Iterator[Keys]:
    """Room for so many keys."""
    with slots_for_keys(problem, count, fast) as places:
        yield Keys(problem, fast, places)


@contextmanager
def zero_sums(fast: FastMemory, side: Side, count: int) -> Iterator[list[Tile]]:
    """Room for sums of so many, which are zero."""
    with ExitStack() as room:
        buffers = [(room.enter_context(fast.scratch(name, count, width)), width) for name, width in side.columns]
        yield [buffer.zeros(slice(0, count), slice(0, width)) for buffer, width in buffers]
