"""Query-stationary with all rows of a dense group: keys finish their gradients in one pass, and dQ of some rows waits.

load Q, dO, L of all rows;  O streams past, D = dO . O;  dQ = 0 for all but the first waiting_rows positions
for each key:
    load k and v into one of kept_keys slots;  dk, dv = 0
    for each row:  p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q
                   dq += scale dS k unless the row waits
    store dk, dv
store dQ of the rows that did not wait, and forget these rows;  dQ = 0 for those that did
for each key if any did, those in the slots first:
    load k and v into a slot (not if they are there)
    for each row that waited:  p;  dS;  dq += scale dS k
store dQ

If all rows wait, as many keys as there are slots come in the second pass for the first time, last of all, and have
their gradients made after it: they meet the rows for dk and dv as those in the first pass do.

Each row makes one score at a time. Fast memory: Q, dO, L and D of all rows; then dQ of those that do not wait and the
gradients of one key, or dQ of those that did; slots, a score and its gradient, a word of O.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from attenio.dataflows.backward.held_keys import in_slot, slots_for_keys
from attenio.dataflows.backward.held_rows import HeldRows, loaded_rows, row_buffers
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score, stream_delta
from attenio.dataflows.key_slots import Visit, turns
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import size
from attenio.planning.plan import Tiles

# A key and its value, or all that are in slots.
_Keys = tuple[Tile, Tile]


def waiting_rows(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    if not problem.pattern.is_dense:
        raise ValueError("rows wait where every row needs every key")
    n, every = problem.pattern.rows, list(range(problem.pattern.keys))
    waiting, slots = min(tiles["waiting_rows"], n), min(tiles["kept_keys"], len(every))
    last = slots if waiting == n else 0
    passes = [every[: len(every) - last], every, every[len(every) - last :]] if waiting else [every]
    visits = turns(passes, slots=slots)
    with (
        room_for_score(fast),
        fast.buffer("O", 1, 1) as O_element,
        slots_for_keys(problem, slots, fast) as keys,
        _rows(problem, fast, slice(0, waiting), O_element) as waited,
    ):
        with _rows(problem, fast, slice(waiting, n), O_element) as others, _begun(problem, fast, others) as now:
            _gradients_of_keys(problem, fast, (waited, now), keys, next(visits))
            fast.store(now.dQ, problem.dQ)
        problem.advance(problem.group * (n - waiting))
        if not waiting:
            return
        with _begun(problem, fast, waited) as now:
            for visit in next(visits):
                k, v = in_slot(problem, fast, keys, visit)
                add_gradients(fast, problem.arithmetic, now[:4], (k, v), Sums(dQ=now.dQ))
            fast.store(now.dQ, problem.dQ)
        if last:
            _gradients_of_keys(problem, fast, (waited,), keys, next(visits))
        problem.advance(problem.group * waiting)


def _gradients_of_keys(
    problem: BackwardProblem, fast: FastMemory, rows: tuple[HeldRows, ...], keys: _Keys, visits: list[Visit]
) -> None:
    """Every key meets all rows; the first of them wait with dQ."""
    with fast.scratch("dK", 1, problem.depth) as dK_buffer, fast.scratch("dV", 1, problem.width) as dV_buffer:
        for visit in visits:
            k, v = in_slot(problem, fast, keys, visit)
            dK, dV = dK_buffer.zeros(k.rows, problem.K.columns), dV_buffer.zeros(k.rows, problem.V.columns)
            for place, some in enumerate(rows):
                sums = Sums(dQ=some.dQ if place else None, dK=dK, dV=dV)
                add_gradients(fast, problem.arithmetic, some[:4], (k, v), sums)
            fast.store(dK, problem.dK)
            fast.store(dV, problem.dV)


@contextmanager
def _rows(problem: BackwardProblem, fast: FastMemory, positions: slice, O_element: Buffer) -> Iterator[HeldRows]:
    """Rows of all heads at some positions, with their D and without room for dQ."""
    rows = problem.rows_of(range(problem.group), positions)
    with row_buffers(problem, size(rows), fast) as room, loaded_rows(problem, room, rows) as (Q, dO, L, D):
        stream_delta(fast, problem, D, dO, O_element, L)
        yield HeldRows(Q, dO, L, D, Q)


@contextmanager
def _begun(problem: BackwardProblem, fast: FastMemory, rows: HeldRows) -> Iterator[HeldRows]:
    """The same rows with dQ, which is zero."""
    with fast.scratch("dQ", size(rows.Q.rows), problem.depth) as dQ_buffer:
        yield rows._replace(dQ=dQ_buffer.zeros(rows.Q.rows, problem.K.columns))
