"""The two passes of two-pass for a dense group, without a last, small tile: the other pass makes its gradients.

The rows of all heads lie one under the other. The last late_rows of them, and the last late_keys keys, are late:

for each tile i of stacked_rows rows, first of those that are not late:
    load Q_i, dO_i, L_i;  O_i streams past, D_i = dO_i . O_i;  dQ_i = 0
    for each key, if the rows are late each late key:
        load k and v, and if it is late dk and dv, which are 0 the first time
        for each row:  p = exp(scale q . k - L);  dS = p (dO . v - D);  dq += scale dS k
            if the key is late:  dv += p dO;  dk += scale dS q
        if the key is late store dk and dv
    store dQ_i, which is partial if the rows are late, and D_i
for each tile j of stationary_keys keys that are not late:
    load K_j and V_j;  dK_j, dV_j = 0
    for each row:
        load q, dO, L, D, and if it is late dq
        for each key of j:  p;  dv += p dO;  dS;  dk += scale dS q;  if the row is late dq += scale dS k
        if the row is late store dq
    store dK_j, dV_j

One score and its gradient are in hand at a time.
"""

from collections.abc import Sequence

from attenio.dataflows.backward.held_keys import room_for_keys
from attenio.dataflows.backward.held_rows import loaded_rows, room_for_rows, row_buffers
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import cuts, size
from attenio.planning.plan import Tiles

Partial = Sequence[SlowArray]


def left_over(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    if not problem.pattern.is_dense:
        raise ValueError("what is left over is for problems where every row needs every key")
    rows, keys = problem.group * problem.pattern.rows, problem.pattern.keys
    late_rows, late_keys = min(tiles["late_rows"], rows), min(tiles["late_keys"], keys)
    delta, dQ = problem.spilled("D", rows, 1), problem.spilled("partial dQ", rows, problem.depth)
    sums = problem.spilled("partial dK", keys, problem.depth), problem.spilled("partial dV", keys, problem.width)
    a, b = min(tiles["stacked_rows"], rows), min(tiles["stationary_keys"], keys)
    early = rows - late_rows, keys - late_keys
    _rows_stay(problem, (delta, dQ, sums), (a, *early), fast)
    _keys_stay(problem, (delta, dQ), (b, *early), fast)
    problem.advance(late_keys)


def _shifted(start: int, count: int, tile: int) -> list[slice]:
    """Tiles of so many from a place on."""
    return [slice(start + part.start, start + part.stop) for part in cuts(count, tile)]


def _rows_stay(
    problem: BackwardProblem,
    spilled: tuple[SlowArray, SlowArray, Partial],
    tile: tuple[int, int, int],
    fast: FastMemory,
) -> None:
    (delta, partial, sums), (a, early, early_keys) = spilled, tile
    rows, keys = problem.group * problem.pattern.rows, problem.pattern.keys
    tiles = [*_shifted(0, early, a), *_shifted(early, rows - early, a)]
    with (
        room_for_rows(problem, a, fast) as holding,
        room_for_score(fast),
        fast.buffer("K", 1, problem.depth) as K_buffer,
        fast.buffer("V", 1, problem.width) as V_buffer,
        fast.scratch("dK", 1, problem.depth) as dK_buffer,
        fast.scratch("dV", 1, problem.width) as dV_buffer,
    ):
        for place, i in enumerate(tiles):
            is_late = i.start >= early
            # of late rows the gradients are done with the last keys that stay
            target = partial if is_late and early_keys else problem.dQ
            with holding(i) as here:
                for number in range(early_keys if is_late else 0, keys):
                    named = slice(number, number + 1)
                    late = number >= early_keys
                    with K_buffer.holding(problem.K, named) as K, V_buffer.holding(problem.V, named) as V:
                        dK, dV = dK_buffer.zeros(named, problem.K.columns), dV_buffer.zeros(named, problem.V.columns)
                        if late and place:
                            fast.load(sums[0], dK)
                            fast.load(sums[1], dV)
                        mine = Sums(here.dQ, dK, dV) if late else Sums(dQ=here.dQ)
                        add_gradients(fast, problem.arithmetic, here[:4], (K, V), mine)
                        if late:
                            done = place == len(tiles) - 1
                            fast.store(dK, problem.dK if done else sums[0])
                            fast.store(dV, problem.dV if done else sums[1])
                fast.store(here.dQ, target)
                fast.store(here.D, delta)
            problem.advance(size(i))


def _keys_stay(
    problem: BackwardProblem, spilled: tuple[SlowArray, SlowArray], tile: tuple[int, int, int], fast: FastMemory
) -> None:
    (delta, partial), (b, early, early_keys) = spilled, tile
    tiles = list(cuts(early_keys, b)) if early_keys else []
    with (
        room_for_keys(problem, b, fast) as holding,
        room_for_score(fast),
        row_buffers(problem, 1, fast) as room,
        fast.scratch("dQ", 1, problem.depth) as dQ_buffer,
    ):
        for j in tiles:
            with holding(j) as here:
                for number in range(problem.group * problem.pattern.rows):
                    named, late = slice(number, number + 1), number >= early
                    with loaded_rows(problem, room, named, delta) as row:
                        dQ = dQ_buffer.zeros(named, problem.Q.columns) if late else None
                        if dQ is not None:
                            fast.load(partial, dQ)
                        add_gradients(fast, problem.arithmetic, row, (here.K, here.V), Sums(dQ, here.dK, here.dV))
                        if dQ is not None:
                            fast.store(dQ, problem.dQ if j is tiles[-1] else partial)
            problem.advance(size(j))
