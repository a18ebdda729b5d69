"""Gradients of a dense group whose sums take turns: dQ of some rows is there when no dK and dV are, or the other way.

Keys stay (kept-row-gradients) and rows of all heads pass; own_row_sums of them have a dQ in fast memory all the time,
and the others are two groups, the first rows and the last ones. With tiles j = 1, 2, ... of key_tile keys:

for turn j = 0, 1, ... up to the number of tiles:
    in slots are the last turn_rows rows if j is even, the first if it is odd, the last and first that met tile j
    the group of these rows, if it has anything to do at this turn (see ``_stays``):
        dq = 0, or load what is partial
        meet tile j;  other tiles that come again for it;  tile j + 1:  p = exp(scale q . k - L);  dS = p (dO . v - D);
            dq += scale dS k
        store dq, or what is partial
    dK, dV of tile j + 1 = 0
    every row meets tile j + 1, first those in slots, last those of the next turn:
        unless it is here:  load q, dO, L, and D, or the first time O streams past, D = dO . O
        p;  dv += p dO;  dS;  dk += scale dS q;  dq += scale dS k if it has a place of its own
        when it leaves for the first time and comes again, store D
    store dK, dV

Rows stay (query-stationary) and keys pass, with rows and keys exchanged; rows that come again store D before that. One
score and its gradient are in hand at a time.
"""

from collections.abc import Sequence
from typing import NamedTuple

from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score
from attenio.dataflows.backward.turn_sides import Rows, Side, places_for_keys, places_for_rows, zero_sums
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import cuts, size
from attenio.planning.plan import Tiles


