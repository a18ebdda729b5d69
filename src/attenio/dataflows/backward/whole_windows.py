"""All scores that some keys need stay under a short window, or all that some rows need, and are used where they are.

The steps of ``tiled_products`` with whole_rows and whole_keys; its docstring has them. Nothing takes the place of a
score that no row needs, and all of D is there with the scores of a row: no output is read.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.spilled_scores import loaded
from attenio.dataflows.backward.steps import (
    add_key_gradient,
    add_query_gradient,
    add_value_gradient,
    add_value_scores,
    exponentiate_with,
    score_gradient,
)
from attenio.dataflows.backward.zeros import store_key_zeros
from attenio.dataflows.online_softmax import ONE, add_scores
from attenio.dataflows.whole_tiles import WholeTile, whole_tiles
from attenio.masks.patterns import Band
from attenio.memory import Buffer, FastMemory, SlowArray, Step, Tile
from attenio.memory.banded import banded_intermediate
from attenio.memory.indices import Indices, as_array, compact, singles, size
from attenio.planning.plan import Tiles

Marks = NDArray[np.bool_]


def whole_windows(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    keys, summed = problem.pattern.keys, "summed_keys" in tiles
    spilled = _spilled(problem, "P"), _spilled(problem, "dS") if summed else None
    _value_gradients(problem, spilled[0], min(tiles["whole_keys"], keys), fast)
    _query_gradients(problem, spilled, tiles, fast)
    if spilled[1] is not None:
        _key_gradients(problem, spilled[1], min(tiles["summed_keys"], keys), fast)


def _spilled(problem: BackwardProblem, name: str) -> SlowArray:
    """Room for the scores that rows need: of a window few, however long it is."""
    pattern = problem.pattern
    assert isinstance(pattern, Band)
    first = np.tile(pattern.first_key(np.arange(pattern.rows, dtype=np.int64)).astype(np.intp), problem.group)
    return banded_intermediate(name, first, (_longest(pattern), pattern.keys), problem.intermediate_words)


def _value_gradients(problem: BackwardProblem, P: SlowArray, b: int, fast: FastMemory) -> None:
    """P of all rows that need a key of a tile, and dV of its keys from them while they stay."""
    for span, height, scores in _key_tiles(problem, b):
        with fast.scratch("S", problem.group, scores):
            rows, required = _rows_that_need(problem, span)
            S = Tile("S", np.zeros(required.shape, dtype=np.float32), rows, span, fast.intermediate_words)
            if size(rows):
                with fast.buffer("K", height, 1) as K_column, fast.buffer("Q", 1, 1) as Q_element:
                    for depth in singles(problem.depth):
                        with (
                            K_column.holding(problem.K, span, depth) as K_t,
                            Q_element.streaming(problem.Q, rows, depth, along="rows") as Q_t,
                        ):
                            add_scores(fast, problem.arithmetic, S, Q_t, K_t)
                with fast.scratch("L", 1, 1) as one, one.streaming(problem.L, rows, along="rows") as L:
                    exponentiate_with(fast, problem.arithmetic, S, L, ~required)
                fast.store(S, P, cells=required)
            _sum_over_rows(problem, (S, problem.dO, problem.dV), add_value_gradient, height, fast)
            problem.advance(size(span))


def _key_gradients(problem: BackwardProblem, dS: SlowArray, b: int, fast: FastMemory) -> None:
    """dK of the keys of a tile, from dS of all rows that need one, read once."""
    for span, height, count in _key_tiles(problem, b):
        with fast.scratch("dS", problem.group, count):
            rows, required = _rows_that_need(problem, span)
            scores = loaded(fast, dS, rows, span, required)
            _sum_over_rows(problem, (scores, problem.Q, problem.dK), add_key_gradient, height, fast)
            problem.advance(size(span))


def _key_tiles(problem: BackwardProblem, b: int) -> list[WholeTile]:
    """Tiles of keys with the scores of a head."""
    across, w = problem.pattern.transposed, problem.intermediate_words
    assert isinstance(across, Band)
    return whole_tiles(across, b, problem.group * w, w)


def _sum_over_rows(
    problem: BackwardProblem,
    arrays: tuple[Tile, SlowArray, SlowArray],
    add: Callable[[FastMemory, Arithmetic, Tile, Tile, Tile], None],
    b: int,
    fast: FastMemory,
) -> None:
    """A gradient of keys, column by column, from scores that stay and from what passes by."""
    scores, passing, gradient = arrays
    with fast.scratch(gradient.name, b, 1) as column_buffer, fast.buffer(passing.name, 1, 1) as element:
        for column in singles(size(gradient.columns)):
            total = column_buffer.zeros(scores.columns, column)
            if size(scores.rows):
                with element.streaming(passing, scores.rows, column, along="rows") as passed:
                    add(fast, problem.arithmetic, total, scores, passed)
            fast.store(total, gradient)


def _query_gradients(
    problem: BackwardProblem, spilled: tuple[SlowArray, SlowArray | None], tiles: Tiles, fast: FastMemory
) -> None:
    """dS of all keys that the rows of a tile need, from P, and dQ of its rows while they stay; then dS, or dK, goes."""
    pattern, (P, dS) = problem.pattern, spilled
    assert isinstance(pattern, Band)
    a, longest, w = min(tiles["whole_rows"], pattern.rows), _longest(pattern), problem.intermediate_words
    every = whole_tiles(pattern, a, w, w if dS is not None else 1 + w)
    partial = _PartialKeys(problem, every) if dS is None else None
    for heads in problem.head_tiles(1):
        for positions, height, scores in every:
            with fast.scratch("dP", 1, scores), fast.scratch("P", 1, longest):
                rows, needed = problem.rows_of(heads, positions), pattern.needed_keys(positions.start, positions.stop)
                required = pattern.required(positions.start, positions.stop, needed)
                values = np.zeros(required.shape, dtype=np.float32)
                dP = Tile("dP", values, rows, compact(needed), fast.intermediate_words)
                if len(needed):
                    with fast.buffer("dO", height, 1) as dO_column, fast.buffer("V", 1, 1) as V_element:
                        for column in singles(problem.width):
                            with (
                                dO_column.holding(problem.dO, rows, column) as dO_c,
                                V_element.streaming(problem.V, dP.columns, column, along="rows") as V_c,
                            ):
                                add_value_scores(fast, problem.arithmetic, dP, dO_c, V_c)
                    with fast.scratch("D", 1, 1):
                        dP = _score_gradients(problem, P, (dP, required), fast)
                    if dS is not None:
                        fast.store(dP, dS, cells=required)
                _add_to_rows(problem, dP, height, partial, fast)
            problem.advance(size(positions))
    if dS is None:
        store_key_zeros(fast, pattern, problem.dK)


def _score_gradients(problem: BackwardProblem, source: SlowArray, made: tuple[Tile, Marks], fast: FastMemory) -> Tile:
    """dS in the place of dP, row by row, while a row of P is there: D is the sum of its P dP."""
    dP, required = made
    P = loaded(fast, source, dP.rows, dP.columns, required)
    D: NDArray[np.float32] = (P.values * dP.values).sum(axis=1, keepdims=True)
    problem.arithmetic.keep(D)
    fast.computed(Step.DELTA, dP.rows, ONE, dP.columns)
    return score_gradient(fast, problem.arithmetic, P, dP, (Tile("D", D, dP.rows, ONE, P.words_each), None))


def _add_to_rows(problem: BackwardProblem, dS: Tile, a: int, partial: "_PartialKeys | None", fast: FastMemory) -> None:
    """dQ of the rows, column by column, as elements of their keys pass, with what these rows give to dK if it is."""
    if partial is not None:
        partial.begin(dS.columns)
    with (
        fast.scratch("dQ", a, 1) as dQ_column,
        fast.buffer("K", 1, 1) as K_element,
        fast.buffer("Q", a if partial else 0, 1) as Q_column,
        fast.scratch("dK", 1 if partial else 0, 1),
    ):
        for column in singles(problem.depth):
            dQ = dQ_column.zeros(dS.rows, column)
            if size(dS.columns):
                with K_element.streaming(problem.K, dS.columns, column, along="rows") as K_t:
                    add_query_gradient(fast, problem.arithmetic, dQ, dS, K_t)
                if partial is not None:
                    partial.add(dS, column, Q_column, fast)
            fast.store(dQ, problem.dQ)


class _PartialKeys:
    """Sums of dK that come and go with every tile of rows that needs a key; the last of these has them done."""

    def __init__(self, problem: BackwardProblem, tiles: list[WholeTile]) -> None:
        self._problem, keys = problem, problem.pattern.keys
        self._partial = problem.spilled("partial dK", keys, problem.depth)
        self._met, self._left = np.zeros(keys, dtype=np.int64), np.zeros(keys, dtype=np.int64)
        for positions, _, _ in tiles:
            self._left[problem.pattern.needed_keys(positions.start, positions.stop)] += problem.group

    def begin(self, keys: Indices) -> None:
        """Another tile meets these keys."""
        self._met[keys] += 1
        self._left[keys] -= 1

    def add(self, dS: Tile, column: slice, Q_column: Buffer, fast: FastMemory) -> None:
        """A column of what the rows of a tile give to the keys that they need."""
        keys = as_array(dS.columns)
        seen, last = self._met[keys] > 1, self._left[keys] == 0
        dK = Tile("dK", np.zeros((len(keys), 1), dtype=np.float32), keys, column, fast.intermediate_words)
        if seen.any():
            fast.load(self._partial, dK, keys[seen], at=np.flatnonzero(seen))
        with Q_column.holding(self._problem.Q, dS.rows, column) as Q_t:
            add_key_gradient(fast, self._problem.arithmetic, dK, dS, Q_t)
        if not last.all():
            fast.store(dK, self._partial, keys[~last], at=np.flatnonzero(~last))
        if last.any():
            fast.store(dK, self._problem.dK, keys[last], at=np.flatnonzero(last))


def _longest(pattern: object) -> int:
    """The most keys that a row of a band needs, one at least."""
    assert isinstance(pattern, Band)
    return max(1, int(pattern.longest_row))


def _rows_that_need(problem: BackwardProblem, keys: slice) -> tuple[Indices, Marks]:
    """The rows of all heads that need one of the keys, and which of them."""
    pattern = problem.pattern
    positions = pattern.transposed.needed_keys(keys.start, keys.stop)
    first, stop = (int(positions[0]), int(positions[-1]) + 1) if len(positions) else (0, 0)
    required = pattern.required(first, stop, np.arange(keys.start, keys.stop, dtype=np.intp))
    rows = np.concatenate([head * pattern.rows + positions for head in range(problem.group)])
    return compact(rows), np.tile(required, (problem.group, 1))
