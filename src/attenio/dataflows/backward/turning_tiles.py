"""Kept rows for the gradient with rows that stay at turns: gradients of keys and of rows give way to each other.

i are the rows of a position in all heads of a group; dQ of standing_sums of the last positions has a place of its own:

for each tile j of keys:
    load K_j, V_j
    the positions that stayed for this tile:
        for each column c:  dq_i[c] += scale dS k[c];  store dq_i[c], done or unless it has a place
                            dq_i[c] leaves unless it has a place;  dK_j[c] = scale dS q[c]
        for each column c:  dV_j[c] = p dO[c];  dO_i[c] leaves
        store D_i if they will come again, and it is the first time that they leave;  they leave
    or else dK_j, dV_j = 0
    for each other position that needs a key of j, but those that are to stay:
        load q_i, dO_i, L_i;  for the first tile O_i streams past, D_i = dO_i . O_i;  for others load D_i
        (if the first tile has all keys that it needs, under a causal mask:  L_i and D_i are made from these)
        for the first tile dq_i = 0;  for others load dq_i unless it has a place
        for each key of j that it needs:
            p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
        store dq_i if it needs no further key
        else store D_i if it is the first time that it leaves, and dq_i unless it has a place
    the positions that are to stay:
        load q_i, L_i;  load D_i but for the first tile
        for each column c:  load dO_i[c];  dV_j[c] += p dO[c];  store dV_j[c], which leaves
        for the first tile O_i streams past, D_i = dO_i . O_i
        for each column c:  dK_j[c] += scale dS q[c];  store dK_j[c], which leaves
                            dq_i[c] = 0, or load it but for the first tile, unless it has a place
                            dq_i[c] += scale dS k[c]
    or else store dK_j, dV_j

In dense problems tiles have key_tile keys, and the first exchanged_positions stay at odd turns, and as many after these
at even ones, half of all at most. Positions that come as gradients of keys leave take d words each beside the tile, up
to one for every key, where they would take 3d. One score and its gradient are in hand at a time; every column of a
gradient makes them anew.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attenio.dataflows.backward.held_rows import RowBuffers, loaded_rows, row_buffers
from attenio.dataflows.backward.pieces import GradientPieces
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import room_for_score
from attenio.masks.patterns import Band
from attenio.memory import Buffer, FastMemory
from attenio.memory.indices import cuts, size
from attenio.planning.plan import Tiles


class TurningTile(NamedTuple):
    """Keys of a tile; positions that stayed for it, that stay for the next one, and that pass."""

    keys: slice
    stayed: slice
    leaves: slice
    passing: Iterable[int]


def turning_tiles(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence whose rows need all keys."""
    band = problem.pattern
    assert isinstance(band, Band) and band.is_dense
    own = slice(max(band.rows - tiles["standing_sums"], 0), int(band.rows))
    with room_for_score(fast), fast.buffer("O", 1, 1) as O_element:
        here = GradientPieces(problem, fast, O_element)
        pass_tiles(here, list(_of_dense(band, tiles)), own.start)
        here.dQ.give_back(here.at(own), here.depths)


