"""Kept keys with stacked rows: tiles of the rows of all heads that share keys, and groups of value columns inside.

    for each tile i of stacked_rows rows, head after head:
        load Q_i
        for each group of value_columns columns c of V:
            O_i, max, sum = 0, -inf, 0
            for each key, in the same order for every group, those in the slots of the tile before first:
                load k into one of kept_keys slots (not if it is there), and v[c] (not if it is part of k)
                for each row of the tile:
                    s = scale q . k;  p, max, sum, rescale = online softmax of s;  o = rescale o + p v
            store O_i / sum

For dense problems. Queries are loaded once, however many groups there are. Slots keep keys from one tile to the next,
and from one group to the next all but one, which gives way to the keys that pass. With one group a slot is for a key
and its value; with more it is for a key alone, and one value is there at a time. Fast memory: a rows of Q, of O and of
two statistics, the slots, and two words for the row whose turn it is.

With last_columns the last tile has the rows of two, whole or not, and as many columns at a time; the slots are its own,
and the tiles before it have one. Keys pass for its groups, but in a tile less. Where it has fewer groups than the tiles
before it, these have a slot for every key.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

import numpy as np

from attenio.dataflows.kept_keys import KeySlots, rows_and_slots
from attenio.dataflows.key_slots import Visit, turns
from attenio.dataflows.online_softmax import ONE, save_log_sum_exp
from attenio.dataflows.problem import Problem
from attenio.dataflows.row_by_row import Rows, note
from attenio.memory import Buffer, FastMemory
from attenio.memory.indices import compact_if_ascending, cuts, size
from attenio.memory.matrix import Values
from attenio.planning.plan import Tiles
from attenio.planning.words.last_columns import first_rows

# Scores made together.
_AT_ONCE = 2**20


def stacked_rows(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the query heads of one KV head."""
    rows = problem.group * problem.pattern.rows
    a, slots, width = min(tiles["stacked_rows"], rows), tiles["kept_keys"], tiles["value_columns"]
    if "last_columns" not in tiles:
        _pass_tiles(problem, fast, slice(0, rows), (a, slots, width))
        return
    first = int(first_rows(rows, a))
    if first:
        of_first, of_last = (-(-problem.width // each) for each in (width, tiles["last_columns"]))
        _pass_tiles(problem, fast, slice(0, first), (a, problem.pattern.keys if of_first > of_last else 1, width))
    _pass_tiles(problem, fast, slice(first, rows), (rows - first, slots, tiles["last_columns"]))


def _pass_tiles(problem: Problem, fast: FastMemory, rows: slice, sizes: tuple[int, int, int]) -> None:
    """Some of the rows, in tiles of so many beside so many slots, with so many columns at a time."""
    keys, (a, slots, width) = list(range(problem.pattern.keys)), sizes
    slots, width = min(slots, len(keys)), min(width, problem.width)
    values = slots if width == problem.width else 1
    with rows_and_slots(problem, fast, a, slots, width, values) as (Q_buffer, O_buffer, of_rows, of_keys):
        passing = _Passing(problem, fast, of_keys, slots, width)
        # one more than there are: the groups of the last tile find keys in slots too
        order = turns([keys] * (-(-size(rows) // a) + 1), slots=slots)
        for part, visits in zip(cuts(size(rows), a), order, strict=False):
            places = slice(rows.start + part.start, rows.start + part.stop)
            statistics = [buffer.over(places, ONE) for buffer in of_rows]
            with Q_buffer.holding(problem.Q, places) as Q_i:
                for columns in cuts(problem.width, width):
                    outputs = O_buffer.over(places, columns)
                    met = Rows(Q_i, outputs, *statistics)
                    met.begin(slice(None), problem.sinks_of(places))
                    _attend(problem, fast, met, passing, visits if columns.start == 0 else again(visits))
                    if columns.start == 0:
                        save_log_sum_exp(fast, problem, met.max, met.sum)
                    met.normalise(fast, problem)
                    fast.store(outputs, problem.O)
                    problem.advance(size(places))


def again(visits: Sequence[Visit]) -> list[Visit]:
    """The same visits once more, from what they left in the slots."""
    held = {visit.slot: visit.key for visit in visits}
    found = []
    for visit in visits:
        found.append(replace(visit, arrives=held[visit.slot] != visit.key))
        held[visit.slot] = visit.key
    return found


class _Passing:
    """Keys in slots; their values beside them or, of fewer columns than there are, one after the other."""

    def __init__(
        self, problem: Problem, fast: FastMemory, buffers: tuple[Buffer, Buffer | None], slots: int, width: int
    ) -> None:
        self._problem, self._fast, (K_buffer, self._V_buffer) = problem, fast, buffers
        self._beside = width == problem.width
        V_slots = self._V_buffer if self._beside else None
        self._keys = KeySlots(problem, fast, (K_buffer, V_slots), slots, slice(0, width))

    @contextmanager
    def keys_and_values(self, visits: Sequence[Visit], columns: slice) -> Iterator[tuple[Values, Values]]:
        """The keys of some visits and these columns of their values."""
        with self._keys.keys_and_values(visits) as (keys, values):
            if self._beside:
                yield keys, values
            elif self._V_buffer is None:
                yield keys, keys[:, columns]
            else:
                places = compact_if_ascending(np.array([visit.key for visit in visits]))
                passing = self._V_buffer.streaming(self._problem.V, places, columns, along="rows")
                one = self._V_buffer.holding(self._problem.V, places, columns)
                with one if len(visits) == 1 else passing as V_j:
                    yield keys, V_j.values


def _attend(problem: Problem, fast: FastMemory, rows: Rows, passing: _Passing, visits: Sequence[Visit]) -> None:
    """All rows of a tile take in the keys of the visits, alike ones together; one by one where every step is noted."""
    count, columns = len(rows.Q.values), rows.O.columns
    assert isinstance(columns, slice)
    at_once = 1 if fast.trace.record else max(1, _AT_ONCE // count)
    for _, group in groupby(visits, lambda visit: (visit.arrives, visit.arrives and visit.stays)):
        alike = list(group)
        for part in cuts(len(alike), at_once):
            some = alike[part]
            with passing.keys_and_values(some, columns) as (keys, values):
                rows.take_in(problem.arithmetic, slice(0, count), keys, values)
            note(fast, rows.Q.rows, compact_if_ascending(np.array([visit.key for visit in some])), columns)
