"""Kept keys with exchanged keys: in tiles of rows outputs give way to values, and values to the next outputs.

    for each tile i of stacked_rows rows, head after head:
        load Q_i
        for each column c of V:
            O_i[c], max, sum = 0, -inf, 0
            for each key that was kept, and each row:
                s = scale q . k;  p, max, sum, rescale = online softmax of s;  o[c] = rescale o[c] + p v[c]
            this column of the values that were kept leaves
        the keys that were kept leave
        for each other key, but exchanged_keys of them if there is another tile:
            load k and v;  each row takes them in
        load the keys that are left;  for each column c of V:
            load this column of their values
            for each row, from the max and the sum that it has:
                for each of these keys:  s;  p, max, sum, rescale;  o[c] = rescale o[c] + p v[c]
                store o[c] / sum
            O_i[c] leaves

For dense problems. Keys that stay over a turn take half of their words while the rows of either tile have outputs, and
these rows take half of theirs while the values are there. Every column sees the same scores in the same order; a row
whose outputs leave has a maximum and a sum that run beside those from which every column begins.
"""

from attenio.dataflows.exchanges import turn_tiles
from attenio.dataflows.online_softmax import save_log_sum_exp
from attenio.dataflows.pieces import Here
from attenio.dataflows.problem import Problem
from attenio.dataflows.row_by_row import note
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import cuts, size
from attenio.planning.plan import Tiles


def exchanged_keys(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the query heads of one KV head."""
    if not problem.pattern.is_dense:
        raise ValueError("outputs give way to values where every row needs every key")
    with fast.scratch("S", 1, 1), fast.scratch("next max", 1, 1):
        here = Here(problem, fast)
        for tile in turn_tiles(problem.group * problem.pattern.rows, problem.pattern.keys, tiles):
            rows, leaves = slice(tile.rows.start, tile.rows.stop), slice(tile.leaves.start, tile.leaves.stop)
            here.exchange(rows, slice(tile.kept.start, tile.kept.stop))
            here.all_take_in(rows, slice(tile.passing.start, tile.passing.stop))
            if tile.leaves:
                _turn(here, rows, leaves)
            else:
                here.outputs_leave(rows)
            here.queries_leave(rows)
            problem.advance(size(rows))


def _turn(here: Here, rows: slice, keys: slice) -> None:
    """The last keys come, and outputs give way to their values in groups of columns that share a word."""
    problem, fast = here.problem, here.fast
    fast.load(problem.K, here.K.take(keys, here.depths))
    with fast.scratch("max of a row", 1, 1), fast.scratch("sum of a row", 1, 1):
        for columns in cuts(problem.width, problem.per_word):
            fast.load(problem.V, here.V.take(keys, columns))
            for part in cuts(size(rows), 1 if fast.trace.record else size(rows)):
                _finish(here, slice(rows.start + part.start, rows.start + part.stop), keys, columns)
            here.outputs.give_back(rows, columns)


def _finish(here: Here, rows: slice, keys: slice, columns: slice) -> None:
    """Rows that take their turn take in the last keys, and these columns of their outputs are stored."""
    every = slice(0, size(rows))
    done = here.rows(rows, columns)
    done = done._replace(max=_running(done.max), sum=_running(done.sum))
    arithmetic, values = here.problem.arithmetic, here.V.every.values[keys, columns]
    done.take_in(arithmetic, every, here.K.every.values[keys], values)
    note(here.fast, rows, keys, columns)
    if columns.start == 0:
        save_log_sum_exp(here.fast, here.problem, done.max, done.sum)
    done.normalise(here.fast, here.problem)
    here.fast.store(done.O, here.problem.O)


def _running(statistic: Tile) -> Tile:
    """A statistic that goes on from where it is, one row after the other."""
    return Tile(statistic.name, statistic.values.copy(), statistic.rows, statistic.columns, statistic.words_each)
