"""Kept keys: rows stay, and slots keep keys over the turn from one tile of rows to the next.

    for each group of value_columns columns c of V:
        for each tile i of query_tile rows:
            load Q_i; O_i, max, sum = 0, -inf, 0
            for each key that the tile needs, those in the slots first:
                load k and v[c] into one of kept_keys slots (not if they are there; v not if it is part of k)
                for each row that needs the key:
                    s = scale q . k;  p, max, sum, rescale = online softmax of s;  o = rescale o + p v
            store O_i / sum

With group_positions a tile has the rows of all heads of a group at so many positions, with all columns.

Slots keep what the next tile needs too. Walking back and forth over the keys with a slot for the key that passes, and
others for those at the turn, reads as few; so does a ring of keys under a window, once it has a slot for each key of
the window. Fast memory: a rows of Q, of O and of two statistics, slots for a key and its value each, and two words for
the row whose turn it is.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import groupby

import numpy as np

from attenio.dataflows.key_slots import Visit, keeping_slots, needed_by_tiles, turns
from attenio.dataflows.online_softmax import ONE, save_log_sum_exp
from attenio.dataflows.problem import Problem
from attenio.dataflows.rolling import Turn
from attenio.dataflows.row_by_row import Rows, note
from attenio.memory import Buffer, FastMemory
from attenio.memory.indices import as_array, compact, compact_if_ascending, cuts, size
from attenio.memory.matrix import Values
from attenio.planning.plan import Tiles

# Booleans of a mask looked at together.
_MASK_AT_ONCE = 2**20


def kept_keys(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence, or the heads of a group together."""
    pattern, heads = problem.pattern, range(problem.group)
    tile = tiles["group_positions"] if "group_positions" in tiles else tiles["query_tile"]
    a, slots = min(tile, pattern.rows), min(tiles["kept_keys"], pattern.keys)
    width = min(tiles.get("value_columns", problem.width), problem.width)
    needed = needed_by_tiles(pattern, a)
    with rows_and_slots(problem, fast, a * len(heads), slots, width) as (Q_buffer, O_buffer, of_rows, of_keys):
        for columns in cuts(problem.width, width):
            keys = KeySlots(problem, fast, of_keys, slots, columns)
            visits = turns(needed, slots=slots, keeping=keeping_slots(pattern, slots))
            for positions, visited in zip(cuts(pattern.rows, a), visits, strict=True):
                places = problem.rows_of(heads, positions)
                outputs = O_buffer.over(places, columns)
                statistics = [buffer.over(places, ONE) for buffer in of_rows]
                rows = Rows(Q_buffer.over(places, problem.Q.columns, name="Q"), outputs, *statistics)
                rows.begin(slice(None), problem.sinks_of(places))
                if visited:
                    with Q_buffer.holding(problem.Q, places) as Q_i:
                        _attend(problem, fast, (rows._replace(Q=Q_i), positions), keys, visited)
                if columns.start == 0:
                    save_log_sum_exp(fast, problem, rows.max, rows.sum)
                rows.normalise(fast, problem)
                fast.store(outputs, problem.O)
                problem.advance(size(places))


@contextmanager
def rows_and_slots(
    problem: Problem, fast: FastMemory, rows: int, slots: int, width: int, values: int | None = None
) -> Iterator[tuple[Buffer, Buffer, tuple[Buffer, Buffer], tuple[Buffer, Buffer | None]]]:
    """Buffers of rows of Q and O, of their largest scores and sums, and of slots for K and V (none, if part of K).

    There are as many ``values`` as slots, unless told.
    """
    beside = slots if values is None else values
    with (
        fast.buffer("Q", rows, problem.depth) as Q_buffer,
        fast.scratch("O", rows, width) as O_buffer,
        fast.scratch("max", rows, 1) as max_buffer,
        fast.scratch("sum", rows, 1) as sum_buffer,
        fast.scratch("S", 1, 1),
        fast.scratch("next max", 1, 1),
        problem.key_buffer(fast, "K", slots, problem.depth) as K_buffer,
        nullcontext() if problem.values_in_keys else problem.key_buffer(fast, "V", beside, width) as V_buffer,
    ):
        yield Q_buffer, O_buffer, (max_buffer, sum_buffer), (K_buffer, V_buffer)


class KeySlots:
    """Keys and some columns of their values in slots."""

    def __init__(
        self, problem: Problem, fast: FastMemory, buffers: tuple[Buffer, Buffer | None], slots: int, columns: slice
    ) -> None:
        K_buffer, V_buffer = buffers
        every = slice(0, slots)
        self._fast, self._columns, self._buffers = fast, columns, [K_buffer, *([] if V_buffer is None else [V_buffer])]
        self._sources = [problem.K, problem.V][: len(self._buffers)]
        wide = (problem.K.columns, columns)
        self._tiles = [buffer.over(every, part) for buffer, part in zip(self._buffers, wide, strict=False)]

    @contextmanager
    def keys_and_values(self, visits: Sequence[Visit | Turn]) -> Iterator[tuple[Values, Values]]:
        """The keys of some visits and their values: loaded into slots if they arrive, or passing through a slot."""
        first = visits[0]
        keys, slots = (np.array([getattr(each, name) for each in visits]) for name in ("key", "slot"))
        if first.arrives and not first.stays and len(visits) > 1:
            places = compact_if_ascending(keys)
            with ExitStack() as stack:
                streams = [
                    buffer.streaming(source, places, tile.columns, along="rows")
                    for buffer, source, tile in zip(self._buffers, self._sources, self._tiles, strict=True)
                ]
                yield self._both([stack.enter_context(stream).values for stream in streams])
            return
        if first.arrives:
            for source, tile in zip(self._sources, self._tiles, strict=True):
                self._fast.load(source, tile, keys, at=slots)
        yield self._both([tile.values[slots] for tile in self._tiles])

    def _both(self, values: list[Values]) -> tuple[Values, Values]:
        return values[0], values[1] if len(values) > 1 else values[0][:, self._columns]


def _attend(problem: Problem, fast: FastMemory, tile: tuple[Rows, slice], keys: KeySlots, visited: list[Visit]) -> None:
    """All rows of a tile, which are those of some positions, take in the keys of the visits.

    Keys that were kept, that pass, and that will stay are taken in together; one by one where every step is noted.
    """
    rows, positions = tile
    places = as_array(rows.Q.rows)
    at_once = 1 if fast.trace.record else max(1, _MASK_AT_ONCE // len(places))
    for _, group in groupby(visited, lambda visit: (visit.arrives, visit.arrives and visit.stays)):
        alike = list(group)
        for part in cuts(len(alike), at_once):
            some = alike[part]
            required = problem.pattern.required(
                positions.start, positions.stop, np.array([visit.key for visit in some])
            )
            required = np.tile(required, (problem.group, 1)) if problem.group > 1 else required
            at = np.flatnonzero(required.any(axis=1))
            with keys.keys_and_values(some) as (key, value):
                needed = required[at]
                rows.take_in(problem.arithmetic, compact(at), key, value, None if needed.all() else needed)
            note(
                fast, compact(places[at]), compact_if_ascending(np.array([visit.key for visit in some])), rows.O.columns
            )
