"""Kept rows for the gradient with rolling keys: under a window keys come and go one by one, and rows when one leaves.

    for each key j that some row needs, from the last one on where more rows may stay so (see ``rolling``):
        the key that came rolling_keys before it leaves, if there is one: store its dk, dv
        load k_j and v_j;  dk_j, dv_j = 0
        for each position whose turn it is (see ``rolling``), those in slots first; i its rows in all heads:
            unless they are in their slot: load q_i, dO_i and, unless all of their keys are here, L_i;
                rows that have met keys before: load D_i and the partial dq_i
                those that meet all of their keys now: make L_i and D_i from these;  dq_i = 0
                the others: O_i streams past, D_i = dO_i . O_i;  dq_i = 0
            for each row, each key that is here and that it needs:
                p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
            unless they stay in their slot: store dq_i if they will meet no further key, else D_i and the partial dq_i
    the keys that are left leave;  store zeros for rows and keys that nothing needs

With waiting_sums that many more positions keep their dq and D, in places of their own, from their first turn to their
second; they come again without them, q_i, dO_i and L_i alone. That saves two words for each that it takes, a slot less.
Near one end of the sequence rows need no more keys than are here, so that neither their outputs nor L_i are read.

A tile of keys is visited by rows that need its first key alone, and by others for its last one. Here every visit of a
row is for as many keys as there are, as long as the window lasts. Fast memory is that of kept rows.
"""

import numpy as np

from attenio.dataflows.backward.held_keys import HeldKeys, meet, places_for_keys
from attenio.dataflows.backward.kept_row_gradients import NOT_WAITING, RowSlots, Waiting
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.ring_of_rows import RingOfRows, Room, free_places
from attenio.dataflows.backward.steps import make_statistics, room_for_score
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.rolling import rolling_order, rolling_turns
from attenio.masks.patterns import Band
from attenio.memory import FastMemory
from attenio.memory.indices import compact
from attenio.planning.plan import Tiles


def rolling_keys(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band)
    across = band.transposed
    b, slots = min(tiles["rolling_keys"], band.keys), min(tiles["kept_rows"], band.rows)
    places = tiles.get("waiting_sums", 0)
    room = Room.of(problem, (b, slots, places))
    if room.first_rows(band):
        _from_a_ring(problem, room, fast)
        store_row_zeros(fast, band, problem.group, problem.dQ)
        store_key_zeros(fast, band, problem.dK, problem.dV)
        return
    waiting = waiting_turns(across, b, slots, places)
    with places_for_keys(problem, b, fast) as keys, RowSlots(problem, fast, slots, places) as rows:
        order = rolling_order(across, held=b)
        for number, turns in enumerate(rolling_turns(across, held=b, slots=slots)):
            if number >= b:
                end_key(problem, fast, keys, order[number - b])
            begin_key(problem, fast, keys, order[number])
            for turn in turns:
                met = np.arange(turn.rows.start, turn.rows.stop, dtype=np.intp)
                sums, whole = waiting.get((turn.key, turn.rows.start), NOT_WAITING), turn.last and not turn.again
                with rows.visiting(turn, again=turn.again, last=turn.last, sums=sums, whole=whole) as held:
                    where = met % b, compact(met)
                    if whole:
                        make_statistics(fast, problem, held[:4], (part(keys.K, *where), part(keys.V, *where)))
                    meet(problem, fast, held[:4], keys, where, held.dQ)
        for key in order[max(0, band.keys - b) :]:
            end_key(problem, fast, keys, key)
    store_row_zeros(fast, band, problem.group, problem.dQ)
    store_key_zeros(fast, band, problem.dK, problem.dV)


def _from_a_ring(problem: BackwardProblem, room: Room, fast: FastMemory) -> None:
    """The first rows stay until they are done (see ``ring_of_rows``)."""
    across, b = problem.pattern.transposed, room.keys
    assert isinstance(across, Band)
    order = rolling_order(across, held=b)
    with (
        fast.buffer("keys, rows and sums", 1, room.words),
        room_for_score(fast),
        fast.buffer("O", 1, 1) as O_element,
    ):
        ring, keys = RingOfRows(problem, fast, room, O_element), free_places(problem, b)
        for number, turns in enumerate(rolling_turns(across, held=b, slots=1)):
            passes, leaves = number < ring.count, number - b
            if leaves >= ring.count:
                end_key(problem, fast, keys, order[leaves])
                ring.take(-room.per_key)
            begin_key(problem, fast, keys, order[number])
            ring.take(room.per_key)
            if passes:
                ring.pass_by(number, keys, order[number])
                end_key(problem, fast, keys, order[number])
                ring.take(-room.per_key)
            else:
                ends = order[ring.count], order[number]
                ring.turns(turns, keys, range(min(ends), max(ends) + 1))
        for key in order[max(ring.count, len(order) - b) :]:
            end_key(problem, fast, keys, key)


def waiting_turns(band: Band, held: int, slots: int, places: int) -> dict[tuple[int, int], Waiting]:
    """The turns, by what passes and the first that it meets, before or after which sums wait, and where.

    With slots for as many more as there are places those would stay themselves.
    """
    if slots >= held or places == 0:
        return {}
    # all but one of those that follow each other would need a slot to pass through, which all do not
    more = min(slots + places - (slots + places == held), band.keys)
    staying = slots - 1
    return {
        (turn.key, turn.rows.start): Waiting(turn.slot - staying, were=not turn.arrives, will=turn.stays)
        for turns in rolling_turns(band, held=held, slots=more)
        for turn in turns
        if (turn.stays or not turn.arrives) and turn.slot >= staying
    }


def begin_key(problem: BackwardProblem, fast: FastMemory, keys: HeldKeys, key: int) -> None:
    """A key comes, its gradients at zero."""
    place, named = np.array([key % len(keys.K.values)]), slice(key, key + 1)
    if _is_needed(problem, key):
        fast.load(problem.K, keys.K, named, at=place)
        fast.load(problem.V, keys.V, named, at=place)
    for gradient in keys.gradients:
        gradient.values[place] = 0


def end_key(problem: BackwardProblem, fast: FastMemory, keys: HeldKeys, key: int) -> None:
    """A key has met all rows that need it."""
    place, named = np.array([key % len(keys.K.values)]), slice(key, key + 1)
    if _is_needed(problem, key):
        for gradient, target in zip(keys.gradients, (problem.dK, problem.dV), strict=True):
            fast.store(gradient, target, named, at=place)
    problem.advance(1)


def _is_needed(problem: BackwardProblem, key: int) -> bool:
    across = problem.pattern.transposed
    assert isinstance(across, Band)
    return bool(across.first_key(key) < across.end_key(key))
