"""Rows and keys of a gradient that come and leave piece by piece, so that their gradients give way to each other.

Rows of all heads at a position lie one after the other here: positions are slices, as keys are.
"""

import numpy as np

from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import (
    Hidden,
    Sums,
    add_gradients,
    add_key_gradient,
    add_query_gradient,
    add_value_gradient,
    exponentiate_with,
    make_statistics,
    stream_delta,
    turn_into_score_gradient,
)
from attenio.dataflows.online_softmax import ONE, make_scores
from attenio.dataflows.pieces import Pieces
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import Indices, compact, singles, size

# Q, dO, L and D of some rows.
Rows = tuple[Tile, Tile, Tile, Tile]


class GradientPieces:
    """What fast memory has of a group of heads; sums of rows that leave before they are done go to slow memory."""

    def __init__(self, problem: BackwardProblem, fast: FastMemory, O_element: Buffer | None = None) -> None:
        rows, keys, w = problem.group * problem.pattern.rows, problem.pattern.keys, fast.intermediate_words
        names = self._names = np.arange(rows, dtype=np.int64).reshape(problem.group, -1).T.ravel()
        self.problem, self.fast, self._O = problem, fast, O_element
        self.depths, self.widths = slice(0, problem.depth), slice(0, problem.width)
        self.K, self.V = Pieces(fast, "K", (keys, problem.depth)), Pieces(fast, "V", (keys, problem.width))
        self.dK, self.dV = Pieces(fast, "dK", (keys, problem.depth), w), Pieces(fast, "dV", (keys, problem.width), w)
        self.Q = Pieces(fast, "Q", (rows, problem.depth), names=names)
        self.dO = Pieces(fast, "dO", (rows, problem.width), names=names)
        self.L, self.D = (Pieces(fast, name, (rows, 1), w, names=names) for name in ("L", "D"))
        self.dQ = Pieces(fast, "dQ", (rows, problem.depth), w, names=names)
        self.outputs = Pieces(fast, "O", (problem.stays.rows, problem.width))  # since the forward pass
        self.partial, self.delta = problem.spilled("partial dQ", rows, problem.depth), problem.spilled("D", rows, 1)

    def named(self, positions: slice) -> Indices:
        """The numbers of the rows of some positions."""
        return compact(self._names[self.at(positions)])

    def make_delta(self, rows: Rows) -> None:
        """D, while outputs stream past."""
        _, dO, L, D = rows
        assert self._O is not None, "there is a word for outputs where they are read"
        stream_delta(self.fast, self.problem, D, dO, self._O, L)

    def keys_come(self, keys: slice) -> None:
        """Keys and values are loaded."""
        self.fast.load(self.problem.K, self.K.take(keys, self.depths))
        self.fast.load(self.problem.V, self.V.take(keys, self.widths))

    def first_keys_come(self, keys: slice) -> None:
        """The same of the first keys, but for what stayed of them since the forward pass; rows that did are there."""
        problem, rows = self.problem, self.problem.stays.rows
        if rows:
            last = slice(len(problem.Q.values) - rows, len(problem.Q.values))
            self.outputs.take(slice(0, rows), self.widths).values[:] = problem.O.values[last]
            self.Q.take(last, self.depths).values[:] = problem.Q.values[last]
        for source, pieces, columns, stay in (
            (problem.K, self.K, self.depths, problem.stays.keys),
            (problem.V, self.V, self.widths, problem.stays.values),
        ):
            pieces.take(keys, columns).values[:stay] = source.values[:stay]
            if keys.stop > stay:
                self.fast.load(source, pieces.over(slice(stay, keys.stop), columns))

    def keys_stayed(self, keys: slice) -> None:
        """Keys and values are there since the forward pass."""
        self.K.take(keys, self.depths).values[:] = self.problem.K.values[keys]
        self.V.take(keys, self.widths).values[:] = self.problem.V.values[keys]

    def keys_leave(self, keys: slice) -> None:
        """Keys leave with their values."""
        self.K.give_back(keys, self.depths)
        self.V.give_back(keys, self.widths)

    def sums_of_keys_begin(self, keys: slice) -> None:
        """dK and dV are zero."""
        self.dK.take(keys, self.depths).values[:] = 0
        self.dV.take(keys, self.widths).values[:] = 0

    def sums_of_keys_leave(self, keys: slice) -> None:
        """dK and dV are done."""
        for sums, columns, target in ((self.dK, self.depths, self.problem.dK), (self.dV, self.widths, self.problem.dV)):
            self.fast.store(sums.over(keys, columns), target)
            sums.give_back(keys, columns)

    def rows_come(self, positions: slice, *, first: bool) -> None:
        """Rows are loaded; D is made if it is for the first time."""
        self._statistics_come(positions, first=first)
        self.fast.load(self.problem.dO, self.dO.take(self.at(positions), self.widths))
        if first:
            self.make_delta(self._rows(self.at(positions)))

    def rows_come_to_all(self, positions: slice, keys: slice) -> None:
        """Rows are loaded whose keys are all there, from which L and D are made."""
        at = self.at(positions)
        self._queries_come(at)
        self.fast.load(self.problem.dO, self.dO.take(at, self.widths))
        self.L.take(at, ONE)
        self.D.take(at, ONE)
        self.make_statistics(self._rows(at), keys)

    def make_statistics(self, rows: Rows, keys: slice) -> None:
        """L and D of rows whose keys are all there."""
        K, V = self.K.over(keys, self.depths), self.V.over(keys, self.widths)
        make_statistics(self.fast, self.problem, rows, (K, V))

    def rows_leave(self, positions: slice) -> None:
        """Rows leave, and what is known of them."""
        self.dO.give_back(self.at(positions), self.widths)
        self._statistics_leave(positions)

    def stayed(self, row: int) -> Tile | None:
        """The query of a row of a single head, if it is there since the forward pass."""
        one = slice(row, row + 1)
        return self.Q.over(one, self.depths) if row >= len(self.problem.Q.values) - self.problem.stays.rows else None

    def stayed_leaves(self, row: int) -> None:
        """Its query and its outputs, which were there since the forward pass, have been read."""
        place = row - (len(self.problem.Q.values) - self.problem.stays.rows)
        self.Q.give_back(slice(row, row + 1), self.depths)
        self.outputs.give_back(slice(place, place + 1), self.widths)

    def keep_delta(self, positions: slice) -> None:
        """D goes to slow memory, for when the rows come again."""
        self.fast.store(self.D.over(self.at(positions), ONE), self.delta)

    def sums_of_rows_begin(self, positions: slice, columns: slice | None = None, *, first: bool) -> None:
        """dQ is zero if it is for the first time, or goes on from what it was."""
        tile = self.dQ.take(self.at(positions), self.depths if columns is None else columns)
        if first:
            tile.values[:] = 0
        else:
            self.fast.load(self.partial, tile)

    def sums_of_rows_leave(self, positions: slice, columns: slice | None = None, *, done: bool) -> None:
        """dQ is stored, done or as far as it is."""
        some = self.depths if columns is None else columns
        self.store_sums_of_rows(positions, some, done=done)
        self.dQ.give_back(self.at(positions), some)

    def store_sums_of_rows(self, positions: slice, columns: slice, *, done: bool) -> None:
        """The same, while its place stays."""
        self.fast.store(self.dQ.over(self.at(positions), columns), self.problem.dQ if done else self.partial)

    def meet(self, positions: slice, keys: slice, *, rows: bool = True, of_keys: bool = True) -> None:
        """Rows that need all of these keys meet them, for their own sums, those of the keys, or both."""
        at = self.at(positions)
        if size(at) and size(keys):
            self.pass_by(self._rows(at), self.dQ.over(at, self.depths) if rows else None, keys, of_keys=of_keys)

    def pass_by(self, rows: Rows, dQ: Tile | None, keys: slice, *, of_keys: bool = True) -> None:
        """The same for rows that lie elsewhere: their Q, dO, L and D."""
        K, V = self.K.over(keys, self.depths), self.V.over(keys, self.widths)
        sums = (self.dK.over(keys, self.depths), self.dV.over(keys, self.widths)) if of_keys else (None, None)
        add_gradients(self.fast, self.problem.arithmetic, rows, (K, V), Sums(dQ, *sums))

    def give_way_to_rows(self, positions: slice, keys: slice, placed: int, *, first: bool) -> None:
        """Rows come while gradients of the keys leave column by column: dO for dV, and dQ for dK.

        Of the positions from ``placed`` on dQ has its place already. The rows need all of the keys, which leave too.
        """
        at, arithmetic, fast = self.at(positions), self.problem.arithmetic, self.fast
        self._statistics_come(positions, first=first)
        for columns in singles(self.problem.width):
            fast.load(self.problem.dO, self.dO.take(at, columns))
            P = self._probabilities(at, keys, None)
            add_value_gradient(fast, arithmetic, self.dV.over(keys, columns), P, self.dO.over(at, columns))
            fast.store(self.dV.over(keys, columns), self.problem.dV)
            self.dV.give_back(keys, columns)
        if first:
            self.make_delta(self._rows(self.at(positions)))
        for columns in singles(self.problem.depth):
            dS = self._score_gradients(at, keys, None)
            add_key_gradient(fast, arithmetic, self.dK.over(keys, columns), dS, self.Q.over(at, columns))
            fast.store(self.dK.over(keys, columns), self.problem.dK)
            self.dK.give_back(keys, columns)
            self.sums_of_rows_begin(slice(positions.start, placed), columns, first=first)
            dS = self._score_gradients(at, keys, None)
            add_query_gradient(fast, arithmetic, self.dQ.over(at, columns), dS, self.K.over(keys, columns))
        self.keys_leave(keys)

    def give_way_to_keys(self, positions: slice, keys: slice, placed: int, *, done: bool) -> None:
        """Rows leave while gradients of the keys, which are there, begin column by column: dQ for dK, and dO for dV.

        They are ``done`` if they need no later keys. Of the positions from ``placed`` on dQ keeps its place.
        """
        at, arithmetic, fast = self.at(positions), self.problem.arithmetic, self.fast
        hidden = self._hidden(positions, keys)
        for columns in singles(self.problem.depth):
            dS = self._score_gradients(at, keys, hidden)
            add_query_gradient(fast, arithmetic, self.dQ.over(at, columns), dS, self.K.over(keys, columns))
            self.sums_of_rows_leave(slice(positions.start, placed), columns, done=done)
            if done:
                self.store_sums_of_rows(slice(placed, positions.stop), columns, done=True)
            self.dK.take(keys, columns).values[:] = 0
            dS = self._score_gradients(at, keys, hidden)
            add_key_gradient(fast, arithmetic, self.dK.over(keys, columns), dS, self.Q.over(at, columns))
        for columns in singles(self.problem.width):
            self.dV.take(keys, columns).values[:] = 0
            P = self._probabilities(at, keys, hidden)
            add_value_gradient(fast, arithmetic, self.dV.over(keys, columns), P, self.dO.over(at, columns))
            self.dO.give_back(at, columns)
        self._statistics_leave(positions)

    def at(self, positions: slice) -> slice:
        """Where the rows of some positions lie."""
        return slice(positions.start * self.problem.group, positions.stop * self.problem.group)

    def _rows(self, at: slice) -> Rows:
        return self.Q.over(at, self.depths), self.dO.over(at, self.widths), self.L.over(at, ONE), self.D.over(at, ONE)

    def _statistics_come(self, positions: slice, *, first: bool) -> None:
        """Queries and what is known of their rows."""
        at = self.at(positions)
        self._queries_come(at)
        self.fast.load(self.problem.L, self.L.take(at, ONE))
        D = self.D.take(at, ONE)
        if not first:
            self.fast.load(self.delta, D)

    def _queries_come(self, at: slice) -> None:
        """Queries are loaded, but for those that stayed since the forward pass, which they do for single heads."""
        Q, problem = self.Q.take(at, self.depths), self.problem
        away = min(max(len(problem.Q.values) - problem.kept_queries, at.start), at.stop)
        if away > at.start:
            self.fast.load(problem.Q, self.Q.over(slice(at.start, away), self.depths))
        Q.values[away - at.start :] = problem.Q.values[away : at.stop]

    def _statistics_leave(self, positions: slice) -> None:
        at = self.at(positions)
        self.Q.give_back(at, self.depths)
        self.L.give_back(at, ONE)
        self.D.give_back(at, ONE)

    def _hidden(self, positions: slice, keys: slice) -> Hidden:
        every = np.arange(keys.start, keys.stop, dtype=np.int64)
        required = self.problem.pattern.required(positions.start, positions.stop, every)
        return np.repeat(~required, self.problem.group, axis=0)

    def _probabilities(self, at: slice, keys: slice, hidden: Hidden) -> Tile:
        """P, made anew for every column: nothing of it stays but the one in hand."""
        Q, K = self.Q.over(at, self.depths), self.K.over(keys, self.depths)
        S = Tile("S", np.zeros((size(at), size(keys)), dtype=np.float32), Q.rows, K.rows)
        make_scores(self.fast, self.problem.arithmetic, S, Q, K)
        return exponentiate_with(self.fast, self.problem.arithmetic, S, self.L.over(at, ONE), hidden)

    def _score_gradients(self, at: slice, keys: slice, hidden: Hidden) -> Tile:
        """dS, made anew for every column."""
        (_, dO, L, D), V = self._rows(at), self.V.over(keys, self.widths)
        P = self._probabilities(at, keys, hidden)
        return turn_into_score_gradient(self.fast, self.problem.arithmetic, P, (D, L), (dO, V))
