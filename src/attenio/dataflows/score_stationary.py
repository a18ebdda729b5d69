"""Score-stationary: a tile of scores fills the memory; queries, keys, values and outputs all stream past it.

    for each tile i of query_tile rows:
        max, sum = -inf, 0
        for each run j of key_tile keys that the tile needs:
            S = 0;  for each depth t:  load a column of Q_i;  for each key load one element of K_j;  add their products
            P, max, sum, rescale = online softmax of S
            for each value column c:
                load the column of O_i (zero in the first run)
                for each key load one element of V_j;  O_ic = rescale O_ic + P V_jc
                store the column (divided by sum in the last run)

Scores never leave; the price is that partial outputs do, once per run. With resident_rows they stay, and queries too:

    for each tile i of resident_rows rows:
        load Q_i; O_i, max, sum = 0, -inf, 0
        for each run j of key_tile keys that the tile needs:
            for each element of K_j:  load it;  add its products with a column of Q_i to S
            row by row:  max;  P in the place of S;  sum;  o is scaled down
            for each element of V_j:  load it;  add its products with a column of P to O_i
        store O_i / sum

One element of a key or value at a time leaves room for rows where whole keys take as much as rows do, up to about
(d + dv)^2 words. Under a window all scores of some rows may stay, those alone that the rows need:

    for each tile i of whole_rows rows:
        S = 0;  for each depth t:  load a column of Q_i;  for each key load one element;  add what rows need of it to S
        P = softmax of S, row by row
        for each value column c:
            for each key load one element of its value;  add what rows need of it to a column of O_i
            store the column

No output is partial, and rows whose windows differ hold no scores for each other's keys. Where the first rows need one
key, two and so on, the first tile has more rows, as many as fit.
"""

import numpy as np

from attenio.dataflows.online_softmax import (
    OnlineSoftmax,
    RowStatistics,
    add_output,
    add_scores_by_depth,
    hide,
    make_scores,
)
from attenio.dataflows.problem import Problem, key_runs
from attenio.dataflows.row_by_row import RowStates
from attenio.dataflows.whole_tiles import whole_tiles
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import compact, singles, size
from attenio.planning.plan import Tiles


def score_stationary(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    pattern = problem.pattern
    if "resident_rows" in tiles:
        _resident_rows(problem, min(tiles["resident_rows"], pattern.rows), min(tiles["key_tile"], pattern.keys), fast)
        return
    if "whole_rows" in tiles:
        _whole_rows(problem, min(tiles["whole_rows"], pattern.rows), fast)
        return
    a, b = min(tiles["query_tile"], pattern.rows), min(tiles["key_tile"], pattern.keys)
    partial = problem.spilled("partial O", pattern.rows, problem.width)
    with OnlineSoftmax(fast, problem.arithmetic, a) as softmax, fast.scratch("S", a, b) as S_buffer:
        for rows in problem.query_tiles(a):
            softmax.begin(rows, problem.sinks_of(rows))
            needed = pattern.needed_keys(rows.start, rows.stop)
            last = -(-len(needed) // b) - 1
            for run, (keys, hidden) in enumerate(key_runs(pattern, rows, b, needed)):
                S = S_buffer.zeros(rows, keys)
                with fast.buffer("Q", a, 1) as Q_column, fast.buffer("K", 1, 1) as K_element:
                    add_scores_by_depth(fast, problem, S, Q_column, K_element)
                P = softmax.absorb(S, hidden)
                if run == last:
                    softmax.save(problem)
                with fast.scratch("O", a, 1) as O_column, fast.buffer("V", 1, 1) as V_element:
                    for column in singles(problem.width):
                        O_c = O_column.zeros(rows, column)
                        if run > 0:
                            fast.load(partial, O_c)
                        with V_element.streaming(problem.V, keys, column, along="rows") as V_c:
                            softmax.accumulate(O_c, P, V_c)
                        if run == last:
                            softmax.normalise(O_c)
                        fast.store(O_c, problem.O if run == last else partial)
            if len(needed) == 0:
                with fast.scratch("O", a, 1) as O_column, fast.buffer("V", 1, 1):
                    for column in singles(problem.width):
                        fast.store(O_column.zeros(rows, column), problem.O)


def _resident_rows(problem: Problem, a: int, b: int, fast: FastMemory) -> None:
    """Queries and outputs of a rows stay, and elements of b keys and values at a time pass."""
    with (
        fast.buffer("Q", a, problem.depth) as Q_buffer,
        RowStates(fast, problem.arithmetic, a, problem.width) as states,
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("KV", 1, 1) as element,
    ):
        for rows in problem.query_tiles(a):
            states.begin(rows, problem.V.columns, problem.sinks_of(rows))
            if len(needed := problem.pattern.needed_keys(rows.start, rows.stop)):
                with Q_buffer.holding(problem.Q, rows) as Q_i:
                    for keys, hidden in key_runs(problem.pattern, rows, b, needed):
                        S = S_buffer.zeros(rows, keys)
                        with element.streaming(problem.K, keys, along="elements") as K_j:
                            make_scores(fast, problem.arithmetic, S, Q_i, K_j)
                        P = states.absorb(S, hidden)
                        with element.streaming(problem.V, keys, along="elements") as V_j:
                            add_output(fast, problem.arithmetic, states.O, P, V_j)
            states.save(problem)
            states.finish(problem.O)


def _whole_rows(problem: Problem, a: int, fast: FastMemory) -> None:
    """All scores that a rows need stay, and queries, keys, values and outputs pass by column."""
    pattern, w = problem.pattern, problem.intermediate_words
    assert isinstance(pattern, Band)
    for rows, height, scores in whole_tiles(pattern, a, w, w):
        with fast.scratch("S", 1, scores), RowStatistics(fast, problem.arithmetic) as statistics:
            needed = pattern.needed_keys(rows.start, rows.stop)
            keys, values = compact(needed), np.zeros((size(rows), len(needed)), dtype=np.float32)
            P = Tile("S", values, rows, keys, fast.intermediate_words)
            if len(needed):
                with fast.buffer("Q", height, 1) as Q_column, fast.buffer("K", 1, 1) as K_element:
                    add_scores_by_depth(fast, problem, P, Q_column, K_element)
                hide(P, ~pattern.required(rows.start, rows.stop, needed))
                for index in range(size(rows)):
                    row = P.row(index)
                    statistics.begin(problem.sinks_of(row.rows))
                    statistics.take(row)
                    statistics.save(problem, row.rows)
                    statistics.probabilities(row)
            with fast.scratch("O", height, 1) as O_column, fast.buffer("V", 1, 1) as V_element:
                for column in singles(problem.width):
                    O_c = O_column.zeros(rows, column)
                    if len(needed):
                        with V_element.streaming(problem.V, keys, column, along="rows") as V_c:
                            add_output(fast, problem.arithmetic, O_c, P, V_c)
                    fast.store(O_c, problem.O)
        problem.advance(size(rows))