def turns_of_rows(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Keys stay; run the heads of one group of one sequence."""
    keys, rows = problem.pattern.keys, problem.group * problem.pattern.rows
    sizes = min(tiles["key_tile"], keys), min(tiles["turn_rows"], rows), min(tiles["own_row_sums"], rows)
    with (
        places_for_keys(problem, fast, sizes[0]) as stay,
        places_for_rows(problem, fast, sizes[1]) as come,
    ):
        _TakingTurns(problem, fast, (stay, come), sizes).run()


def turns_of_keys(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Rows stay; run the heads of one group of one sequence."""
    keys, rows = problem.pattern.keys, problem.group * problem.pattern.rows
    sizes = min(tiles["stacked_rows"], rows), min(tiles["turn_keys"], keys), min(tiles["own_key_sums"], keys)
    with (
        places_for_rows(problem, fast, sizes[0]) as stay,
        places_for_keys(problem, fast, sizes[1]) as come,
    ):
        _TakingTurns(problem, fast, (stay, come), sizes).run()


def _stays(tiles: Sequence[slice], first: int, travel: int, again: int) -> dict[int, list[int]]:
    """Which tiles a group meets at which turn: those on both sides of every second turn, from the first on.

    A tile at the end that is left has a turn of its own, if that is less than it costs to come again; or all come.
    Turn j is before tile j, counted from 0.
    """
    count = len(tiles)
    if count == 1:
        return {first % 2: [0]}
    pairs = {turn: [turn - 1, turn] for turn in range(first, count, 2)}
    if not pairs:
        return {0: [0], 2: [1]} if travel <= again * size(tiles[1]) else {0: [1, 0]}
    found, last = {turn: list(met) for turn, met in pairs.items()}, max(pairs)
    for tile in {0, count - 1}.difference(*pairs.values()):
        if travel <= again * size(tiles[tile]):
            found[0 if tile == 0 else count] = [tile]
        else:
            found[first if tile == 0 else last].insert(1, tile)
    others = [tile for tile in range(count) if tile not in pairs[first]]
    extra = [tile for turn, met in found.items() for tile in met if tile not in (turn - 1, turn)]
    words = travel * (len(found) - 1) + again * sum(size(tiles[tile]) for tile in extra)
    if words <= again * sum(size(tiles[tile]) for tile in others):
        return found
    return {first: [first - 1, *others, first]}


class _Group(NamedTuple):
    """Those whose sums take turns, and which tiles they meet at which turn."""

    members: range
    stays: dict[int, list[int]]


class _TakingTurns:
    """Those that stay in tiles, those that pass in slots, and the sums of either."""

    def __init__(
        self, problem: BackwardProblem, fast: FastMemory, sides: tuple[Side, Side], sizes: tuple[int, int, int]
    ) -> None:
        (self._stay, self._come), (tile, self._slots, own) = sides, sizes
        self._problem, self._fast, count = problem, fast, self._come.count
        self._tiles = list(cuts(self._stay.count, tile))
        per_sum, of_tile = (sum(width for _, width in side.columns) for side in (self._come, self._stay))
        self._hand = max(1, min(tile * of_tile // per_sum, self._slots))
        first, second = min(count - own, self._hand), max(0, count - own - self._hand)
        if second > self._hand:
            raise ValueError(f"there is room for sums of {2 * self._hand} that take turns, not of {count - own}")
        self._own = range(first, count - second)
        travel = 2 * per_sum * problem.intermediate_words
        odd = _Group(range(first), _stays(self._tiles, 1, travel * first, self._stay.again_words) if first else {})
        even = _stays(self._tiles, 2, travel * second, self._stay.again_words) if second else {}
        self._groups = _Group(range(count - second, count), even), odd
        self._visits = [tile for turn in range(len(self._tiles) + 1) for tile in self._arriving(turn)]
        come = self._come
        self._spilled = [problem.spilled(f"partial {name}", come.count, width) for name, width in come.columns]
        self._here: dict[int, int] = {}
        self._tile: int | None = None

    def run(self) -> None:
        """All turns, and every tile after its turn."""
        with room_for_score(self._fast), zero_sums(self._fast, self._come, len(self._own)) as own:
            for turn in range(len(self._tiles) + 1):
                if turn == 0:
                    for place, member in enumerate(self._kept(0)):
                        self._arrive(member, place)
                with zero_sums(self._fast, self._come, self._hand) as hand:
                    self._take_turn(turn, hand)
                if turn < len(self._tiles):
                    self._pass(turn, own)
                    self._problem.advance(size(self._tiles[turn]))

    @property
    def _rows_stay(self) -> bool:
        return isinstance(self._stay, Rows)

    def _arriving(self, turn: int) -> list[int]:
        """The tiles that come at a turn: those that come again, then the next."""
        met = self._groups[turn % 2].stays.get(turn, [])
        return [tile for tile in met if tile not in (turn - 1, turn)] + [turn] * (turn < len(self._tiles))

    def _kept(self, turn: int) -> range:
        """Those that are there over a turn."""
        return range(self._slots) if turn % 2 else range(self._come.count - self._slots, self._come.count)

    def _arrive(self, member: int, place: int) -> None:
        self._come.arrive(slice(member, member + 1), place)
        self._here[member] = place

    def _turn_tile(self, tile: int) -> None:
        """Another tile comes in the place of the last; that stores what it has to if it comes again."""
        self._visits.pop(0)
        if self._tile is not None and self._tile in self._visits:
            self._stay.leave(self._tiles[self._tile], 0, once=False)
        self._tile = tile
        self._stay.arrive(self._tiles[tile], 0)

    def _take_turn(self, turn: int, hand: list[Tile]) -> None:
        """The group whose turn it is meets tiles; the next one comes."""
        members, stays = self._groups[turn % 2]
        met, spilled = stays.get(turn, []), self._spilled
        sums = {m: self._part(hand, place, m) for place, m in enumerate(members)} if met else {}
        for member in sums if met and turn > min(stays) else {}:
            for source, sum_of in zip(spilled, sums[member], strict=True):
                self._fast.load(source, sum_of)
        for tile in ([turn - 1] if turn - 1 in met else []) + self._arriving(turn):
            if tile != turn - 1:
                self._turn_tile(tile)
            if tile in met:
                for member, of_member in sums.items():
                    self._meet(member, of_member, None)
        for of_member in sums.values():
            for target, sum_of in zip(self._come.finals if turn == max(stays) else spilled, of_member, strict=True):
                self._fast.store(sum_of, target)

    def _pass(self, tile: int, own: list[Tile]) -> None:
        """All that pass meet a tile: first those that are here, last those that stay over the next turn."""
        last, kept = tile == len(self._tiles) - 1, self._kept(tile + 1)
        with zero_sums(self._fast, self._stay, size(self._tiles[tile])) as room:
            sums = self._part(room, 0, self._tiles[tile])
            coming = [member for member in range(self._come.count) if member not in self._here]
            for member in [*self._here, *sorted(coming, key=lambda each: each in kept)]:
                if member not in self._here:
                    self._take_place(member, kept, last=last)
                mine = self._part(own, member - self._own.start, member) if member in self._own else None
                self._meet(member, mine, sums)
                if last and mine is not None:
                    for target, of_member in zip(self._come.finals, mine, strict=True):
                        self._fast.store(of_member, target)
            for target, of_tile in zip(self._stay.finals, sums, strict=True):
                self._fast.store(of_tile, target)

    def _take_place(self, member: int, kept: range, *, last: bool) -> None:
        """One comes, in a free slot or in that of one that does not stay."""
        place = len(self._here)
        if place == self._slots:
            other = next(each for each in self._here if each not in kept)
            place = self._here.pop(other)
            if not last:
                self._come.leave(slice(other, other + 1), place, once=True)
        self._arrive(member, place)

    def _meet(self, member: int, of_member: list[Tile] | None, of_tile: list[Tile] | None) -> None:
        assert self._tile is not None
        passing = self._come.at(slice(member, member + 1), self._here[member])
        staying = self._stay.at(self._tiles[self._tile], 0)
        both = (staying, of_tile), (passing, of_member)
        ((Q, dO, L, D), of_rows), ((K, V), of_keys) = both if self._rows_stay else both[::-1]
        sums = Sums(*(of_rows or (None,)), *(of_keys or (None, None)))
        add_gradients(self._fast, self._problem.arithmetic, (Q, dO, L, D), (K, V), sums)

    def _part(self, tiles: Sequence[Tile], place: int, named: int | slice) -> list[Tile]:
        names = slice(named, named + 1) if isinstance(named, int) else named
        return [part(tile, slice(place, place + size(names)), names) for tile in tiles]
