"""AttenIO: queries and outputs stationary, keys and values take turns in one buffer [AttenIO, algorithm 1].

    for each tile i of query_tile rows:
        load Q_i; O_i, max, sum = 0, -inf, 0
        for each run j of key_tile keys that the tile needs:
            load K_j;  S = scale Q_i K_j^T
            P, max, sum, rescale = online softmax of S
            load V_j over K_j (not if it is part of K_j);  O_i = rescale O_i + P V_j
        store O_i / sum

Fast memory: a rows of Q, of O and of three statistics, a x b scores, and b rows of K or V. With b = 1 almost all of it
serves queries, and each key is read once per a of them.
"""

from attenio.dataflows.online_softmax import OnlineSoftmax, add_scores
from attenio.dataflows.problem import Problem, key_runs
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def attenio(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    Q, K, V, depth, width = problem.Q, problem.K, problem.V, problem.depth, problem.width
    a = min(tiles["query_tile"], problem.pattern.rows)
    b = min(tiles["key_tile"], problem.pattern.keys)
    with (
        fast.buffer("Q", a, depth) as Q_buffer,
        fast.scratch("O", a, width) as O_buffer,
        OnlineSoftmax(fast, problem.arithmetic, a) as softmax,
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("KV", b, max(depth, width)) as KV_buffer,
    ):
        for rows in problem.query_tiles(a):
            softmax.begin(rows)
            O_i = O_buffer.zeros(rows, V.columns)
            if len(needed := problem.pattern.needed_keys(rows.start, rows.stop)):
                with Q_buffer.holding(Q, rows) as Q_i:
                    for keys, hidden in key_runs(problem.pattern, rows, b, needed):
                        S = S_buffer.zeros(rows, keys)
                        with KV_buffer.holding(K, keys) as K_j:
                            add_scores(fast, problem.arithmetic, S, Q_i, K_j)
                            P = softmax.absorb(S, hidden)
                            if problem.values_in_keys:
                                softmax.accumulate(O_i, P, K_j.first_columns(width))
                        if not problem.values_in_keys:
                            with KV_buffer.holding(V, keys) as V_j:
                                softmax.accumulate(O_i, P, V_j)
            softmax.save(problem)
            softmax.normalise(O_i)
            fast.store(O_i, problem.O)