def _of_dense(band: Band, tiles: Tiles) -> Iterator[TurningTile]:
    x, none = min(tiles["exchanged_positions"], band.rows // 2), slice(0, 0)
    keys = list(cuts(band.keys, min(tiles["key_tile"], band.keys)))
    stays = slice(0, x), slice(x, 2 * x)
    for number, part in enumerate(keys):
        stayed = stays[(number + 1) % 2] if number else none
        leaves = stays[number % 2] if number < len(keys) - 1 else none
        here = {*range(stayed.start, stayed.stop), *range(leaves.start, leaves.stop)}
        yield TurningTile(part, stayed, leaves, [position for position in range(band.rows) if position not in here])


def pass_tiles(here: GradientPieces, tiles: Sequence[TurningTile], own: int) -> None:
    """Positions meet one tile after the other; from the position ``own`` on sums have their places."""
    _Turns(here, own).run(tiles)


class _Turns:
    """Positions that pass or stay, and which of them have left their D."""

    def __init__(self, here: GradientPieces, own: int) -> None:
        band = here.problem.pattern
        assert isinstance(band, Band)
        self._here, self._band, self._own = here, band, own
        self._saved = np.zeros(int(band.rows), dtype=np.bool_)

    def run(self, tiles: Sequence[TurningTile]) -> None:
        """Tile after tile."""
        here, problem = self._here, self._here.problem
        for tile in tiles:
            first = tile.keys.start == 0
            begun = self._come(tile)
            with (
                row_buffers(problem, problem.group, here.fast) as room,
                here.fast.scratch("dQ", problem.group, problem.depth) as hand,
            ):
                for position in tile.passing:
                    begun = self._begin_keys(slice(begun, min(int(self._band.end_key(position)), tile.keys.stop)))
                    self._pass_by(position, tile.keys, room, hand)
                self._begin_keys(slice(begun, tile.keys.stop))
            if size(tile.leaves):
                here.give_way_to_rows(tile.leaves, tile.keys, self._placed(tile.leaves), first=first)
            else:
                here.sums_of_keys_leave(tile.keys)
                here.keys_leave(tile.keys)
            problem.advance(size(tile.keys))

    def _come(self, tile: TurningTile) -> int:
        """Keys come; dK and dV of those up to one begin, and of the first tile dQ of rows that do not pass."""
        here, keys = self._here, tile.keys
        if keys.start == 0:
            here.first_keys_come(keys)
            passing = set(tile.passing)
            for position in range(self._own, int(self._band.rows)):
                if position not in passing:
                    here.sums_of_rows_begin(slice(position, position + 1), first=True)
        else:
            here.keys_come(keys)
        if size(tile.stayed):
            self._stayed_leave(tile)
            return int(keys.stop)
        return int(keys.start)

    def _begin_keys(self, keys: slice) -> int:
        """dK and dV of keys begin when a row comes that needs them."""
        if keys.stop > keys.start:
            self._here.sums_of_keys_begin(keys)
        return int(max(keys.start, keys.stop))

    def _stayed_leave(self, tile: TurningTile) -> None:
        """Positions that stayed meet the keys of a tile that they need, and go; all of them are done, or none is."""
        here, stayed = self._here, tile.stayed
        done = int(self._band.end_key(stayed.stop - 1)) <= tile.keys.stop
        if not done and not self._saved[stayed.start]:
            here.keep_delta(stayed)
            self._saved[stayed] = True
        here.give_way_to_keys(stayed, tile.keys, self._placed(stayed), done=done)

    def _pass_by(self, position: int, keys: slice, room: RowBuffers, hand: Buffer) -> None:
        """A position meets the keys of a tile that it needs, and goes."""
        here, problem, fast, first = self._here, self._here.problem, self._here.fast, keys.start == 0
        one, end, own = slice(position, position + 1), int(self._band.end_key(position)), position >= self._own
        done, named = end <= keys.stop, here.named(one)
        all_here, delta = first and done and not self._band.is_dense, None if first else here.delta
        queries = here.stayed(position) if first else None
        with loaded_rows(problem, room, named, delta, sums=not all_here, queries=queries) as rows:
            if all_here:
                here.make_statistics(rows, slice(0, end))
            elif first:
                here.make_delta(rows)
            if queries is not None:
                here.stayed_leaves(position)
            if first and own:
                here.sums_of_rows_begin(one, first=True)
            dQ = here.dQ.over(here.at(one), here.depths) if own else hand.zeros(named, here.depths)
            if not (first or own):
                fast.load(here.partial, dQ)
            here.pass_by(rows, dQ, slice(keys.start, min(end, keys.stop)))
            if not done and not self._saved[position]:
                fast.store(rows[3], here.delta)
                self._saved[position] = True
            if done or not own:
                fast.store(dQ, problem.dQ if done else here.partial)

    def _placed(self, positions: slice) -> int:
        """The first of some positions whose sums have a place of their own, or their end."""
        return int(min(max(self._own, positions.start), positions.stop))
