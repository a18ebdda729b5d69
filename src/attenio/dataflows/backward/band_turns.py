"""Gradients under causal masks and windows whose sums take turns: each of most rows has its dQ at one turn alone.

Keys stay (kept-row-gradients) and rows of all heads pass, position by position; the last own_row_sums of them have a
dQ in fast memory all the time. With tiles j = 0, 1, ... of key_tile keys:

for turn j = 0, 1, ...:
    in slots are the first masked_turn_rows rows that need keys on both sides, or the same but for the very first,
    so that one that passes has a slot (see ``_kept``)
    the group of this turn, rows without a dQ of their own: those of which tile j is the last they need, and after
    turn 0 so many more that the others need no more turns than they must, as far as there is room (at turn 0 there may
    be several groups, one after the other; of their rows those in slots stay):
        dq = 0;  meets tile j - 1;  other tiles that it needs, which come again;  tile j:
            p = exp(scale q . k - L);  dS = p (dO . v - D);  dq += scale dS k
        store dq
    or, if all rows need the first tile and dq moves fewer words than these tiles, the first group and one at the next
    turn have been in hand at turns j - 2, j - 4, ..., turn 0 only if that is less still: load and store what is partial
    dK, dV of tile j = 0
    every row that needs one of its keys meets it, first those in slots, last those of the next turn:
        unless it is here:  load q, dO, L, and D, or the first time O streams past, D = dO . O
        p;  dv += p dO;  dS;  dk += scale dS q;  dq += scale dS k if it has a place of its own
        store that dq if this is the last tile it needs;  when it leaves for the first time and comes again, store D
    store dK, dV

Positions stay (query-stationary, query_tile of them, with the rows of all heads) and keys pass, with rows and keys
exchanged and both from the last one on; rows that come again store D before that. One score and its gradient are in
hand at a time.
"""

from typing import NamedTuple

from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score
from attenio.dataflows.backward.turn_sides import Rows, Side, part_at, places_for_keys, places_for_rows, zero_sums
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import cuts
from attenio.planning.plan import Tiles


