"""Split keys: runs of keys are worked on independently and merged, so that decoding can use a whole machine.

    for each tile of head_tile heads of the group, each tile of query_tile positions; i their rows, head after head:
        for each run s of keys_per_split keys that the positions need:
            load Q_i; O_i, max, sum = 0, -inf, 0
            for each run j of key_tile keys of s:
                load K_j;  S = scale Q_i K_j^T
                P, max, sum, rescale = online softmax of S
                load V_j over K_j (not if it is part of K_j);  O_i = rescale O_i + P V_j
            store (O_i, max, sum) as the partial result of split s
    for each row:
        for each of its splits:  load its partial result;  join it to the row's
        store O / sum

A partial result carries its maximum and its sum in two words. One log-sum-exp would be a word shorter, but next to
scores beyond 1e8 it cannot tell in single precision how many keys share the maximum.
"""

from contextlib import ExitStack

import numpy as np

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.online_softmax import (
    OnlineSoftmax,
    first_maximum,
    first_sum,
    make_scores,
    normalise,
    save_log_sum_exp,
)
from attenio.dataflows.problem import Problem, for_heads, key_runs
from attenio.memory import FastMemory, SlowArray, Step, Tile
from attenio.memory.indices import as_array, cuts
from attenio.planning.plan import Tiles

# Output, maximum and sum of the same rows.
Slow = tuple[SlowArray, SlowArray, SlowArray]
Held = tuple[Tile, Tile, Tile]


def split_keys(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the query heads of one KV head."""
    p, h = min(tiles["query_tile"], problem.pattern.rows), min(tiles["head_tile"], problem.group)
    b, z = min(tiles["key_tile"], problem.pattern.keys), tiles["keys_per_split"]
    splits = -(-problem.pattern.keys // z)
    rows = splits * problem.group * problem.pattern.rows
    partial = (
        problem.spilled("partial O", rows, problem.width),
        problem.spilled("max", rows, 1),
        problem.spilled("sum", rows, 1),
    )
    _attend(problem, partial, (p, h, b, z), fast)
    _merge(problem, partial, (p, h, z), fast)


def _attend(problem: Problem, partial: Slow, tile: tuple[int, int, int, int], fast: FastMemory) -> None:
    p, h, b, z = tile
    K, V, depth, width = problem.K, problem.V, problem.depth, problem.width
    stride = problem.group * problem.pattern.rows
    with (
        fast.buffer("Q", h * p, depth) as Q_buffer,
        fast.scratch("O", h * p, width) as O_buffer,
        OnlineSoftmax(fast, problem.arithmetic, h * p) as softmax,
        fast.scratch("S", h * p, b) as S_buffer,
        problem.key_buffer(fast, "KV", b, max(depth, width)) as KV_buffer,
    ):
        for heads in problem.head_tiles(h):
            for positions in problem.query_tiles(p):
                rows = problem.rows_of(heads, positions)
                needed = problem.pattern.needed_keys(positions.start, positions.stop)
                for split, run in enumerate(cuts(len(needed), z)):
                    with Q_buffer.holding(problem.Q, rows) as Q_i:
                        softmax.begin(rows)
                        O_i = O_buffer.zeros(rows, V.columns)
                        for keys, hidden in key_runs(problem.pattern, positions, b, needed[run]):
                            S = S_buffer.zeros(rows, keys)
                            with KV_buffer.holding(K, keys) as K_j:
                                make_scores(fast, problem.arithmetic, S, Q_i, K_j)
                                P = softmax.absorb(S, for_heads(hidden, heads))
                                if problem.values_in_keys:
                                    softmax.accumulate(O_i, P, K_j.first_columns(width))
                            if not problem.values_in_keys:
                                with KV_buffer.holding(V, keys) as V_j:
                                    softmax.accumulate(O_i, P, V_j)
                    for held, slow in zip((O_i, softmax.max, softmax.sum), partial, strict=True):
                        fast.store(held, slow, as_array(rows) + split * stride)


def _merge(problem: Problem, partial: Slow, tile: tuple[int, int, int], fast: FastMemory) -> None:
    p, h, z = tile
    stride = problem.group * problem.pattern.rows
    shapes = {"O": problem.width, "max": 1, "sum": 1, "split O": problem.width, "split max": 1, "split sum": 1}
    with ExitStack() as residency:
        buffers = [residency.enter_context(fast.scratch(name, 1, width)) for name, width in shapes.items()]
        for heads in problem.head_tiles(h):
            for positions in problem.query_tiles(p):
                splits = -(-len(problem.pattern.needed_keys(positions.start, positions.stop)) // z)
                for row in as_array(problem.rows_of(heads, positions)).tolist():
                    here = slice(row, row + 1)
                    largest = first_maximum(buffers[1], problem, here)
                    total = (
                        buffers[0].zeros(here, problem.V.columns),
                        largest,
                        first_sum(buffers[2], problem, largest),
                    )
                    for split in range(splits):
                        there = slice(row + split * stride, row + split * stride + 1)
                        with (
                            buffers[3].holding(partial[0], there) as O_s,
                            buffers[4].holding(partial[1], there) as max_s,
                            buffers[5].holding(partial[2], there) as sum_s,
                        ):
                            _join(total, (O_s, max_s, sum_s), problem.arithmetic, fast)
                    save_log_sum_exp(fast, problem, total[1], total[2])
                    normalise(fast, problem.arithmetic, total[0], total[2])
                    fast.store(total[0], problem.O)


def _join(total: Held, other: Held, arithmetic: Arithmetic, fast: FastMemory) -> None:
    """Add another split's output and sum, after the one with the smaller maximum has been scaled down to the larger.

    The factor takes the place of the smaller maximum, so no further word is needed.
    """
    (O_i, max_i, sum_i), (O_s, max_s, sum_s) = ([tile.values for tile in part] for part in (total, other))
    fast.computed(Step.MERGE, total[0].rows, total[0].columns)
    if np.isneginf(max_s[0, 0]):  # the split held nothing that this row needs
        return
    if max_i[0, 0] <= max_s[0, 0]:
        np.exp(max_i - max_s, out=max_i)
        arithmetic.keep(max_i)
        O_i *= max_i
        sum_i *= max_i
        max_i[...] = max_s
    else:
        np.exp(max_s - max_i, out=max_s)
        arithmetic.keep(max_s)
        O_s *= max_s
        sum_s *= max_s
    O_i += O_s
    sum_i += sum_s
    arithmetic.keep(O_i)
    arithmetic.keep(sum_i)
