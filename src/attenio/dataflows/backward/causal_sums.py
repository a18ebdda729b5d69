"""Kept rows for the gradient under a causal mask: tiles of keys stay until all rows that are left fit, which then stay.

i are the rows of a position in all heads of the group; dQ of standing_sums of the last positions has a place of its
own. Tiles of key_tile keys before the last_keys, the first one ragged, turn as ``turning_tiles`` has it: of the
positions that are left after a tile the first exchanged_positions stay for the next one, where they are done.

load what is not there of rows that need one of the last keys: q_i, dO_i, L_i, D_i, or make it where no tile came
for each of the last keys:
    load k, v;  dk, dv = 0;  for each position that needs it: the same, dq_i if it has a place;  store dk, dv
    the position that needs no further key: unless dq_i has a place, it begins, or comes, and meets all of the last keys
        up to this one, which have stayed;  store dq_i;  the position leaves
If these are all keys and no dQ has a place, it runs the other way round, so that keys may be there since the forward
pass, and positions have all of their keys:

load K, V, unless they stayed
for each key, the last one first:
    the position for which it is the last one, if there is one: load q_i, dO_i;  dq_i = 0
        for each key that it needs:  max, sum;  L_i = max + log(sum);  for each again:  D_i += p dO . v
        it meets all keys that it needs;  store dq_i
    dk, dv = 0;  all positions that are there meet the key;  store dk, dv;  the key leaves
store zeros for rows that nothing needs

So each of the last keys takes the room of a position that leaves, and dQ of a position is there only while it is made.
Where it takes less room dQ of all these positions has places instead, and no key stays. Keys that stay with their
gradients take as much as twice as many rows without theirs: so more positions stay for the next tile than would fit
beside dK and dV. One score and its gradient are in hand at a time.
"""

from collections.abc import Iterator

from attenio.dataflows.backward.pieces import GradientPieces
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import room_for_score
from attenio.dataflows.backward.turning_tiles import TurningTile, pass_tiles
from attenio.dataflows.backward.zeros import store_row_zeros
from attenio.masks.patterns import Band
from attenio.memory import FastMemory
from attenio.memory.indices import size
from attenio.planning.plan import Tiles


def causal_sums(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band)
    with room_for_score(fast), fast.buffer("O", 1, 1) as O_element:
        _CausalSums(GradientPieces(problem, fast, O_element), band, tiles).run()
    store_row_zeros(fast, band, problem.group, problem.dQ)


