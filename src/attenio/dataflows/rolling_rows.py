"""Kept keys with rolling rows: rows come and go one by one, and keys are read when a row is to leave.

    for each row i:
        the row that came rolling_rows before it leaves, if there is one: store its o / sum
        load q_i (not if it needs no key); o_i, max_i, sum_i = 0, -inf, 0
        for each key whose turn it is (see ``rolling``), those in slots first:
            load k and v into one of kept_keys slots (not if they are there; v not if it is part of k)
            for each row that is here and needs the key:
                s = scale q . k;  p, max, sum, rescale = online softmax of s;  o = rescale o + p v
    the rows that are left leave

A tile of rows reads keys that its first row alone needs, and others for its last one. Here every read serves as many
rows as there are, as long as the window lasts, or under a causal mask the rows. Fast memory is that of kept keys.
"""

import numpy as np

from attenio.dataflows.kept_keys import KeySlots, rows_and_slots
from attenio.dataflows.online_softmax import ONE, save_log_sum_exp
from attenio.dataflows.problem import Problem
from attenio.dataflows.rolling import rolling_order, rolling_turns
from attenio.dataflows.row_by_row import Rows, note
from attenio.masks.patterns import Band
from attenio.memory import FastMemory
from attenio.memory.indices import compact
from attenio.planning.plan import Tiles


def rolling_rows(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    band, width = problem.pattern, problem.width
    assert isinstance(band, Band)
    a, slots = min(tiles["rolling_rows"], band.rows), min(tiles["kept_keys"], band.keys)
    every, columns = slice(0, a), problem.V.columns
    with rows_and_slots(problem, fast, a, slots, width) as (Q_buffer, O_buffer, of_rows, of_keys):
        keys = KeySlots(problem, fast, of_keys, slots, slice(0, width))
        statistics = (buffer.over(every, ONE) for buffer in of_rows)
        rows = Rows(Q_buffer.over(every, problem.Q.columns), O_buffer.over(every, columns), *statistics)
        order = rolling_order(band, held=a)
        for number, turns in enumerate(rolling_turns(band, held=a, slots=slots)):
            row = order[number]
            place, named = np.array([row % a]), slice(row, row + 1)
            if number >= a:
                _leave(problem, fast, rows, order[number - a])
            rows.begin(place, problem.sinks_of(named))
            if band.first_key(row) < band.end_key(row):
                fast.load(problem.Q, rows.Q, named, at=place)
            for turn in turns:
                met = np.arange(turn.rows.start, turn.rows.stop, dtype=np.intp)
                with keys.keys_and_values([turn]) as (key, value):
                    rows.take_in(problem.arithmetic, met % a, key, value)
                note(fast, compact(met), slice(turn.key, turn.key + 1), columns)
        for row in order[max(0, band.rows - a) :]:
            _leave(problem, fast, rows, row)


def _leave(problem: Problem, fast: FastMemory, rows: Rows, row: int) -> None:
    """A row has met all of its keys."""
    done = rows.row(row % len(rows.Q.values), row)
    save_log_sum_exp(fast, problem, done.max, done.sum)
    done.normalise(fast, problem)
    fast.store(done.O, problem.O)
    problem.advance(1)
