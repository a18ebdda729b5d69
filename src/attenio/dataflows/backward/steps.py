"""The pieces of the gradient that the backward dataflows share, on tiles in fast memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.backward.problem import BackwardProblem, Float32
from attenio.dataflows.online_softmax import ONE, make_scores
from attenio.dataflows.row_by_row import Rows, note
from attenio.memory import FastMemory, Step, Tile
from attenio.memory.fast_memory import Buffer
from attenio.memory.indices import as_array, singles

Hidden = NDArray[np.bool_] | None
Positions = NDArray[np.intp]


@contextmanager
def room_for_score(fast: FastMemory) -> Iterator[None]:
    """Room for one score and its gradient."""
    with fast.scratch("S", 1, 1), fast.scratch("dP", 1, 1):
        yield


class Sums(NamedTuple):
    """Gradients that are added to; None for what is made elsewhere."""

    dQ: Tile | None = None
    dK: Tile | None = None
    dV: Tile | None = None


def add_gradients(
    fast: FastMemory,
    arithmetic: Arithmetic,
    rows: tuple[Tile, Tile, Tile, Tile],
    keys: tuple[Tile, Tile],
    sums: Sums,
    scores: tuple[Tile, Hidden] | None = None,
) -> Tile:
    """P = exp(scale Q K^T - L), then dS = P (dO V^T - D) in its place, and what they add to dV, dK and dQ; gives dS.

    ``rows`` are Q, dO, L and D, ``keys`` K and V. ``scores`` is the tile for them, with those that are not required;
    without it they are made one by one, and all are required.
    """
    (Q, dO, L, D), (K, V) = rows, keys
    one_by_one = Tile("S", np.zeros((len(Q.values), len(K.values)), dtype=np.float32), Q.rows, K.rows), None
    S, hidden = scores or one_by_one
    make_scores(fast, arithmetic, S, Q, K)
    P = exponentiate_with(fast, arithmetic, S, L, hidden)
    if sums.dV is not None:
        add_value_gradient(fast, arithmetic, sums.dV, P, dO)
    dS = turn_into_score_gradient(fast, arithmetic, P, (D, L), (dO, V))
    if sums.dK is not None:
        add_key_gradient(fast, arithmetic, sums.dK, dS, Q)
    if sums.dQ is not None:
        add_query_gradient(fast, arithmetic, sums.dQ, dS, K)
    return dS


def stream_delta(  # noqa: PLR0913 - all that a row has
    fast: FastMemory,
    problem: BackwardProblem,
    D: Tile,
    dO: Tile,
    O_element: Buffer,
    L: Tile | None,
    at: Positions | None = None,
) -> None:
    """D = dO . O for the rows ``at`` of a tile (all by default), while their saved outputs pass through one word.

    Outputs that are in fast memory since the forward pass are read from there.
    With it and the log-sum-exp, what the rows give to the gradients of their sinks is known.
    """
    named = as_array(dO.rows)
    rows = np.arange(len(named), dtype=np.int64) if at is None else at
    total = np.zeros((len(rows), 1), dtype=np.float32)
    away = named[rows] < len(problem.O.values) - max(problem.kept_outputs, problem.stays.rows)
    for column in singles(problem.width):
        with O_element.streaming(problem.O, named[rows][away], column, along="rows") as O_c:
            outputs = problem.O.values[named[rows], column]
            outputs[away] = O_c.values
            total += dO.values[rows, column] * outputs
            problem.arithmetic.keep(total)
            fast.computed(Step.DELTA, named[rows], ONE, column)
    D.values[rows] = total
    if problem.d_sinks is not None:
        assert L is not None, "no dataflow without the log-sum-exp takes sinks"
        _give_to_sinks(problem, named[rows], L.values[rows], total)


def make_statistics(
    fast: FastMemory, problem: BackwardProblem, rows: tuple[Tile, Tile, Tile, Tile], keys: tuple[Tile, Tile]
) -> None:
    """L and D of rows whose keys are all here: D = sum of P dP, so that neither L nor outputs are read.

    A maximum and a sum take the places of L and D first; a score and its gradient are in hand. ``rows`` are Q, dO, L
    and D, ``keys`` K and V.
    """
    (Q, dO, L, D), (K, V), arithmetic = rows, keys, problem.arithmetic
    nothing = Tile("O", np.zeros((len(Q.values), 0), dtype=np.float32), Q.rows, slice(0, 0))
    seen = Rows(Q, nothing, L, D)
    every = slice(0, len(Q.values))
    seen.begin(every, problem.sinks_of(Q.rows))
    seen.take_in(arithmetic, every, K.values, V.values[:, :0])
    note(fast, Q.rows, K.rows, slice(0, 0))
    L.values[...] += np.log(D.values)
    arithmetic.keep(L.values)
    fast.computed(Step.LOG_SUM_EXP, Q.rows, ONE)
    S, dP = (Tile(name, np.zeros((len(Q.values), len(K.values)), dtype=np.float32), Q.rows, K.rows) for name in "SP")
    make_scores(fast, arithmetic, S, Q, K)
    P = exponentiate_with(fast, arithmetic, S, L, None)
    add_value_scores(fast, arithmetic, dP, dO, V)
    D.values[...] = 0
    for some in singles(len(K.values)) if arithmetic.rounds else (slice(0, len(K.values)),):
        D.values[...] += (P.values[:, some] * dP.values[:, some]).sum(axis=1, keepdims=True)
        arithmetic.keep(D.values)
    fast.computed(Step.SCORE_DELTA, Q.rows, ONE, K.rows)
    if problem.d_sinks is not None:
        _give_to_sinks(problem, as_array(Q.rows), L.values, D.values)


def _give_to_sinks(problem: BackwardProblem, rows: NDArray[np.int64], L: Float32, D: Float32) -> None:
    """What rows give to the gradients of their sinks."""
    assert problem.d_sinks is not None and problem.sinks is not None
    weights = np.exp(problem.sinks[rows] - L)
    np.subtract.at(problem.d_sinks, rows // (len(problem.sinks) // len(problem.d_sinks)), weights * D)
    problem.arithmetic.keep(problem.d_sinks)


def exponentiate_with(fast: FastMemory, arithmetic: Arithmetic, S: Tile, L: Tile, hidden: Hidden) -> Tile:
    """Scores become probabilities exp(S - L) in place, 0 where a score is not required."""
    shift = np.where(np.isneginf(L.values), np.float32(0), L.values)  # a row that no key is required for
    np.exp(S.values - shift, out=S.values)
    if hidden is not None:
        S.values[hidden] = 0
    arithmetic.keep(S.values)
    fast.computed(Step.SAVED_PROBABILITIES, S.rows, S.columns)
    return S


def add_value_scores(fast: FastMemory, arithmetic: Arithmetic, dP: Tile, dO: Tile, V: Tile) -> None:
    """dP += dO V^T over the value columns that dO and V hold."""
    arithmetic.add_product(dP.values, dO.values, V.values.T)
    fast.computed(Step.VALUE_SCORES, dP.rows, dP.columns, dO.columns)


def turn_into_score_gradient(
    fast: FastMemory, arithmetic: Arithmetic, P: Tile, statistics: tuple[Tile, Tile], factors: tuple[Tile, Tile]
) -> Tile:
    """P becomes dS = P (dP - D) in place; dP = dO V^T is made key by key, so that one column of it is enough."""
    dO, V = factors
    dP = np.zeros_like(P.values)
    arithmetic.add_product(dP, dO.values, V.values.T)
    return _finish(fast, arithmetic, P, dP, statistics)


def score_gradient(
    fast: FastMemory, arithmetic: Arithmetic, P: Tile, dP: Tile, statistics: tuple[Tile, Tile | None]
) -> Tile:
    """P becomes dS = P (dP - D) in place."""
    return _finish(fast, arithmetic, P, dP.values, statistics)


def _finish(
    fast: FastMemory, arithmetic: Arithmetic, P: Tile, dP: NDArray[np.float32], statistics: tuple[Tile, Tile | None]
) -> Tile:
    """With D of the rows, and L for the derivative of a cap: 1 - (S / cap)^2, and S = L + ln P, so that P is enough."""
    D, L = statistics
    derivative: NDArray[np.float32] = np.ones((), dtype=np.float32)
    if arithmetic.softcap is not None:
        assert L is not None, "no dataflow without the log-sum-exp takes a cap"
        with np.errstate(divide="ignore"):  # where P is 0, so is its gradient
            scores = np.where(P.values > 0, np.log(P.values) + L.values, np.float32(0))
        derivative = (1 - np.clip(scores / np.float32(arithmetic.softcap), -1, 1) ** 2).astype(np.float32)
    P.values *= (dP - D.values) * derivative
    arithmetic.keep(P.values)
    fast.computed(Step.SCORE_GRADIENT, P.rows, P.columns)
    return P


def add_value_gradient(fast: FastMemory, arithmetic: Arithmetic, dV: Tile, P: Tile, dO: Tile) -> None:
    """dV += P^T dO."""
    arithmetic.add_product(dV.values, P.values.T, dO.values)
    fast.computed(Step.VALUE_GRADIENT, dV.rows, dV.columns, P.rows)


def add_key_gradient(fast: FastMemory, arithmetic: Arithmetic, dK: Tile, dS: Tile, Q: Tile) -> None:
    """dK += scale dS^T Q."""
    arithmetic.add_product(dK.values, dS.values.T, Q.values, arithmetic.scale)
    fast.computed(Step.KEY_GRADIENT, dK.rows, dK.columns, dS.rows)


def add_query_gradient(fast: FastMemory, arithmetic: Arithmetic, dQ: Tile, dS: Tile, K: Tile) -> None:
    """dQ += scale dS K."""
    arithmetic.add_product(dQ.values, dS.values, K.values, arithmetic.scale)
    fast.computed(Step.QUERY_GRADIENT, dQ.rows, dQ.columns, dS.columns)
