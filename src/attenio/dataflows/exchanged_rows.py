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

For causal problems with a key for every row. A key that is kept and a row whose output has not begun take half of the
words of those beside which they are: keys with values beside queries, then keys beside queries with outputs. So two
thirds of the words of whole rows are enough for as many of both. Row statistics are those of the last column: all
columns see the same scores in the same order. Words that the first rows need come back one row after the other.
"""

import numpy as np

from attenio.dataflows.exchanges import ExchangeTile, exchange_tiles
from attenio.dataflows.online_softmax import ONE, save_log_sum_exp
from attenio.dataflows.problem import Problem
from attenio.dataflows.row_by_row import Rows, note
from attenio.masks.patterns import Band
from attenio.masks.patterns.staircase import is_staircase
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import cuts, size
from attenio.planning.plan import Tiles

# Scores made together.
_AT_ONCE = 2**20


def exchanged_rows(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band) and is_staircase(band)
    first, *others = exchange_tiles(band.rows, band.keys, tiles)
    with fast.scratch("S", 1, 1), fast.scratch("next max", 1, 1):
        here = _Here(problem, fast)
        _first_tile(here, first)
        for tile in others:
            _exchange(here, tile)
            _others_pass(here, tile)
            _rows_leave(here, tile)


class _Pieces:
    """Room for a matrix that is taken and given back piece by piece; NaN where nothing is held."""

    def __init__(self, fast: FastMemory, name: str, shape: tuple[int, int], words_each: int = 1, per_word: int = 1):
        self._fast, self._words_each, self._per_word = fast, words_each, per_word
        self.every = Tile(name, np.full(shape, np.nan, dtype=np.float32), slice(0, shape[0]), slice(0, shape[1]))

    def take(self, rows: slice, columns: slice) -> Tile:
        """Reserve room for these rows and columns."""
        self._fast.reserve(self.every.name, self._words(rows, columns))
        return self.over(rows, columns)

    def over(self, rows: slice, columns: slice) -> Tile:
        """The tile of these rows and columns."""
        values = self.every.values[rows, columns]
        return Tile(self.every.name, values, rows, columns, self._words_each, per_word=self._per_word)

    def give_back(self, rows: slice, columns: slice) -> None:
        """Nothing of these rows and columns is there any more."""
        self.every.values[rows, columns] = np.nan
        self._fast.release(self.every.name, self._words(rows, columns))

    def _words(self, rows: slice, columns: slice) -> int:
        return -(-size(rows) * size(columns) * self._words_each // self._per_word)


class _Here:
    """What fast memory has of a problem."""

    def __init__(self, problem: Problem, fast: FastMemory) -> None:
        (rows, keys), w = (problem.group * problem.pattern.rows, problem.pattern.keys), fast.intermediate_words
        self.problem, self.fast, self.more = problem, fast, keys - rows
        self.columns, self.depths = slice(0, problem.width), slice(0, problem.depth)
        self.K = _Pieces(fast, "K", (keys, problem.depth), per_word=problem.per_word)
        self.V = _Pieces(fast, "V", (keys, problem.width), per_word=problem.per_word)
        self.Q = _Pieces(fast, "Q", (rows, problem.depth))
        self.outputs = _Pieces(fast, "O", (rows, problem.width), w)
        self.statistics = [_Pieces(fast, name, (rows, 1), w) for name in ("max", "sum")]

    def keys_come(self, keys: slice) -> None:
        """Keys and values are loaded."""
        for source, pieces in ((self.problem.K, self.K), (self.problem.V, self.V)):
            self.fast.load(source, pieces.take(keys, slice(0, pieces.every.values.shape[1])))

    def keys_leave(self, keys: slice, columns: slice | None = None) -> None:
        """Keys leave, with these columns of their values or all of them."""
        if size(keys):
            self.K.give_back(keys, self.depths)
            if columns is None:
                self.V.give_back(keys, self.columns)

    def rows_come(self, rows: slice) -> None:
        """Queries are loaded, with room for the statistics."""
        self.fast.load(self.problem.Q, self.Q.take(rows, self.depths))
        for each in self.statistics:
            each.take(rows, ONE)

    def begin(self, rows: slice, columns: slice) -> None:
        """Outputs of these columns, which have seen no score yet."""
        self.outputs.take(rows, columns)
        self._rows(rows, columns).begin(slice(None), self.problem.sinks_of(rows))

    def take_in(self, rows: slice, keys: slice, columns: slice | None = None) -> None:
        """Rows take in keys that are there, with these columns of their values."""
        some = self.columns if columns is None else columns
        at_once = max(1, _AT_ONCE // size(rows))
        for part in cuts(size(keys), at_once):
            now = slice(keys.start + part.start, keys.start + part.stop)
            values = self.V.every.values[now, some]
            every = slice(0, size(rows))
            self._rows(rows, some).take_in(self.problem.arithmetic, every, self.K.every.values[now], values)
            note(self.fast, rows, now, some)

    def all_take_in(self, rows: slice, keys: slice) -> None:
        """Rows take in keys that pass one by one."""
        problem, fast = self.problem, self.fast
        at_once = 1 if fast.trace.record else max(1, _AT_ONCE // size(rows))
        with (
            problem.key_buffer(fast, "K", 1, problem.depth) as K_buffer,
            problem.key_buffer(fast, "V", 1, problem.width) as V_buffer,
        ):
            for now in cuts(size(keys), at_once):
                with (
                    K_buffer.streaming(problem.K, now, along="rows") as K_j,
                    V_buffer.streaming(problem.V, now, along="rows") as V_j,
                ):
                    every = slice(0, size(rows))
                    self._rows(rows, self.columns).take_in(problem.arithmetic, every, K_j.values, V_j.values)
                    note(fast, rows, now, self.columns)

    def leave(self, row: int) -> None:
        """A row has met all of its keys."""
        rows, problem = slice(row, row + 1), self.problem
        done = self._rows(rows, self.columns)
        save_log_sum_exp(self.fast, problem, done.max, done.sum)
        done.normalise(self.fast, problem)
        self.fast.store(done.O, problem.O)
        self.Q.give_back(rows, self.depths)
        self.outputs.give_back(rows, self.columns)
        for each in self.statistics:
            each.give_back(rows, ONE)
        problem.advance(1)

    def _rows(self, rows: slice, columns: slice) -> Rows:
        largest, total = (each.over(rows, ONE) for each in self.statistics)
        return Rows(self.Q.over(rows, self.depths), self.outputs.over(rows, columns), largest, total)


def _first_tile(here: _Here, tile: ExchangeTile) -> None:
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
    here.keys_leave(slice(0, tile.leaves.start))


def _exchange(here: _Here, tile: ExchangeTile) -> None:
    """The rows of a tile come, and take in what was kept for them, in groups of columns that share a word."""
    rows, kept = slice(tile.rows.start, tile.rows.stop), slice(tile.kept.start, tile.kept.stop)
    here.rows_come(rows)
    for columns in cuts(here.problem.width, here.problem.per_word):
        here.begin(rows, columns)
        if size(kept):
            here.take_in(rows, kept, columns)
            here.V.give_back(kept, columns)
    here.keys_leave(kept, here.columns)


def _others_pass(here: _Here, tile: ExchangeTile) -> None:
    """Keys from before the tile that were not kept."""
    here.all_take_in(slice(tile.rows.start, tile.rows.stop), slice(0, tile.kept.start))


def _rows_leave(here: _Here, tile: ExchangeTile) -> None:
    """Keys come one by one, and after each the row that needs no other leaves."""
    for row, key in zip(tile.rows, tile.own, strict=True):
        one = slice(key, key + 1)
        here.keys_come(one)
        here.take_in(slice(row, tile.rows.stop), one)
        here.leave(row)
        if key not in tile.leaves:
            here.keys_leave(one)
