"""Square tiling for small fast memories: scores go through slow memory once, tile by tile [SY, algorithm 1].

    phase 1, for each tile i of query_tile rows, each run j of key_tile keys it needs:
        S = 0;  for each depth chunk t of depth_tile columns:  load Q_it and K_jt;  S += scale Q_it K_jt^T
        max takes in S;  store the required scores
      store max
    phase 2, for each tile i of query_tile rows:
        load max
        for each chunk c of depth_tile value columns:
            O_ic, sum = 0
            for each run j of key_tile keys it needs:  load the required scores;  P = exp(S - max);  sum += P
                load V_jc;  O_ic += P V_jc
            store O_ic / sum

Scores are stored raw and exponentiated when they come back, against the maximum of the whole row. The sum is taken
anew in phase 2 instead of being carried as a log-sum-exp: next to scores beyond 1e8 a single-precision log-sum-exp
cannot tell one such score from a thousand.
"""

from attenio.dataflows.online_softmax import (
    add_output,
    add_scores,
    exponentiate,
    first_maximum,
    first_sum,
    hide,
    normalise,
    raise_maximum,
    save_log_sum_exp,
)
from attenio.dataflows.problem import Problem, key_runs, visible
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import cuts
from attenio.planning.plan import Tiles


def square_tiling(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    rows, keys = problem.pattern.rows, problem.pattern.keys
    a, b, c = min(tiles["query_tile"], rows), min(tiles["key_tile"], keys), tiles["depth_tile"]
    S, largest = problem.spilled("S", rows, keys), problem.spilled("max", rows, 1)
    _scores(problem, (S, largest), (a, b, min(c, problem.depth)), fast)
    _outputs(problem, (S, largest), (a, b, min(c, problem.width)), fast)


def _scores(
    problem: Problem, spilled: tuple[SlowArray, SlowArray], tile: tuple[int, int, int], fast: FastMemory
) -> None:
    a, b, c = tile
    with (
        fast.scratch("max", a, 1) as max_buffer,
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("Q", a, c) as Q_buffer,
        fast.buffer("K", b, c) as K_buffer,
    ):
        for rows in problem.query_tiles(a):
            largest = first_maximum(max_buffer, problem, rows)
            for keys, hidden in key_runs(problem.pattern, rows, b):
                S_ij = S_buffer.zeros(rows, keys)
                for chunk in cuts(problem.depth, c):
                    with (
                        Q_buffer.holding(problem.Q, rows, chunk) as Q_it,
                        K_buffer.holding(problem.K, keys, chunk) as K_jt,
                    ):
                        add_scores(fast, problem.arithmetic, S_ij, Q_it, K_jt)
                problem.arithmetic.cap(S_ij.values)
                hide(S_ij, hidden)
                raise_maximum(fast, largest, S_ij)
                fast.store(S_ij, spilled[0], cells=visible(hidden))
            fast.store(largest, spilled[1])


def _outputs(
    problem: Problem, spilled: tuple[SlowArray, SlowArray], tile: tuple[int, int, int], fast: FastMemory
) -> None:
    a, b, c = tile
    with (
        fast.scratch("max", a, 1) as max_buffer,
        fast.scratch("sum", a, 1) as sum_buffer,
        fast.scratch("O", a, c) as O_buffer,
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("V", b, c) as V_buffer,
    ):
        for rows in problem.query_tiles(a):
            with max_buffer.holding(spilled[1], rows) as largest:
                for columns in cuts(problem.width, c):
                    O_ic, total = O_buffer.zeros(rows, columns), first_sum(sum_buffer, problem, largest)
                    for keys, hidden in key_runs(problem.pattern, rows, b):
                        S_ij = S_buffer.over(rows, keys)
                        fast.load(spilled[0], S_ij, cells=visible(hidden))
                        P_ij = exponentiate(fast, problem.arithmetic, S_ij, largest, total)
                        with V_buffer.holding(problem.V, keys, columns) as V_jc:
                            add_output(fast, problem.arithmetic, O_ic, P_ij, V_jc)
                    if columns.start == 0:
                        save_log_sum_exp(fast, problem, largest, total)
                    normalise(fast, problem.arithmetic, O_ic, total)
                    fast.store(O_ic, problem.O)
