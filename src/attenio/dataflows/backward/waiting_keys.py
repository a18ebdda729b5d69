"""Kept rows for the gradient with all keys of a dense problem: rows finish dQ in one pass, and dK and dV of some wait.

load K and V of all keys;  dK, dV = 0 for all but the first waiting_keys keys
for each position; i its rows in all heads of the group:
    load q_i, dO_i into one of kept_rows slots;  dq_i = 0
    for each row, each key:  max, sum;  L = max + log(sum);  for each again:  D += p dO . v
    for each row, each key:  p = exp(scale q . k - L);  dS = p (dO . v - D);  dq += scale dS k
                             dv += p dO;  dk += scale dS q  unless the key waits
    store dq_i, and D_i if any key waits and the rows do not stay in their slot
store dK and dV of the keys that did not wait, and forget these keys;  dK, dV = 0 for those that did
for each position if any did, those in the slots first:
    load q_i, dO_i, L_i, D_i into a slot (not if they are there)
    for each row, each key that waited:  p;  dv += p dO;  dS;  dk += scale dS q
store dK, dV

One score and its gradient are in hand at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from attenio.dataflows.backward.held_rows import row_buffers
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, make_statistics, room_for_score
from attenio.dataflows.key_slots import Visit, turns
from attenio.dataflows.online_softmax import ONE
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import compact, size
from attenio.planning.plan import Tiles


class _Rows(NamedTuple):
    """What fast memory has of some rows, or of all that are in slots."""

    Q: Tile
    dO: Tile
    L: Tile
    D: Tile


# K and V of some keys, and dK and dV.
_Keys = tuple[Tile, Tile]


def waiting_keys(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    if not problem.pattern.is_dense:
        raise ValueError("keys wait where every row needs every key")
    m, every = problem.pattern.keys, list(range(problem.pattern.rows))
    waiting, slots = min(tiles["waiting_keys"], m), min(tiles["kept_rows"], len(every))
    visits = turns([every, every] if waiting else [every], slots=slots)
    delta = problem.spilled("D", problem.group * len(every), 1)
    with (
        room_for_score(fast),
        _in_slots(problem, fast, slots) as rows,
        _keys(problem, fast, slice(0, waiting)) as waited,
    ):
        with (
            fast.scratch("dQ", problem.group, problem.depth) as dQ_buffer,
            _keys(problem, fast, slice(waiting, m)) as others,
            _sums(problem, fast, others) as sums,
        ):
            for visit in next(visits):
                held = _visited(problem, fast, rows, visit, None)
                make_statistics(fast, problem, held, _together(waited, others))
                dQ = dQ_buffer.zeros(held.Q.rows, problem.K.columns)
                _meet(problem, fast, held, waited, (None, dQ))
                _meet(problem, fast, held, others, (sums, dQ))
                fast.store(dQ, problem.dQ)
                if waiting and not visit.stays:
                    fast.store(held.D, delta)
            _store(problem, fast, sums)
        problem.advance(m - waiting)
        if not waiting:
            return
        with _sums(problem, fast, waited) as sums:
            for visit in next(visits):
                _meet(problem, fast, _visited(problem, fast, rows, visit, delta), waited, (sums, None))
            _store(problem, fast, sums)
        problem.advance(waiting)


def _meet(
    problem: BackwardProblem, fast: FastMemory, rows: _Rows, keys: _Keys, sums: tuple[_Keys | None, Tile | None]
) -> None:
    """Rows meet keys, for the gradients of keys, of queries, or both."""
    of_keys, dQ = sums
    if len(keys[0].values):
        add_gradients(fast, problem.arithmetic, rows, keys, Sums(dQ, *(of_keys or ())))


@contextmanager
def _in_slots(problem: BackwardProblem, fast: FastMemory, slots: int) -> Iterator[_Rows]:
    """Slots for the rows of as many positions."""
    count = problem.group * slots
    with row_buffers(problem, count, fast) as room:
        columns = problem.Q.columns, problem.V.columns, ONE, ONE
        yield _Rows(*(buffer.over(slice(0, count), of) for buffer, of in zip(room, columns, strict=True)))


def _visited(problem: BackwardProblem, fast: FastMemory, slots: _Rows, visit: Visit, delta: SlowArray | None) -> _Rows:
    """The rows of a position, loaded if they arrive, with L and D where they were made before."""
    group = problem.group
    named = compact(np.arange(group, dtype=np.int64) * problem.pattern.rows + visit.key)
    places = np.arange(visit.slot * group, (visit.slot + 1) * group, dtype=np.intp)
    if visit.arrives:
        known = () if delta is None else (problem.L, delta)
        for source, tile in zip((problem.Q, problem.dO, *known), slots, strict=False):
            fast.load(source, tile, named, at=places)
    return _Rows(*(part(tile, slice(visit.slot * group, (visit.slot + 1) * group), named) for tile in slots))


@contextmanager
def _keys(problem: BackwardProblem, fast: FastMemory, keys: slice) -> Iterator[_Keys]:
    """Some keys and their values."""
    with (
        fast.buffer("K", size(keys), problem.depth) as K_buffer,
        fast.buffer("V", size(keys), problem.width) as V_buffer,
        K_buffer.holding(problem.K, keys) as K,
        V_buffer.holding(problem.V, keys) as V,
    ):
        yield K, V


def _together(first: _Keys, second: _Keys) -> _Keys:
    """All keys, and all values."""
    both = zip(first, second, strict=True)
    K, V = (
        Tile(a.name, np.concatenate([a.values, b.values]), slice(0, len(a.values) + len(b.values)), a.columns)
        for a, b in both
    )
    return K, V


@contextmanager
def _sums(problem: BackwardProblem, fast: FastMemory, keys: _Keys) -> Iterator[_Keys]:
    """Their gradients, which are zero."""
    named = keys[0].rows
    with (
        fast.scratch("dK", size(named), problem.depth) as dK_buffer,
        fast.scratch("dV", size(named), problem.width) as dV_buffer,
    ):
        yield dK_buffer.zeros(named, problem.K.columns), dV_buffer.zeros(named, problem.V.columns)


def _store(problem: BackwardProblem, fast: FastMemory, sums: _Keys) -> None:
    fast.store(sums[0], problem.dK)
    fast.store(sums[1], problem.dV)