def turns_of_band_rows(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Keys stay; run the heads of one group of one sequence."""
    band, group = problem.pattern, problem.group
    assert isinstance(band, Band)
    tile, slots = min(tiles["key_tile"], band.keys), min(tiles["masked_turn_rows"], group * band.rows)
    positions = [range(int(band.first_key(row)), int(band.end_key(row))) for row in range(band.rows)]
    needs = [keys for keys in positions for _ in range(group)]
    with places_for_keys(problem, fast, tile) as stay, places_for_rows(problem, fast, slots, by_position=True) as come:
        _BandTurns(problem, fast, (stay, come), (tile, slots, tiles["own_row_sums"]), needs).run()


def turns_of_band_keys(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Positions stay; run the heads of one group of one sequence, from the last position and the last key on."""
    band, group = problem.pattern, problem.group
    assert isinstance(band, Band)
    across, last = band.transposed, band.rows
    tile, slots = group * min(tiles["query_tile"], band.rows), min(tiles["masked_turn_keys"], band.keys)
    needs = [
        range(group * (last - int(across.end_key(key))), group * (last - int(across.first_key(key))))
        for key in reversed(range(band.keys))
    ]
    with places_for_rows(problem, fast, tile, by_position=True) as stay, places_for_keys(problem, fast, slots) as come:
        _BandTurns(problem, fast, (stay, come), (tile, slots, tiles["own_key_sums"]), needs).run()


class _Turn(NamedTuple):
    """Those whose sums are in hand, and the tiles that they meet besides those on both sides.

    ``begins``, the sums have not been in hand before; ``ends``, they will not be again.
    """

    members: range
    others: list[int]
    begins: bool = True
    ends: bool = True


class _BandTurns:
    """Those that stay in tiles, those that pass in slots, and the sums of either."""

    def __init__(
        self,
        problem: BackwardProblem,
        fast: FastMemory,
        sides: tuple[Side, Side],
        sizes: tuple[int, int, int],
        needs: list[range],
    ) -> None:
        (self._stay, self._come), (self._size, self._slots, own), self._needs = sides, sizes, needs
        self._problem, self._fast, count, stay = problem, fast, self._come.count, self._stay.count
        self._tiles = [range(start, min(start + self._size, stay)) for start in range(0, stay, self._size)]
        self._reach = [range(need.start // self._size, (need.stop - 1) // self._size + 1) for need in needs]
        self._own = range(count - min(own, count), count)
        per_sum, of_tile = (sum(width for _, width in side.columns) for side in (self._come, self._stay))
        self._hand = max(1, min(self._size * of_tile // per_sum, self._slots))
        self._spilled = [problem.spilled(f"partial {name}", count, width) for name, width in self._come.columns]
        self._turns = self._travelling(self._groups(), per_sum * problem.intermediate_words)
        turns = range(len(self._tiles))
        self._visits = [tile for turn in turns for tile in (*self._others_at(turn), turn)]
        self._here: dict[int, int] = {}
        self._free = list(range(self._slots))
        self._tile: int | None = None

    def run(self) -> None:
        """All turns, and every tile after its turn."""
        with room_for_score(self._fast), zero_sums(self._fast, self._come, len(self._own)) as own:
            for turn, tile in enumerate(self._tiles):
                with zero_sums(self._fast, self._come, self._hand) as hand:
                    self._take_turn(turn, hand)
                self._pass(turn, own)
                self._problem.advance(len(tile) // (self._problem.group if self._rows_stay else 1))

    @property
    def _rows_stay(self) -> bool:
        return isinstance(self._stay, Rows)

    def _of_stay(self, span: range) -> slice:
        """What they are called: rows are numbered from the last on where they stay."""
        return self._called(span, self._stay.count)

    def _of_come(self, member: int) -> slice:
        return self._called(range(member, member + 1), self._come.count)

    def _called(self, span: range, count: int) -> slice:
        return slice(count - span.stop, count - span.start) if self._rows_stay else slice(span.start, span.stop)

    def _groups(self) -> dict[int, _Turn]:
        """Which group is in hand at which turn."""
        turns: dict[int, _Turn] = {}
        waiting = list(range(self._own.start))
        while waiting:
            turn = self._reach[waiting[0]][-1]
            ending = sum(self._reach[member][-1] == turn for member in waiting)
            # the others take as few turns as they can, and are with those that come first
            first = len(waiting) % self._hand or self._hand
            most = min(self._hand, max(ending, first)) if turn else ending
            there = [member for member in waiting[:most] if self._reach[member].start <= turn]
            waiting = waiting[len(there) :]
            met = sorted({tile for member in there for tile in self._reach[member]} - {turn - 1, turn})
            if turn in turns:
                raise ValueError("two groups have the same turn")
            turns[turn] = _Turn(range(there[0], there[-1] + 1), met)
        return turns

    def _travelling(self, turns: dict[int, _Turn], per_sum: int) -> dict[int, _Turn]:
        """The same with turns before these, of groups that travel rather than have tiles come again."""
        if any(need.start for need in self._needs):
            return turns
        found, first = dict(turns), self._reach[0][-1]
        for turn in (first, first + 1):
            members, others, *_ = turns.get(turn, _Turn(range(0), []))
            there = members.stop <= self._slots + turn - first or self._slots >= self._come.count
            travel, again = 2 * len(members) * per_sum, self._size * self._stay.again_words
            before = range(turn - 2, -1 if travel < again else 0, -2)
            if there and before and 0 < travel < 2 * again:
                met = {tile for each in before for tile in (each - 1, each)}
                found[turn] = _Turn(members, [tile for tile in others if tile not in met], begins=False)
                found |= {each: _Turn(members, [], begins=each == before[-1], ends=False) for each in before}
        return found

    def _others_at(self, turn: int) -> list[int]:
        return self._turns[turn].others if turn in self._turns else []

    def _kept(self, turn: int) -> range:
        """Those that need keys on both sides of a turn and are there over it.

        As long as none ends, those of two turns differ by one, so that one slot at least is for those that pass.
        """
        both = [member for member, reach in enumerate(self._reach) if turn - 1 in reach and turn in reach]
        if not both:
            return range(0)
        begin = [member for member in self._members(turn) if self._reach[member].start == turn]
        count, first = min(len(both), self._slots - len(begin)), both[0]
        ending = self._reach[0][-1]  # the first tile that ends for one of them
        if turn < ending and (ending - turn) % 2 and count < len(both):
            first += 1
        return range(first, first + count)

    def _members(self, turn: int) -> range:
        return self._turns[turn].members if turn in self._turns else range(0)

    def _arrive(self, member: int) -> None:
        self._here[member] = self._free.pop(0)
        self._come.arrive(self._of_come(member), self._here[member])

    def _leave(self, member: int, tile: int) -> None:
        """It leaves after a tile, to come again unless that is the last one it needs."""
        place = self._here.pop(member)
        if self._reach[member][-1] > tile:
            self._come.leave(self._of_come(member), place, once=True)
        self._free.append(place)

    def _turn_tile(self, tile: int) -> None:
        """Another tile comes in the place of the last; that stores what it has to if it comes again."""
        self._visits.pop(0)
        if self._tile is not None and self._tile in self._visits:
            self._stay.leave(self._of_stay(self._tiles[self._tile]), 0, once=False)
        self._tile = tile
        self._stay.arrive(self._of_stay(self._tiles[tile]), 0)

    def _take_turn(self, turn: int, hand: list[Tile]) -> None:
        """The group whose turn it is meets tiles; the next one comes."""
        kept, members = self._kept(turn), self._members(turn)
        for member in [each for each in self._here if each not in kept]:
            self._leave(member, turn - 1)
        for some in [members[part] for part in cuts(len(members), self._hand)] or [members]:
            self._meet_for_sums(turn, some, hand)

    def _meet_for_sums(self, turn: int, members: range, hand: list[Tile]) -> None:
        """A group meets the tiles on both sides, and others; before the first tile those that have met it make room."""
        for member in members:
            if member not in self._here:
                if not self._free:
                    self._leave(next(iter(self._here)), turn - 1)
                self._arrive(member)
        for tile_of_sums in hand:
            tile_of_sums.values[:] = 0
        sums = {
            member: [
                part_at(tile, place, self._of_come(member), self._come.named(self._of_come(member))) for tile in hand
            ]
            for place, member in enumerate(members)
        }
        at = self._turns.get(turn, _Turn(range(0), []))
        for of_member in () if at.begins else sums.values():
            for source, sum_of in zip(self._spilled, of_member, strict=True):
                self._fast.load(source, sum_of)
        for tile in ([turn - 1] if turn else []) + [*self._others_at(turn), turn]:
            if tile != self._tile:
                self._turn_tile(tile)
            for member, of_member in sums.items():
                self._meet(member, of_member, None)
        for of_member in sums.values():
            self._store(self._come.finals if at.ends else self._spilled, of_member)

    def _store(self, targets: list[SlowArray], sums: list[Tile]) -> None:
        for target, of_some in zip(targets, sums, strict=True):
            self._fast.store(of_some, target)

    def _pass(self, tile: int, own: list[Tile]) -> None:
        """All that need a tile meet it: first those that are here, last those that stay over the next turn."""
        stays = self._kept(tile + 1) if tile + 1 < len(self._tiles) else range(0)
        span = self._of_stay(self._tiles[tile])
        with zero_sums(self._fast, self._stay, len(self._tiles[tile])) as room:
            sums = [part_at(each, 0, span, self._stay.named(span)) for each in room]
            needing = [member for member, reach in enumerate(self._reach) if tile in reach]
            coming = [member for member in needing if member not in self._here]
            for member in [*self._here, *sorted(coming, key=lambda each: each in stays)]:
                if member not in self._here:
                    self._make_room(stays, tile)
                    self._arrive(member)
                mine = self._own_sums(own, member) if member in self._own else None
                self._meet(member, mine, sums)
                if mine is not None and self._reach[member][-1] == tile:
                    self._store(self._come.finals, mine)
            self._store(self._stay.finals, sums)

    def _own_sums(self, own: list[Tile], member: int) -> list[Tile]:
        called, place = self._of_come(member), member - self._own.start
        return [part_at(tile, place, called, self._come.named(called)) for tile in own]

    def _make_room(self, stays: range, tile: int) -> None:
        """If no slot is free, one that does not stay leaves; all that are here have met the tile."""
        if not self._free:
            self._leave(next(each for each in self._here if each not in stays), tile)

    def _meet(self, member: int, of_member: list[Tile] | None, of_tile: list[Tile] | None) -> None:
        """Of the tile that is here, those that it needs."""
        assert self._tile is not None
        tile, need = self._tiles[self._tile], self._needs[member]
        span = range(max(tile.start, need.start), min(tile.stop, need.stop))
        if not span:
            return
        all_of, some = self._of_stay(tile), self._of_stay(span)
        place = some.start - all_of.start
        staying = self._stay.at(some, place)
        if of_tile is not None:
            named = self._stay.named(some)
            of_tile = [part_at(each, place, some, named) for each in of_tile]
        passing = self._come.at(self._of_come(member), self._here[member])
        both = (staying, of_tile), (passing, of_member)
        ((Q, dO, L, D), of_rows), ((K, V), of_keys) = both if self._rows_stay else both[::-1]
        sums = Sums(*(of_rows or (None,)), *(of_keys or (None, None)))
        add_gradients(self._fast, self._problem.arithmetic, (Q, dO, L, D), (K, V), sums)
