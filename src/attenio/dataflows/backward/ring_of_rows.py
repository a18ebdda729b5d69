"""Rolling keys whose first rows stay until they are done: keys pass one by one as long as all rows that have come fit.

    for each of the first keys, as many as there are rows in the ring:
        load q_i, dO_i, L_i of the position that no earlier key needs;  O_i streams past, D_i = dO_i . O_i;  dq_i = 0
        load k_j, v_j;  dk_j, dv_j = 0;  the key meets all rows that are here, as in ``rolling_keys``;  store dk_j, dv_j
    for each of the other keys:
        as in ``rolling_keys``;  rows of the ring find only these in their turns, and do not come again
    a row that has had its first turn stays for its second, or leaves dq_i and D_i alone

In the beginning nobody waits for a second turn, and the room of keys is for rows. Of b keys that are held and s slots,
b - s + 1 rows of b leave, so that their sums alone wait: none of the first rows, then the first ones of every b.
"""

from typing import NamedTuple

import numpy as np

from attenio.dataflows.backward.held_keys import HeldKeys, meet
from attenio.dataflows.backward.held_rows import HeldRows
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import make_statistics, stream_delta
from attenio.dataflows.online_softmax import ONE
from attenio.dataflows.rolling import Turn, rolling_order
from attenio.errors import MemoryOverflow
from attenio.masks.patterns import Band
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import Indices, compact, size