class _CausalSums:
    """Positions that pass or stay, and their sums."""

    def __init__(self, here: GradientPieces, band: Band, tiles: Tiles) -> None:
        self._here, self._problem, self._band = here, here.problem, band
        last = min(tiles["last_keys"], band.keys)
        self._begin, self._tile = band.keys - last, max(min(tiles["key_tile"], band.keys - last), 1)
        # where a position ends with every key after the first, those that stay end in the next tile
        self._exchanged = min(tiles["exchanged_positions"], self._tile) if band.keys <= band.rows else 0
        # positions that need one of the last keys are the last ones
        self._left = self._first_of(self._begin) if last else band.rows
        self._own = max(band.rows - tiles["standing_sums"], 0)

    def run(self) -> None:
        """Tiles, then the last keys."""
        here, rows = self._here, self._band.rows
        stayed = slice(self._left, self._left)
        if self._begin:
            tiles = list(self._tiles())
            pass_tiles(here, tiles, self._own)
            stayed = tiles[-1].leaves
            # of positions that are done
            here.dQ.give_back(here.at(slice(self._own, max(self._own, self._left))), here.depths)
        if self._begin == 0 and rows <= self._own:
            self._from_the_last()
        elif self._begin < self._band.keys:
            self._finish(stayed)

    def _tiles(self) -> Iterator[TurningTile]:
        """The first one may be smaller."""
        rows, start, stayed = int(self._band.rows), 0, slice(0, 0)
        for stop in reversed(range(self._begin, 0, -self._tile)):
            left = self._first_of(stop) if stop < self._band.keys else rows
            leaves = slice(left, min(left + self._exchanged, rows))
            begin = stayed.stop if size(stayed) else self._first_of(start)
            passing = (*range(begin, leaves.start), *range(leaves.stop, rows))
            yield TurningTile(slice(start, stop), stayed, leaves, passing)
            start, stayed = stop, leaves

    def _first_of(self, key: int) -> int:
        """The first position that needs a key."""
        return int(self._band.transposed.first_key(key))

    def _finish(self, stayed: slice) -> None:
        """All that are left come, unless they are there, and the last keys pass, or take the room of positions."""
        here, rows, first = self._here, self._band.rows, self._begin == 0
        here.rows_come(slice(stayed.stop, rows), first=first)
        without = slice(stayed.stop, max(self._own, stayed.stop))
        if first:
            here.sums_of_rows_begin(slice(without.stop, rows), first=True)
        if self._fit_at_once(without, stayed):
            here.sums_of_rows_begin(without, first=first)
            without = slice(stayed.stop, stayed.stop)
        came = self._begin
        for number in range(self._begin, self._band.keys):
            key, left = slice(number, number + 1), self._first_of(number)
            here.keys_come(key)
            here.sums_of_keys_begin(key)
            here.meet(slice(left, max(left, stayed.stop)), key)
            here.meet(slice(max(left, without.start), max(left, without.stop)), key, rows=False)
            here.meet(slice(max(left, without.stop), rows), key)
            here.sums_of_keys_leave(key)
            if int(self._band.end_key(left)) == key.stop:
                self._end(left, slice(came, key.stop), first=first, without=without)
                left += 1
            if left >= without.stop:
                here.keys_leave(slice(came, key.stop))
                came = key.stop
            self._problem.advance(1)

    def _from_the_last(self) -> None:
        """Each position that comes takes the room of the key that is done before it."""
        here, every = self._here, slice(0, int(self._band.keys))
        if self._problem.keys_stayed:
            here.keys_stayed(every)
        else:
            here.keys_come(every)
        for number in reversed(range(every.stop)):
            key, position = slice(number, number + 1), self._first_of(number)
            if int(self._band.end_key(position)) == key.stop:
                one = slice(position, position + 1)
                here.rows_come_to_all(one, slice(0, key.stop))
                here.sums_of_rows_begin(one, first=True)
                here.meet(one, slice(0, key.stop), of_keys=False)
                here.sums_of_rows_leave(one, done=True)
            here.sums_of_keys_begin(key)
            here.meet(slice(position, self._band.rows), key, rows=False)
            here.sums_of_keys_leave(key)
            here.keys_leave(key)
            self._problem.advance(1)
        here.rows_leave(slice(self._left, int(self._band.rows)))

    def _end(self, position: int, keys: slice, *, first: bool, without: slice) -> None:
        """A position needs no further key; if dQ had no place it meets the keys that are there."""
        here, one = self._here, slice(position, position + 1)
        if without.start <= position < without.stop:
            here.sums_of_rows_begin(one, first=first)
            here.meet(one, keys, of_keys=False)
        here.sums_of_rows_leave(one, done=True)
        here.rows_leave(one)

    def _fit_at_once(self, without: slice, stayed: slice) -> bool:
        """Whether places for dQ of the positions without one take no more room than keys that stay, and dQ in hand."""
        problem, w = self._problem, self._here.fast.intermediate_words
        one_key, one_sum = problem.depth + problem.width, problem.group * problem.depth * w
        in_hand = max(one_key * w, 0 if size(stayed) else one_sum)
        early = int(self._band.keys - self._begin - (self._band.rows - self._left))  # no position ends with these
        return size(without) * one_sum + one_key * w <= early * one_key + in_hand
