"""Query-stationary with a ring of keys: all keys that a row needs are there, and it recomputes its statistics.

for each position:
    keys that it needs no more leave: store dk, dv
    load k and v of those that it is the first to need into the ring;  dk, dv = 0
    for each head, its row:
        load q, dO;  dq = 0
        for each key that the row needs:  max, sum;  L = max + log(sum);  for each again:  D += p dO . v
        for each of these keys:
            p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
        store dq
the keys that are left leave;  store zeros for rows and keys that nothing needs

Neither the outputs nor the log-sum-exp of the forward pass are read: inputs and gradients move once, and nothing else.
Fast memory: the ring with the gradients of its keys, and one row with its dq, two statistics, a score and its gradient.
"""

import numpy as np

from attenio.dataflows.backward.held_keys import HeldKeys, meet, places_for_keys
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import make_statistics, room_for_score
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.online_softmax import ONE
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, Tile
from attenio.planning.plan import Tiles


def key_ring(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band, depth, width = problem.pattern, problem.depth, problem.width
    assert isinstance(band, Band)
    ring = min(tiles["ring_keys"], band.keys)
    if ring < band.longest_row:
        raise ValueError("a ring holds all keys that a row needs")
    with (
        places_for_keys(problem, ring, fast) as keys,
        fast.buffer("Q", 1, depth) as Q_buffer,
        fast.buffer("dO", 1, width) as dO_buffer,
        fast.scratch("L", 1, 1) as L_buffer,
        fast.scratch("D", 1, 1) as D_buffer,
        room_for_score(fast),
    ):
        held = range(0)
        for position in range(band.rows):
            first, end = int(band.first_key(position)), int(band.end_key(position))
            if first < end:
                _turn(problem, fast, keys, held, range(first, end))
                held = range(first, end)
                for head in range(problem.group):
                    row = slice(head * band.rows + position, head * band.rows + position + 1)
                    with Q_buffer.holding(problem.Q, row) as q, dO_buffer.holding(problem.dO, row) as dO:
                        statistics = L_buffer.over(row, ONE), D_buffer.over(row, ONE)
                        _differentiate(problem, fast, (q, dO, *statistics), keys, held)
            problem.advance(problem.group)
        _turn(problem, fast, keys, held, range(0))
    store_row_zeros(fast, band, problem.group, problem.dQ)
    store_key_zeros(fast, band, problem.dK, problem.dV)


def _turn(problem: BackwardProblem, fast: FastMemory, keys: HeldKeys, held: range, needed: range) -> None:
    """Keys that are needed no more leave with their gradients, and others take their places."""
    ring = len(keys.K.values)
    leaving = range(held.start, min(held.stop, needed.start) if needed else held.stop)
    coming = range(max(held.stop, needed.start), needed.stop)
    if leaving:
        named, places = slice(leaving.start, leaving.stop), np.array(leaving) % ring
        for gradient, target in zip(keys.gradients, (problem.dK, problem.dV), strict=True):
            fast.store(gradient, target, named, at=places)
    if coming:
        named, places = slice(coming.start, coming.stop), np.array(coming) % ring
        fast.load(problem.K, keys.K, named, at=places)
        fast.load(problem.V, keys.V, named, at=places)
        for gradient in keys.gradients:
            gradient.values[places] = 0


def _differentiate(
    problem: BackwardProblem, fast: FastMemory, row: tuple[Tile, Tile, Tile, Tile], keys: HeldKeys, needed: range
) -> None:
    """One row meets all keys that it needs, twice: for its statistics, and for the gradients."""
    named, places = slice(needed.start, needed.stop), np.array(needed) % len(keys.K.values)
    q = row[0]
    K, V = (part(tile, places, named) for tile in keys[:2])
    make_statistics(fast, problem, row, (K, V))
    with fast.scratch("dQ", 1, problem.depth) as dQ_buffer:
        dQ = dQ_buffer.zeros(q.rows, problem.K.columns)
        meet(problem, fast, row, keys, (places, named), dQ)
        fast.store(dQ, problem.dQ)
