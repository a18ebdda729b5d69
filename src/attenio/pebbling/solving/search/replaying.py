"""From the positions on the best way to moves that the referee accepts."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.pebbling.game import Game, Variant
from attenio.pebbling.schedule import Move, MoveKind, Schedule
from attenio.pebbling.solving.search.encoding import HEADER, POSITION_WORDS, Encoded
from attenio.pebbling.solving.search.evictions import COST, DELETED, DONE, PLACE, limit, scratch
from attenio.pebbling.solving.search.one_shot import do_one_shot
from attenio.pebbling.solving.search.partial import mark_edge
from attenio.pebbling.solving.search.standard import do_standard, drop_standard
from attenio.pebbling.solving.search.symmetry import canonical, carry
from attenio.pebbling.solving.search.table import expand, settle, store_for

Position = NDArray[np.uint64]
# Positions with their costs
Way = list[tuple[Position, int]]


def replay(game: Game, encoded: Encoded, originals: NDArray[np.int64], way: Way) -> Schedule:
    """The schedule along a way of positions, each given as the least of its images under the symmetries."""
    writer = _Writer(game, encoded, originals)
    start: Position = np.zeros(POSITION_WORDS, dtype=np.uint64)
    writer.settle(start)
    writer.turn(start, way[0][0])
    standard = game.variant is Variant.STANDARD
    for (position, before), (following, after) in pairwise(way):
        # What is certain to follow counts against the limit in the standard game.
        writer.step(position, following, way[-1][1] - before if standard else after - before)
    return Schedule.of(writer.moves)


def _members(low: int, high: int) -> set[int]:
    both = int(low) | int(high) << 64
    return {bit for bit in range(both.bit_length()) if both >> bit & 1}


class _Writer:
    """Plays the search's steps on a board of its own and writes the moves down.

    The search steps from one least image to the next. ``frame`` says which vertex of the board each vertex of the
    present image stands for.
    """

    def __init__(self, game: Game, encoded: Encoded, originals: NDArray[np.int64]) -> None:
        self.encoded, self.table, self.variant, self.most = encoded, encoded.table, game.variant, game.red
        self.weights = game.graph.weights[originals].tolist()
        # Only the symmetries of it are read.
        self.store = store_for(1, encoded, encoded.compulsory)
        self.originals = originals.tolist()
        number = {vertex: place for place, vertex in enumerate(self.originals)}
        self.parents = [[number[u] for u in game.graph.parents[v]] for v in self.originals]
        self.outputs = _members(*encoded.table[HEADER, 2:4])
        self.blue = _members(*encoded.table[HEADER, :2])
        self.red: set[int] = set()
        self.unmarked = [len(needs) for needs in self.parents]
        self.frame = list(range(encoded.vertices))
        self.moves: list[Move] = []
        self.room = scratch(1024, encoded.vertices, encoded.edges)

    def turn(self, position: Position, least: Position) -> bool:
        """Go over from a position to its least image, if that is its image."""
        image = np.zeros_like(least)
        for number, images in enumerate(self.store.symmetries):
            carry(self.store, position, number, image)
            if np.array_equal(image, least):
                before = self.frame.copy()
                for vertex, turned in enumerate(images.tolist()):
                    self.frame[turned] = before[vertex]
                return True
        return False

    def step(self, position: Position, following: Position, price: int) -> None:
        """Find the cheapest step whose end looks like ``following`` and write it."""
        limit(self.room, 0, price)
        made = expand(self.table, self.room, position)
        while made < 0:
            self.room = scratch(4 * len(self.room.successors), self.encoded.vertices, self.encoded.edges)
            limit(self.room, 0, price)
            made = expand(self.table, self.room, position)
        least, trial = np.zeros_like(position), np.zeros_like(position)
        matching = []
        for row in range(made):
            canonical(self.store, self.room.successors[row], least, trial)
            if np.array_equal(least, following):
                matching.append((int(self.room.successors[row, COST]), row))
        chosen = self.room.successors[min(matching)[1]].copy()
        done, place, deleted = int(chosen[DONE]), int(chosen[PLACE]) - 1, chosen[DELETED:]
        then = position.copy()
        then[:2] &= ~deleted[:2]
        stored = self._framed(*deleted[2:])
        for vertex in sorted(self._framed(*deleted[:2])):
            self._delete(vertex, store=vertex in stored or (self.variant is not Variant.STANDARD))
        if self.variant is Variant.PARTIAL:
            then[2:4] &= ~deleted[:2]
            mark_edge(self.table, then, done, self.room.log)
            self._accumulate(self.room.log[0])
        else:
            self._whole_step(then, done, place, deleted)
        self.settle(then)
        self.turn(then, following)

    def _framed(self, low: int, high: int) -> set[int]:
        return {self.frame[vertex] for vertex in _members(low, high)}

    def _whole_step(self, then: Position, vertex: int, place: int, deleted: Any) -> None:
        if self.variant is Variant.STANDARD:
            then[2:4] |= deleted[2:]
            then[4:6] |= deleted[2:]
            do_standard(self.table, then, vertex)
        else:
            then[2:4] &= ~deleted[:2]
            do_one_shot(self.table, then, vertex)
        if place >= 0:
            gone = ~(np.uint64(1) << np.uint64(place & 63))
            then[place >> 6] &= gone
            if self.variant is Variant.ONE_SHOT:
                then[2 + (place >> 6)] &= gone
        if self.variant is Variant.STANDARD:
            drop_standard(self.table, then)
        store = place >= 0 and (self.variant is Variant.ONE_SHOT or place in _members(*deleted[2:]))
        self._compute(vertex, place, self._framed(then[0], then[1]), store=store)

    def settle(self, position: Position) -> None:
        """Make and write the forced steps."""
        steps, _ = settle(self.table, position, self.room.log)
        for row in self.room.log[:steps].copy():
            if self.variant is Variant.PARTIAL:
                self._accumulate(row)
            else:
                self._compute(int(row[0]), int(row[1]), self._framed(*row[2:].astype(np.uint64)), store=False)

    def _compute(self, vertex: int, place: int, red_after: set[int], *, store: bool) -> None:
        vertex, place = self.frame[vertex], self.frame[place] if place >= 0 else place
        for parent in self.parents[vertex]:
            self._load(parent)
        own = self.weights[vertex]
        used = sum(self.weights[each] for each in self.red)
        if place < 0 and used + own > self.most:
            free = [parent for parent in self.parents[vertex] if parent not in red_after]
            place = max(free, key=lambda parent: self.weights[parent])
        if store and place not in self.blue:
            self._write(MoveKind.STORE, place)
            self.blue.add(place)
        self._write(MoveKind.COMPUTE, vertex, place if place >= 0 else None)
        self.red.discard(place)
        self.red.add(vertex)
        if vertex in self.outputs and vertex not in self.blue:
            self._write(MoveKind.STORE, vertex)
            self.blue.add(vertex)
        for unneeded in sorted(self.red - red_after):
            self._delete(unneeded, store=False)

    def _accumulate(self, row: Any) -> None:
        source, target = self.frame[int(row[0])], self.frame[int(row[1])]
        self._load(source)
        if self.unmarked[target] < len(self.parents[target]):
            self._load(target)
        self._write(MoveKind.ACCUMULATE, target, source)
        self.red.add(target)
        self.blue.discard(target)
        self.unmarked[target] -= 1
        if not self.unmarked[target] and target in self.outputs:
            self._write(MoveKind.STORE, target)
            self.blue.add(target)
        for unneeded in sorted(self.red - self._framed(*row[2:].astype(np.uint64))):
            self._delete(unneeded, store=False)

    def _load(self, vertex: int) -> None:
        if vertex not in self.red:
            self._write(MoveKind.LOAD, vertex)
            self.red.add(vertex)

    def _delete(self, vertex: int, *, store: bool) -> None:
        if store and vertex not in self.blue:
            self._write(MoveKind.STORE, vertex)
            self.blue.add(vertex)
        self._write(MoveKind.DELETE, vertex)
        self.red.remove(vertex)

    def _write(self, kind: MoveKind, vertex: int, parent: int | None = None) -> None:
        self.moves.append(Move(kind, self.originals[vertex], None if parent is None else self.originals[parent]))
