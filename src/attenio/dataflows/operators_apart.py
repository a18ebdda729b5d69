"""Scores, probabilities and outputs as three operators that meet in slow memory, each tiled by itself.

``seen`` is a pattern of the scores that operators make and read: those that are required, or all of them.
"""

from attenio.dataflows.online_softmax import RowStatistics, add_output, add_scores_by_depth, hide
from attenio.dataflows.problem import Problem, key_runs, visible
from attenio.masks.patterns import Pattern
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import compact, cuts, size
from attenio.planning.plan import Tiles


def operators_apart(problem: Problem, tiles: Tiles, fast: FastMemory, seen: Pattern) -> None:
    """Run one head of one sequence."""
    rows, keys = problem.pattern.rows, problem.pattern.keys
    S = problem.spilled("S", rows, keys)
    P = problem.spilled("P", rows, keys) if problem.P is None else problem.P
    store_scores(problem, S, (min(tiles["score_rows"], rows), min(tiles["score_keys"], keys)), fast, seen)
    _softmax(problem, (S, P), min(tiles["resident_keys"], keys), fast, seen)
    _outputs(problem, P, (min(tiles["output_rows"], rows), min(tiles["output_columns"], problem.width)), fast, seen)


def store_scores(problem: Problem, S: SlowArray, tile: tuple[int, int], fast: FastMemory, seen: Pattern) -> None:
    """Tiles of scores from columns of queries and elements of keys."""
    a, b = tile
    with (
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("Q", a, 1) as Q_column,
        fast.buffer("K", 1, 1) as K_element,
    ):
        for rows in problem.query_tiles(a):
            for keys, hidden in key_runs(seen, rows, b):
                S_ij = S_buffer.zeros(rows, keys)
                add_scores_by_depth(fast, problem, S_ij, Q_column, K_element)
                fast.store(S_ij, S, cells=visible(hidden))


def _softmax(
    problem: Problem, spilled: tuple[SlowArray, SlowArray], resident: int, fast: FastMemory, seen: Pattern
) -> None:
    S, P = spilled
    with (
        fast.scratch("S", 1, resident) as S_buffer,
        fast.scratch("score in hand", 1, 1) as in_hand,
        RowStatistics(fast, problem.arithmetic) as statistics,
    ):
        for row in problem.query_tiles(1):
            needed = seen.needed_keys(row.start, row.stop)
            hidden = ~problem.pattern.required(row.start, row.stop, needed)
            first, rest = compact(needed[:resident]), compact(needed[resident:])
            statistics.begin(problem.sinks_of(row))
            scores = S_buffer.over(row, first)
            if size(first):
                fast.load(S, scores)
                hide(scores, hidden[:, :resident])
                statistics.take(scores)
            if size(rest):
                with in_hand.streaming(S, row, rest, along="columns") as s:
                    hide(s, hidden[:, resident:])
                    statistics.take(s)
            statistics.save(problem, row)
            if size(first):
                fast.store(statistics.probabilities(scores), P)
            if size(rest):
                with in_hand.streaming(S, row, rest, along="columns") as s:
                    hide(s, hidden[:, resident:])
                    fast.store(statistics.probabilities(s), P)


def _outputs(problem: Problem, P: SlowArray, tile: tuple[int, int], fast: FastMemory, seen: Pattern) -> None:
    p, c = tile
    with (
        fast.scratch("O", p, c) as O_buffer,
        fast.scratch("P", p, 1) as P_column,
        fast.buffer("V", 1, 1) as V_element,
    ):
        for rows in problem.query_tiles(p):
            for columns in cuts(problem.width, c):
                O_ic = O_buffer.zeros(rows, columns)
                for key, hidden in key_runs(seen, rows, 1):
                    P_j = P_column.over(rows, key)
                    fast.load(P, P_j, cells=visible(hidden))
                    if hidden is not None:
                        P_j.values[hidden] = 0
                    with V_element.streaming(problem.V, key, columns, along="columns") as V_j:
                        add_output(fast, problem.arithmetic, O_ic, P_j, V_j)
                fast.store(O_ic, problem.O)
