"""The two passes of two-pass with rows, then keys, that come and go one by one: under a window; or with causal rows.

for each head, each row i:
    the row that came rolling_rows before it leaves, if there is one: store its dq, D
    load q_i, dO_i, L_i (not if it needs no key);  O_i streams past, D_i = dO_i . O_i;  dq_i = 0
    for each key whose turn it is (see ``rolling``), those in slots first:
        load k and v into one of kept_keys slots (not if they are there)
        for each row that is here and needs the key:  p = exp(scale q . k - L);  dS = p (dO . v - D);  dq += scale dS k
the rows that are left leave
for each key j that some row needs:
    the key that came rolling_keys before it leaves, if there is one: store its dk, dv
    load k_j and v_j;  dk_j, dv_j = 0
    for each position whose turn it is, those in slots first; i its rows in all heads of the group:
        load q_i, dO_i, L_i, D_i into one of kept_rows slots (not if they are there)
        for each row, each key that is here and that it needs:  p;  dv += p dO;  dS;  dk += scale dS q
the keys that are left leave;  store zeros for rows and keys that nothing needs

Where keys do not roll, with stationary_keys in the place of rolling_keys, the second pass is that of ``kept_passes``.
"""

import numpy as np

from attenio.dataflows.backward.held_keys import in_slot, meet, places_for_keys, slots_for_keys
from attenio.dataflows.backward.held_rows import HeldRows, places_for_rows, take_in
from attenio.dataflows.backward.passing_rows import PassingRows, part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.rolling_keys import begin_key, end_key
from attenio.dataflows.backward.steps import room_for_score, stream_delta
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.online_softmax import ONE
from attenio.dataflows.rolling import rolling_order, rolling_turns
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, SlowArray
from attenio.memory.fast_memory import Buffer
from attenio.memory.indices import compact


def rolling_query_gradients(
    problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int], fast: FastMemory
) -> None:
    """dQ and D, head after head."""
    a, slots = tile
    band = problem.pattern
    assert isinstance(band, Band)
    order = rolling_order(band, held=a)
    with (
        places_for_rows(problem, a, fast) as rows,
        fast.buffer("O", 1, 1) as O_element,
        room_for_score(fast),
        slots_for_keys(problem, slots, fast) as keys,
    ):
        for head in range(problem.group):
            for number, turns in enumerate(rolling_turns(band, held=a, slots=slots)):
                position = order[number]
                if number >= a:
                    _leave(problem, fast, (rows, delta), head, order[number - a])
                if _is_needed(band, position):
                    row_comes(problem, fast, rows, O_element, (head, position))
                for turn in turns:
                    met = np.arange(turn.rows.start, turn.rows.stop, dtype=np.intp)
                    where = met % a, compact(head * band.rows + met)
                    take_in(problem, fast, rows, in_slot(problem, fast, keys, turn), where)
            for position in order[max(0, band.rows - a) :]:
                _leave(problem, fast, (rows, delta), head, position)
    store_row_zeros(fast, band, problem.group, problem.dQ)


def rolling_key_gradients(problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    """dK and dV."""
    c, slots = tile
    band = problem.pattern
    assert isinstance(band, Band)
    order = rolling_order(band.transposed, held=c)
    arrays = ((problem.Q, problem.Q.columns), (problem.dO, problem.V.columns), (problem.L, ONE), (delta, ONE))
    with (
        places_for_keys(problem, c, fast) as keys,
        room_for_score(fast),
        PassingRows(problem, fast, slots, arrays) as rows,
    ):
        for number, turns in enumerate(rolling_turns(band.transposed, held=c, slots=slots)):
            if number >= c:
                end_key(problem, fast, keys, order[number - c])
            begin_key(problem, fast, keys, order[number])
            for turn in turns:
                Q, dO, L, D = rows.visiting(turn)
                met = np.arange(turn.rows.start, turn.rows.stop, dtype=np.intp)
                meet(problem, fast, (Q, dO, L, D), keys, (met % c, compact(met)))
        for key in order[max(0, band.keys - c) :]:
            end_key(problem, fast, keys, key)
    store_key_zeros(fast, band, problem.dK, problem.dV)


def _is_needed(band: Band, position: int) -> bool:
    return bool(band.first_key(position) < band.end_key(position))


def row_of(problem: BackwardProblem, rows: HeldRows, where: tuple[int, int]) -> HeldRows:
    """The row of a head at a position."""
    head, position = where
    place, row = position % len(rows.Q.values), head * problem.pattern.rows + position
    return HeldRows(*(part(tile, slice(place, place + 1), slice(row, row + 1)) for tile in rows))


def row_comes(
    problem: BackwardProblem, fast: FastMemory, rows: HeldRows, O_element: Buffer, where: tuple[int, int]
) -> None:
    """A row comes, and its D is made."""
    one, place = row_of(problem, rows, where), np.array([where[1] % len(rows.Q.values)])
    for source, tile in ((problem.Q, rows.Q), (problem.dO, rows.dO), (problem.L, rows.L)):
        fast.load(source, tile, one.Q.rows, at=place)
    one.dQ.values[:], one.D.values[:] = 0, 0
    stream_delta(fast, problem, one.D, one.dO, O_element, one.L)


def _leave(
    problem: BackwardProblem, fast: FastMemory, held: tuple[HeldRows, SlowArray], head: int, position: int
) -> None:
    """A row has met all of its keys."""
    band, (rows, delta) = problem.pattern, held
    assert isinstance(band, Band)
    if _is_needed(band, position):
        done = row_of(problem, rows, (head, position))
        fast.store(done.dQ, problem.dQ)
        fast.store(done.D, delta)
    problem.advance(1)
