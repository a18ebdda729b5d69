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

from attenio.dataflows.online_softmax import OnlineSoftmax, make_scores
from attenio.dataflows.problem import Problem, for_heads, key_runs
from attenio.memory import FastMemory
from attenio.planning.plan import Tiles


def attenio(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    attend(problem, tiles, fast, heads_at_once=1)


def attend(problem: Problem, tiles: Tiles, fast: FastMemory, *, heads_at_once: int) -> None:
    """The loop nest; a tile has the rows of ``heads_at_once`` heads, one under the other."""
    Q, K, V, depth, width = problem.Q, problem.K, problem.V, problem.depth, problem.width
    a, b = min(tiles["query_tile"], problem.pattern.rows), min(tiles["key_tile"], problem.pattern.keys)
    most = heads_at_once * a
    with (
        fast.buffer("Q", most, depth) as Q_buffer,
        fast.scratch("O", most, width) as O_buffer,
        OnlineSoftmax(fast, problem.arithmetic, most) as softmax,
        fast.scratch("S", most, b) as S_buffer,
        problem.key_buffer(fast, "KV", b, max(depth, width)) as KV_buffer,
    ):
        for heads in problem.head_tiles(heads_at_once):
            for positions in problem.query_tiles(a):
                rows = problem.rows_of(heads, positions)
                softmax.begin(rows, problem.sinks_of(rows))
                O_i = O_buffer.zeros(rows, V.columns)
                if len(needed := problem.pattern.needed_keys(positions.start, positions.stop)):
                    with Q_buffer.holding(Q, rows) as Q_i:
                        for keys, hidden in key_runs(problem.pattern, positions, b, needed):
                            S = S_buffer.zeros(rows, keys)
                            with KV_buffer.holding(K, keys) as K_j:
                                make_scores(fast, problem.arithmetic, S, Q_i, K_j)
                                P = softmax.absorb(S, for_heads(hidden, heads))
                                if problem.values_in_keys:
                                    softmax.accumulate(O_i, P, K_j.first_columns(width))
                            if not problem.values_in_keys:
                                with KV_buffer.holding(V, keys) as V_j:
                                    softmax.accumulate(O_i, P, V_j)
                softmax.save(problem)
                softmax.normalise(O_i)
                fast.store(O_i, problem.O)
