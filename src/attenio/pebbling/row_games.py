"""Row-granular games, solved exactly: rows and keys enter and leave fast memory whole, and meet while they are there.

An optimum is the fewest words over all orders of rows and keys, which plans that move whole rows can be held against.
Nothing leaves before its place is needed: what stays can only help.

>>> AttentionGame(needed=(7, 7, 7), fast_words=24, d=3, value_dim=3).optimum()
48
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from heapq import heappop, heappush
from itertools import combinations
from typing import NamedTuple

from attenio.pebbling.orders import Marks, bits, in_order, of_equals, picked

# Sets of rows and of keys are bits of an integer, and so is what is needed of the keys by every row.
Position = tuple[int, ...]


class Piece(NamedTuple):
    """Something that may be in fast memory: its place in the position, its number there, its words, and those moved."""

    place: int
    number: int
    words: int
    moved: int


@dataclass(frozen=True, kw_only=True)
class RowGame:
    """What both games share: pieces arrive, others make room for them, and a search finds the cheapest way."""

    needed: tuple[int, ...]
    fast_words: int
    d: int
    value_dim: int

    @cached_property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.needed)

    @cached_property
    def keys(self) -> int:
        """How many keys some row needs, or lie before one that is."""
        return max(self.needed).bit_length()

    @property
    @abstractmethod
    def _start(self) -> Position:
        """Nothing done, nothing in fast memory."""

    @property
    @abstractmethod
    def _result_words(self) -> int:
        """Words of the results, stored once."""

    @abstractmethod
    def _missing(self, position: Position) -> Iterator[Piece]:
        """What is of use and not in fast memory, with the words that its arrival loads."""

    @abstractmethod
    def _held(self, position: Position) -> Iterator[Piece]:
        """What is in fast memory, with the words that its leaving stores."""

    @abstractmethod
    def _without(self, position: Position, piece: Piece) -> Position:
        """The position after a piece has left."""

    @abstractmethod
    def _met(self, position: Position) -> Position:
        """The position once all that is in fast memory has met, without what is of no more use."""

    @abstractmethod
    def _row_marks(self, position: Position) -> Marks:
        """What tells rows apart."""

    @abstractmethod
    def _key_marks(self, position: Position) -> Marks:
        """What tells keys apart."""

    @abstractmethod
    def _with_rows(self, position: Position, order: Sequence[int]) -> Position:
        """The same with rows in another order."""

    @abstractmethod
    def _with_keys(self, position: Position, order: Sequence[int]) -> Position:
        """The same with keys in another order."""

    def optimum(self) -> int | None:
        """The fewest words; None if a row and a key do not fit. A search over all positions, cheapest first."""
        start = self._start
        known, queue = {start: 0}, [(self._floor(start), 0, start)]
        canonical, least = cache(self._canonical), cache(self._floor)  # a position is reached in many ways
        while queue:
            floor, unpaid, position = heappop(queue)  # of equal floors the one that has paid most: the end is near
            cost = -unpaid
            if known[position] < cost:
                continue
            if floor == cost and not any(self._held(position)):
                return cost + self._result_words
            for more, reached in self._moves(position):
                following = canonical(reached)
                if cost + more < known.get(following, 1 << 60):
                    known[following] = cost + more
                    heappush(queue, (cost + more + least(following), -cost - more, following))
        return None

    def _floor(self, position: Position) -> int:
        """What is of use and elsewhere has to come."""
        return sum(piece.moved for piece in self._missing(position))

    def _moves(self, position: Position) -> Iterator[tuple[int, Position]]:
        """Every arrival, after no more others have left than make room for it."""
        held = list(self._held(position))
        free = self.fast_words - sum(piece.words for piece in held)
        left: dict[int, list[tuple[int, Position]]] = {}  # after room was made for so many words
        for piece in self._missing(position):
            if piece.words not in left:
                left[piece.words] = [self._left(position, each) for each in _fewest(held, piece.words - free)]
            for more, after in left[piece.words]:
                arrived = list(after)
                arrived[piece.place] |= 1 << piece.number
                yield piece.moved + more, self._met(tuple(arrived))

    def _left(self, position: Position, leaving: Sequence[Piece]) -> tuple[int, Position]:
        """The words that leaving stores, and the position after it."""
        moved = 0
        for piece in leaving:
            position = self._without(position, piece)
            moved += piece.moved
        return moved, position

    @cached_property
    def _alike(self) -> tuple[list[list[int]], list[list[int]]]:
        """Rows that need the same keys, and keys that the same rows need: nothing tells them apart at first."""
        return of_equals(self.needed), of_equals(self._of_keys(self.needed))

    def _canonical(self, position: Position) -> Position:
        """Rows that are alike in order, and then keys, and both again."""
        rows, keys = self._alike
        for _ in range(2):
            before = position
            if rows and (order := in_order(rows, self._row_marks(position))):
                position = self._with_rows(position, order)
            if keys and (order := in_order(keys, self._key_marks(position))):
                position = self._with_keys(position, order)
            if position == before:
                break
        return position

    def _of_keys(self, met: Sequence[int]) -> tuple[int, ...]:
        """The rows that each key has met, of the keys that each row has."""
        columns = [0] * self.keys
        for i, each in enumerate(met):
            for j in bits(each):
                columns[j] |= 1 << i
        return tuple(columns)


@dataclass(frozen=True, kw_only=True)
class AttentionGame(RowGame):
    """Forward. A row is its query, its partial output and its statistics; it leaves with what is not in slow memory.

    A position has the keys that each row has met, then rows here, rows that have been here, and keys here. One score
    and its maximum are in hand.
    """

    statistics: int = 2  # a maximum and a sum

    @property
    def _start(self) -> Position:
        return (*(0 for _ in self.needed), 0, 0, 0)

    @property
    def _result_words(self) -> int:
        return self.rows * self.value_dim

    def _missing(self, position: Position) -> Iterator[Piece]:
        n, state = self.rows, self.value_dim + self.statistics
        here, been, keys = position[n:]
        wanted = 0
        for i, full in enumerate(self.needed):
            wanted |= full & ~position[i]
            if position[i] != full and not here >> i & 1:
                yield Piece(n, i, self.d + state, self.d + (state if been >> i & 1 else 0))
        both = self.d + self.value_dim
        yield from (Piece(n + 2, j, both, both) for j in range(self.keys) if wanted & ~keys & 1 << j)

    def _held(self, position: Position) -> Iterator[Piece]:
        n, state = self.rows, self.value_dim + self.statistics
        here, _, keys = position[n:]
        yield from (Piece(n, i, self.d + state, state if position[i] else 0) for i in range(n) if here >> i & 1)
        yield from (Piece(n + 2, j, self.d + self.value_dim, 0) for j in range(self.keys) if keys >> j & 1)

    def _without(self, position: Position, piece: Piece) -> Position:
        left = list(position)
        left[piece.place] &= ~(1 << piece.number)
        if piece.place == self.rows and position[piece.number]:
            left[self.rows + 1] |= 1 << piece.number
        return tuple(left)

    def _met(self, position: Position) -> Position:
        n = self.rows
        here, been, keys = position[n:]
        met = [position[i] | (keys & full if here >> i & 1 else 0) for i, full in enumerate(self.needed)]
        wanted = 0
        for i, full in enumerate(self.needed):
            wanted |= full & ~met[i]
            here &= ~(1 << i) if met[i] == full else -1
        return (*met, here, been, keys & wanted)

    def _row_marks(self, position: Position) -> Marks:
        here, been, _ = position[self.rows :]
        return [(position[i], here >> i & 1, been >> i & 1) for i in range(self.rows)]

    def _key_marks(self, position: Position) -> Marks:
        columns, keys = self._of_keys(position[: self.rows]), position[-1]
        return [(columns[j], keys >> j & 1) for j in range(self.keys)]

    def _with_rows(self, position: Position, order: Sequence[int]) -> Position:
        here, been, keys = position[self.rows :]
        return (*(position[i] for i in order), picked(here, order), picked(been, order), keys)

    def _with_keys(self, position: Position, order: Sequence[int]) -> Position:
        *met, here, been, keys = position
        return (*(picked(each, order) for each in met), here, been, picked(keys, order))


@dataclass(frozen=True, kw_only=True)
class GradientGame(RowGame):
    """Backward. Rows (Q, dO, log-sum-exp, D), dQ, keys (K, V) and gradients of keys (dK, dV) come and go by themselves.

    A position has the keys with which each row has added to dQ, those to whose gradients it has added, then rows, dQ,
    keys and gradients of keys that are here, and rows whose D is in slow memory. D takes O, the first time. A score,
    its gradient and a word of O are in hand.
    """

    @property
    def _start(self) -> Position:
        return (*(0 for _ in self.needed), *(0 for _ in self.needed), 0, 0, 0, 0, 0)

    @property
    def _result_words(self) -> int:
        return self.rows * self.d + self.keys * (self.d + self.value_dim)

    def _open(self, position: Position) -> tuple[int, int, int, int]:
        """Rows, sums of rows, keys and sums of keys that still have to meet something."""
        n, rows, sums, keys, key_sums = self.rows, 0, 0, 0, 0
        for i, full in enumerate(self.needed):
            first, second = full & ~position[i], full & ~position[n + i]
            rows |= (1 << i) if first | second else 0
            sums |= (1 << i) if first else 0
            keys |= first | second
            key_sums |= second
        return rows, sums, keys, key_sums

    def _piece(self, position: Position, place: int, number: int, *, leaves: bool) -> Piece:
        n, both = self.rows, self.d + self.value_dim
        match place - 2 * n:
            case 0:
                saved = position[2 * n + 4] >> number & 1
                begun = position[number] | position[n + number]
                moved = (1 if begun and not saved else 0) if leaves else both + 1 + (1 if saved else self.value_dim)
                return Piece(place, number, both + 2, moved)
            case 1:
                return Piece(place, number, self.d, self.d if position[number] else 0)
            case 2:
                return Piece(place, number, both, 0 if leaves else both)
            case _:
                begun = any(seen >> number & 1 for seen in position[n : 2 * n])
                return Piece(place, number, both, both if begun else 0)

    def _missing(self, position: Position) -> Iterator[Piece]:
        for place, wanted in enumerate(self._open(position), 2 * self.rows):
            elsewhere = wanted & ~position[place]
            yield from (self._piece(position, place, x, leaves=False) for x in bits(elsewhere))

    def _held(self, position: Position) -> Iterator[Piece]:
        for place in range(2 * self.rows, 2 * self.rows + 4):
            yield from (self._piece(position, place, x, leaves=True) for x in bits(position[place]))

    def _without(self, position: Position, piece: Piece) -> Position:
        left = list(position)
        left[piece.place] &= ~(1 << piece.number)
        if piece.place == 2 * self.rows and piece.moved:
            left[-1] |= 1 << piece.number
        return tuple(left)

    def _met(self, position: Position) -> Position:
        n = self.rows
        here, sums, keys, key_sums, _ = position[2 * n :]
        after = list(position)
        for i in bits(here):
            after[i] |= self.needed[i] & keys if sums >> i & 1 else 0
            after[n + i] |= self.needed[i] & keys & key_sums
        for place, wanted in enumerate(self._open(tuple(after)), 2 * n):
            after[place] &= wanted
        return tuple(after)

    def _row_marks(self, position: Position) -> Marks:
        n = self.rows
        here, sums, _, _, saved = position[2 * n :]
        return [(position[i], position[n + i], here >> i & 1, sums >> i & 1, saved >> i & 1) for i in range(n)]

    def _key_marks(self, position: Position) -> Marks:
        n = self.rows
        _, _, keys, key_sums, _ = position[2 * n :]
        first, second = self._of_keys(position[:n]), self._of_keys(position[n : 2 * n])
        return [(first[j], second[j], keys >> j & 1, key_sums >> j & 1) for j in range(self.keys)]

    def _with_rows(self, position: Position, order: Sequence[int]) -> Position:
        n = self.rows
        here, sums, keys, key_sums, saved = position[2 * n :]
        met = (position[half + i] for half in (0, n) for i in order)
        return (*met, picked(here, order), picked(sums, order), keys, key_sums, picked(saved, order))

    def _with_keys(self, position: Position, order: Sequence[int]) -> Position:
        *met, here, sums, keys, key_sums, saved = position
        last = (here, sums, picked(keys, order), picked(key_sums, order), saved)
        return (*(picked(each, order) for each in met), *last)


def _fewest(held: Sequence[Piece], missing: int) -> Iterator[tuple[Piece, ...]]:
    """What may leave so that so many words are free, none of it in vain."""
    if missing <= 0:
        yield ()
        return
    for count in range(1, len(held) + 1):
        for chosen in combinations(held, count):
            words = [piece.words for piece in chosen]
            if 0 <= sum(words) - missing < min(words):
                yield chosen
