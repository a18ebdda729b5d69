"""Kept keys with exchanged rows: in tiles of causal rows values give way to outputs, column by column.

    for each row of the first tile:
        load its keys and values that are not there, which all stay;  load q
        the row takes in all keys that it needs;  store o / sum
    for each exchange:
        all keys leave but the last kept_keys of those that are there
        load Q_i of the next exchanged_rows rows
        for each column c of V:
            O_i[c], max, sum = 0, -inf, 0
            for each key that is there, and each row:
                s = scale q . k;  p, max, sum, rescale = online softmax of s;  o[c] = rescale o[c] + p v[c]
            these columns of V leave
        these keys leave; those before them pass one by one, and all rows take them in
        for each row and the key that it needs and no row before it does:
            load k and v, which stay;  the rows from this one on take them in;  the row leaves: store o / sum
    for each tile of last_rows rows the same, with no keys kept for it

In a training step entries of the first keys, some of their values, and queries and outputs of the last rows may stay in
fast memory for the backward pass, if one exchange keeps all keys of the first tile.

For causal problems with a key for every row. A key that is kept and a row whose output has not begun take half of the
words of those beside which they are: keys with values beside queries, then keys beside queries with outputs. So two
thirds of the words of whole rows are enough for as many of both. Row statistics are those of the last column: all
columns see the same scores in the same order. Words that the first rows need come back one row after the other.
"""

from attenio.dataflows.exchanges import ExchangeTile, exchange_tiles
from attenio.dataflows.pieces import Here
from attenio.dataflows.problem import Problem
from attenio.masks.patterns import Band
from attenio.masks.patterns.staircase import is_staircase
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def exchanged_rows(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band) and is_staircase(band)
    first, *others = exchange_tiles(band.rows, band.keys, tiles)
    with fast.scratch("S", 1, 1), fast.scratch("next max", 1, 1):
        here = Here(problem, fast)
        _first_tile(here, first)
        for tile in others:
            rows, kept = slice(tile.rows.start, tile.rows.stop), slice(tile.kept.start, tile.kept.stop)
            here.exchange(rows, kept)
            here.all_take_in(rows, slice(0, kept.start))
            _rows_leave(here, tile)
        if problem.stays.keys:
            here.staying_leaves()


def _first_tile(here: Here, tile: ExchangeTile) -> None:
    """Keys stay, and rows come one by one."""
    came = 0
    for row in tile.rows:
        needed = row + 1 + here.more
        here.keys_come(slice(came, needed))
        one, came = slice(row, row + 1), needed
        here.rows_come(one)
        here.begin(one, here.columns)
        here.take_in(one, slice(0, needed))
        here.leave(row)
    if tile.leaves.start:
        here.keys_leave(slice(0, tile.leaves.start))


def _rows_leave(here: Here, tile: ExchangeTile) -> None:
    """Keys come one by one, and after each the row that needs no other leaves."""
    for row, key in zip(tile.rows, tile.own, strict=True):
        one = slice(key, key + 1)
        here.keys_come(one)
        here.take_in(slice(row, tile.rows.stop), one)
        here.leave(row)
        if key not in tile.leaves:
            here.keys_leave(one)
