"""Gradients of values that are wider than keys, apart from the others: a group of their columns at a time.

    for each group of value_columns columns c of V:
        for each tile j of value_keys keys that some row needs:
            load its needed K_j;  dV_j[c] = 0
            for each position that needs a key of j, those in the slots first; i its rows in all heads of the group:
                load q_i, dO_i[c], L_i into one of value_rows slots (not if they are there)
                for each row, each key of j that it needs:  p = exp(scale q . k - L);  dv[c] += p dO[c]
            store dV_j[c]

Probabilities are made again for every group, from keys and queries that are narrow.
"""

import numpy as np

from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import add_value_gradient, exponentiate_with
from attenio.dataflows.key_slots import keeping_slots, needed_by_tiles, turns
from attenio.dataflows.key_tiles import KeyTile, KeyTiles, required_scores
from attenio.dataflows.online_softmax import ONE, make_scores
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import compact, cuts
from attenio.planning.plan import Tiles


def value_gradients(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """dV of the keys that some row needs, for the heads of one group of one sequence."""
    pattern, across = problem.pattern, problem.pattern.transposed
    b, slots = min(tiles["value_keys"], pattern.keys), min(tiles["value_rows"], pattern.rows)
    width, rows = min(tiles["value_columns"], problem.width), problem.group * slots
    needed, every = needed_by_tiles(across, b), slice(0, rows)
    with (
        fast.buffer("K", b, problem.depth) as K_buffer,
        fast.scratch("dV", b, width) as dV_buffer,
        fast.buffer("Q", rows, problem.depth) as Q_buffer,
        fast.buffer("dO", rows, width) as dO_buffer,
        fast.scratch("L", rows, 1) as L_buffer,
        fast.scratch("P", 1, 1),
    ):
        for columns in cuts(problem.width, width):
            held = Q_buffer.over(every, problem.Q.columns), dO_buffer.over(every, columns), L_buffer.over(every, ONE)
            visits = turns(needed, slots=slots, keeping=keeping_slots(across, slots))
            for j, visited in zip(KeyTiles(problem, b), (each for each in visits if each), strict=True):
                touched = compact(j.keys)
                dV_j = dV_buffer.zeros(touched, columns)
                with K_buffer.holding(problem.K, touched) as K_j:
                    for visit in visited:
                        named = np.arange(problem.group, dtype=np.int64) * pattern.rows + visit.key
                        places = np.arange(visit.slot * problem.group, (visit.slot + 1) * problem.group, dtype=np.intp)
                        if visit.arrives:
                            for source, tile in zip((problem.Q, problem.dO, problem.L), held, strict=True):
                                fast.load(source, tile, compact(named), at=places)
                        some = [Tile(x.name, x.values[places], compact(named), x.columns, x.words_each) for x in held]
                        _meet(fast, problem, (some[0], some[1], some[2]), (j, visit.key), (K_j, dV_j))
                fast.store(dV_j, problem.dV)


def _meet(
    fast: FastMemory,
    problem: BackwardProblem,
    rows: tuple[Tile, Tile, Tile],
    where: tuple[KeyTile, int],
    keys: tuple[Tile, Tile],
) -> None:
    """The rows of a position meet the keys of a tile that they need."""
    (Q, dO, L), (j, position), (K_j, dV_j) = rows, where, keys
    needing = required_scores(problem.pattern, np.array([position]), j.keys)[0]
    at, named = np.flatnonzero(needing), compact(j.keys[needing])
    K, dV = (Tile(x.name, x.values[at], named, x.columns, x.words_each) for x in (K_j, dV_j))
    S = Tile("P", np.zeros((len(Q.values), len(at)), dtype=np.float32), Q.rows, named)
    make_scores(fast, problem.arithmetic, S, Q, K)
    add_value_gradient(fast, problem.arithmetic, dV, exponentiate_with(fast, problem.arithmetic, S, L, None), dO)
    dV_j.values[at] = dV.values
