"""Gradients of values that are wider than keys, apart from the others: a group of their columns at a time.

    for each group of value_columns columns c of V:
        for each tile j of value_keys keys that some row needs:
            load its needed K_j;  dV_j[c] = 0
            for each position that needs a key of j, those in the slots first; i its rows in all heads of the group:
                load q_i, dO_i[c], L_i into one of value_rows slots (not if they are there)
                for each row, each key of j that it needs:  p = exp(scale q . k - L);  dv[c] += p dO[c]
            store dV_j[c]

Probabilities are recomputed for every group, from keys and queries that are narrow.
"""

import numpy as np

from attenio.dataflows.backward.passing_rows import PassingRows, part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import add_value_gradient, exponentiate_with
from attenio.dataflows.key_slots import keeping_slots, needed_by_tiles, turns
from attenio.dataflows.key_tiles import KeyTiles, required_scores
from attenio.dataflows.online_softmax import ONE, make_scores
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import compact, cuts, size
from attenio.planning.plan import Tiles


def value_gradients(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """dV of the keys that some row needs, for the heads of one group of one sequence."""
    pattern, across, arithmetic = problem.pattern, problem.pattern.transposed, problem.arithmetic
    b, slots = min(tiles["value_keys"], pattern.keys), min(tiles["value_rows"], pattern.rows)
    width, needed = min(tiles["value_columns"], problem.width), needed_by_tiles(across, b)
    for columns in cuts(problem.width, width):
        arrays = ((problem.Q, problem.Q.columns), (problem.dO, columns), (problem.L, ONE))
        visits = turns(needed, slots=slots, keeping=keeping_slots(across, slots))
        with (
            fast.buffer("K", b, problem.depth) as K_buffer,
            fast.scratch("dV", b, size(columns)) as dV_buffer,
            fast.scratch("P", 1, 1),
            PassingRows(problem, fast, slots, arrays) as rows,
        ):
            for j, visited in zip(KeyTiles(problem, b), (each for each in visits if each), strict=True):
                touched = compact(j.keys)
                dV_j = dV_buffer.zeros(touched, columns)
                with K_buffer.holding(problem.K, touched) as K_j:
                    for visit in visited:
                        Q, dO, L = rows.visiting(visit)
                        needing = required_scores(pattern, np.array([visit.key]), j.keys)[0]
                        at, named = np.flatnonzero(needing), compact(j.keys[needing])
                        K, dV = part(K_j, at, named), part(dV_j, at, named)
                        S = Tile("P", np.zeros((len(Q.values), len(at)), dtype=np.float32), Q.rows, named)
                        make_scores(fast, arithmetic, S, Q, K)
                        P = exponentiate_with(fast, arithmetic, S, L, None)
                        add_value_gradient(fast, arithmetic, dV, P, dO)
                        dV_j.values[at] = dV.values
                fast.store(dV_j, problem.dV)
