"""Stacked groups: AttenIO's order over the rows of all heads that share keys, and of all requests that share a prefix.

    for each tile of head_tile heads of the group, each tile of query_tile positions; i their rows, head after head:
        load Q_i; O_i, max, sum = 0, -inf, 0
        for each run j of key_tile keys that the positions need:
            load K_j;  S = scale Q_i K_j^T
            P, max, sum, rescale = online softmax of S
            load V_j over K_j (not if it is part of K_j);  O_i = rescale O_i + P V_j
        store O_i / sum

A key read once serves head_tile x query_tile rows. With a shared prefix the positions of all requests follow each
other, so a tile that spans requests reads the prefix once for all of them.
"""

from attenio.dataflows.online_softmax import OnlineSoftmax, add_scores
from attenio.dataflows.problem import Problem, for_heads, key_runs
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def stacked_groups(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the query heads of one KV head."""
    Q, K, V, depth, width = problem.Q, problem.K, problem.V, problem.depth, problem.width
    p, h = min(tiles["query_tile"], problem.pattern.rows), min(tiles["head_tile"], problem.group)
    b = min(tiles["key_tile"], problem.pattern.keys)
    with (
        fast.buffer("Q", h * p, depth) as Q_buffer,
        fast.scratch("O", h * p, width) as O_buffer,
        OnlineSoftmax(fast, problem.arithmetic, h * p) as softmax,
        fast.scratch("S", h * p, b) as S_buffer,
        fast.buffer("KV", b, max(depth, width)) as KV_buffer,
    ):
        for heads in problem.head_tiles(h):
            for positions in problem.query_tiles(p):
                rows = problem.rows_of(heads, positions)
                softmax.begin(rows)
                O_i = O_buffer.zeros(rows, V.columns)
                if len(needed := problem.pattern.needed_keys(positions.start, positions.stop)):
                    with Q_buffer.holding(Q, rows) as Q_i:
                        for keys, hidden in key_runs(problem.pattern, positions, b, needed):
                            S = S_buffer.zeros(rows, keys)
                            with KV_buffer.holding(K, keys) as K_j:
                                add_scores(fast, problem.arithmetic, S, Q_i, K_j)
                                P = softmax.absorb(S, for_heads(hidden, heads))
                                if problem.values_in_keys:
                                    softmax.accumulate(O_i, P, K_j.first_columns(width))
                            if not problem.values_in_keys:
                                with KV_buffer.holding(V, keys) as V_j:
                                    softmax.accumulate(O_i, P, V_j)
                softmax.save(problem)
                softmax.normalise(O_i)
                fast.store(O_i, problem.O)