class Room(NamedTuple):
    """Keys that are held, slots for rows, places for sums, and the words of one of each."""

    keys: int
    slots: int
    places: int
    per_key: int
    per_row: int
    per_sum: int

    @classmethod
    def of(cls, problem: BackwardProblem, sizes: tuple[int, int, int]) -> "Room":
        """For the rows of all heads of a group at a position."""
        d, dv, w, group = problem.depth, problem.width, problem.intermediate_words, problem.group
        return cls(*sizes, (d + dv) * (1 + w), group * (d + dv + (d + 2) * w), group * (d + 1) * w)

    @property
    def leaving(self) -> int:
        """Rows of so many as there are keys that do not stay for their second turn."""
        return self.keys - self.slots + 1

    @property
    def words(self) -> int:
        """All of it."""
        return self.keys * self.per_key + self.slots * self.per_row + self.places * self.per_sum

    def first_rows(self, band: Band) -> int:
        """Rows that stay from the beginning until they are done; none if that would save nothing."""
        across = band.transposed
        key, longest = rolling_order(across, held=self.keys)[0], int(band.longest_row)
        starts_alone = int(across.end_key(key)) - int(across.first_key(key)) == 1
        if not (starts_alone and self.keys < longest <= 2 * self.keys <= min(band.rows, band.keys) // 2):
            return 0
        if self.places < self.leaving:
            return 0
        return next((self.keys - away for away in range(1, self.leaving) if self._fits(away)), 0)

    def _fits(self, away: int) -> bool:
        """Whether rows fit at every step, with so many fewer of them in the ring than keys in two turns."""
        limit, ring = self.words - self.per_row, 2 * self.keys - away
        if (ring - 1) * self.per_row + self.per_key > limit:
            return False
        for come in range(self.keys + 1):
            left = min(come, self.leaving)
            here = ring - max(0, come - away) - left
            if come * self.per_key + here * self.per_row + left * self.per_sum > limit:
                return False
        return True


class RingOfRows:
    """The run of one group: what is in the room, and what it holds of every position."""

    def __init__(self, problem: BackwardProblem, fast: FastMemory, room: Room, O_element: Buffer) -> None:
        self._problem, self._fast, self._room, self._O = problem, fast, room, O_element
        band = problem.pattern
        assert isinstance(band, Band)
        self._first, self._used = room.first_rows(band), 0
        # a position for every key in order, from whichever end these come
        order = rolling_order(band.transposed, held=room.keys)
        self._back = band.rows - 1 if order[0] > order[-1] else 0
        self._here: dict[int, HeldRows] = {}
        self._waiting: dict[int, HeldRows] = {}

    @property
    def count(self) -> int:
        """Rows that come while keys pass."""
        return self._room.keys + self._first

    def numbered(self, number: int) -> int:
        """A position by its number in the order of rows, or the other way round."""
        return int(abs(self._back - number))

    def take(self, words: int) -> None:
        """Words of the room are in use from now on, or no longer."""
        self._used += words
        if self._used > self._room.words:
            raise MemoryOverflow(f"cannot hold {self._used:,} words in a room of {self._room.words:,}; use fewer keys")

    def pass_by(self, number: int, keys: HeldKeys, key: int) -> None:
        """A row comes, and a key meets all that are here and need it; then one may leave, its first turn over."""
        across = self._problem.pattern.transposed
        assert isinstance(across, Band)
        needing = range(int(across.first_key(key)), int(across.end_key(key)))
        self._come(number)
        for each, rows in self._here.items():
            if self.numbered(each) in needing:
                self._meet(rows, keys, range(key, key + 1))
        self._end_first_turn(number - self._room.keys + 1)

    def turns(self, turns: list[Turn], keys: HeldKeys, held: range) -> None:
        """Rows take their turns with keys that are ``held``: those that are here first, then those that leave again."""
        numbers = {self.numbered(turn.key): turn for turn in turns}
        for number in sorted(numbers, key=lambda each: (each not in self._here, self._is_new_and_stays(each), each)):
            turn = numbers[number]
            whole = turn.last and not turn.again
            if number in self._waiting:
                self._come_again(number)
            elif number not in self._here:
                self._come(number, whole=whole)
            met = range(max(turn.rows.start, held.start), min(turn.rows.stop, held.stop))
            if met:
                self._meet(self._here[number], keys, met, whole=whole)
            if turn.last:
                self._fast.store(self._here.pop(number).dQ, self._problem.dQ)
                self.take(-self._room.per_row)
            else:
                self._end_first_turn(number)

    def _is_new_and_stays(self, number: int) -> bool:
        return number not in self._here and number not in self._waiting and self._stays(number)

    def _stays(self, number: int) -> bool:
        return number < self._first or (number - self._first) % self._room.keys >= self._room.leaving

    def _end_first_turn(self, number: int) -> None:
        """A row that does not stay leaves its sums."""
        if number < 0 or self._stays(number):
            return
        rows = self._waiting[number] = self._here.pop(number)
        for tile in rows[:3]:
            tile.values[:] = np.nan
        self.take(self._room.per_sum - self._room.per_row)

    def _come(self, number: int, *, whole: bool = False) -> None:
        """A row comes for the first time."""
        problem, fast, group = self._problem, self._fast, self._problem.group
        named = compact(np.arange(group, dtype=np.int64) * problem.pattern.rows + self.numbered(number))
        w, columns = problem.intermediate_words, problem.Q.columns
        some = ("Q", columns, 1), ("dO", problem.V.columns, 1), ("L", ONE, w), ("D", ONE, w), ("dQ", columns, w)
        rows = HeldRows(*(_zeros(name, named, of, each) for name, of, each in some))
        self.take(self._room.per_row)
        self._here[number] = rows
        self._load(rows, statistics=not whole)
        if not whole:
            stream_delta(fast, problem, rows.D, rows.dO, self._O, rows.L)

    def _come_again(self, number: int) -> None:
        """A row comes for its last turn, and finds its sums."""
        self.take(self._room.per_row - self._room.per_sum)
        self._here[number] = self._waiting.pop(number)
        self._load(self._here[number], statistics=True)

    def _load(self, rows: HeldRows, *, statistics: bool) -> None:
        problem = self._problem
        arrays = (problem.Q, rows.Q), (problem.dO, rows.dO), (problem.L, rows.L)
        for source, tile in arrays if statistics else arrays[:2]:
            self._fast.load(source, tile)

    def _meet(self, rows: HeldRows, keys: HeldKeys, met: range, *, whole: bool = False) -> None:
        named = np.array(met, dtype=np.intp)
        where = named % len(keys.K.values), compact(named)
        if whole:
            make_statistics(self._fast, self._problem, rows[:4], (part(keys.K, *where), part(keys.V, *where)))
        meet(self._problem, self._fast, rows[:4], keys, where, rows.dQ)


def free_places(problem: BackwardProblem, count: int) -> HeldKeys:
    """Places for so many keys in a room that is counted by itself."""
    every, w = slice(0, count), problem.intermediate_words
    K, V = problem.K.columns, problem.V.columns
    some = ("K", K, 1), ("V", V, 1), ("dK", K, w), ("dV", V, w)
    return HeldKeys(*(_zeros(name, every, of, each) for name, of, each in some))


def _zeros(name: str, rows: Indices, columns: Indices, words_each: int) -> Tile:
    return Tile(name, np.zeros((size(rows), size(columns)), dtype=np.float32), rows, columns, words_each)
