"""FlashAttention-2: queries and outputs stationary, a tile of keys and its values resident together [FA2].

    for each tile i of query_tile rows:
        load Q_i; O_i, max, sum = 0, -inf, 0
        for each run j of key_tile keys that the tile needs:
            load K_j and V_j (not if it is part of K_j)
            S = scale Q_i K_j^T
            P, max, sum, rescale = online softmax of S
            O_i = rescale O_i + P V_j
        store O_i / sum

It moves what AttenIO's order moves with the same tiles; holding K_j and V_j side by side leaves less room for queries.
"""

from contextlib import nullcontext

from attenio.dataflows.online_softmax import OnlineSoftmax, make_scores
from attenio.dataflows.problem import Problem, key_runs, values_beside
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def flash_attention_2(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    Q, K, V, depth, width = problem.Q, problem.K, problem.V, problem.depth, problem.width
    a = min(tiles["query_tile"], problem.pattern.rows)
    b = min(tiles["key_tile"], problem.pattern.keys)
    with (
        fast.buffer("Q", a, depth) as Q_buffer,
        fast.scratch("O", a, width) as O_buffer,
        OnlineSoftmax(fast, problem.arithmetic, a) as softmax,
        fast.scratch("S", a, b) as S_buffer,
        problem.key_buffer(fast, "K", b, depth) as K_buffer,
        nullcontext() if problem.values_in_keys else problem.key_buffer(fast, "V", b, width) as V_buffer,
    ):
        for rows in problem.query_tiles(a):
            softmax.begin(rows, problem.sinks_of(rows))
            O_i = O_buffer.zeros(rows, V.columns)
            if len(needed := problem.pattern.needed_keys(rows.start, rows.stop)):
                with Q_buffer.holding(Q, rows) as Q_i:
                    for keys, hidden in key_runs(problem.pattern, rows, b, needed):
                        with K_buffer.holding(K, keys) as K_j, values_beside(V_buffer, V, K_j, keys) as V_j:
                            S = S_buffer.zeros(rows, keys)
                            make_scores(fast, problem.arithmetic, S, Q_i, K_j)
                            P = softmax.absorb(S, hidden)
                            softmax.accumulate(O_i, P, V_j)
            softmax.save(problem)
            softmax.normalise(O_i)
            fast.store(O_i, problem.O)
