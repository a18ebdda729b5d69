"""What becomes of a tile of scores: probabilities, and their gradients."""

import numpy as np
from numpy.typing import NDArray

from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.matrix import Values
from attenio.weight_gradient.dataflows.problem import WeightProblem, passing

Hidden = NDArray[np.bool_] | None


def stream_delta(fast: FastMemory, problem: WeightProblem, D: Tile, B: Tile, E: SlowArray) -> None:
    """D = B . E while stored outputs pass by."""
    E_rows = passing(fast, E, D.rows, E.columns)
    D.values[...] = (B.values * E_rows.values).sum(axis=1, keepdims=True)
    problem.arithmetic.keep(D.values)


def probabilities(problem: WeightProblem, S: Tile, statistics: tuple[Tile, Tile], hidden: Hidden) -> Tile:
    """Scores become exp(S - max) / sum in place, 0 where a score is not required."""
    largest, total = statistics
    np.exp(S.values - largest.values, out=S.values)
    S.values /= total.values
    if hidden is not None:
        S.values[hidden] = 0
    problem.arithmetic.keep(S.values)
    return S


def turn_into_gradient(problem: WeightProblem, P: Tile, dP: Values, D: Tile) -> Tile:
    """P becomes dS = P (dP - D) in place."""
    P.values *= dP - D.values
    problem.arithmetic.keep(P.values)
    return P
