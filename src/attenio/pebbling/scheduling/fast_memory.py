"""Fast memory during the run of an order: what is red, how soon each value is needed, who leaves.

Two heaps hold the red values, furthest next use on top: clean ones, whose copy in slow memory is good, and unsaved
ones. Everything here is compiled; ``eviction`` runs orders on it.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, type-arg"

from typing import NamedTuple

import numpy as np

from attenio.pebbling.compiled import compiled
from attenio.pebbling.schedule import CODES, MoveKind

_LOAD, _STORE, _DELETE = (np.int64(CODES[kind]) for kind in (MoveKind.LOAD, MoveKind.STORE, MoveKind.DELETE))
NOBODY = np.int64(-1)
NEVER = np.iinfo(np.int64).max
CLEAN, UNSAVED, OUT = 0, 1, 2
# Columns of ``values``, one row a value: next use; heap it is in, and where; whether slow memory has it; operations
# still to make it; words; whether it must end in slow memory; whether it may be dropped unsaved when not needed.
NEXT, HEAP, PLACE, BLUE, MAKERS, WEIGHT, OUTPUT, DROPPABLE, COLUMNS = range(9)
# Entries of ``counts``: sizes of the two heaps, red words, words moved, moves made, red words allowed.
WORDS, COST, MOVES, RED, COUNTS = range(2, 7)


class Memory(NamedTuple):
    """The state of a run; ``moves`` has a row for each move that is to be written down, and may have none."""

    values: np.ndarray
    heaps: np.ndarray
    counts: np.ndarray
    moves: np.ndarray


@compiled
def sift_up(memory, heap, hole, value):
    """Put a value into a hole of its heap, or above it if it is needed later than what is there."""
    key = memory.values[value, NEXT]
    while hole > 0:
        above = (hole - 1) >> 1
        other = memory.heaps[heap, above]
        if memory.values[other, NEXT] >= key:
            break
        memory.heaps[heap, hole] = other
        memory.values[other, PLACE] = hole
        hole = above
    memory.heaps[heap, hole] = value
    memory.values[value, PLACE] = hole


@compiled
def _sift_down(memory, size, heap, value):
    key, hole = memory.values[value, NEXT], memory.values[value, PLACE]
    while True:
        below = 2 * hole + 1
        if below >= size:
            break
        other = memory.heaps[heap, below]
        if below + 1 < size and memory.values[memory.heaps[heap, below + 1], NEXT] > memory.values[other, NEXT]:
            below += 1
            other = memory.heaps[heap, below]
        if memory.values[other, NEXT] <= key:
            break
        memory.heaps[heap, hole] = other
        memory.values[other, PLACE] = hole
        hole = below
    memory.heaps[heap, hole] = value
    memory.values[value, PLACE] = hole


@compiled
def insert(memory, heap, value):
    """Make a value red."""
    memory.values[value, HEAP] = heap
    memory.counts[heap] += 1
    memory.counts[WORDS] += memory.values[value, WEIGHT]
    sift_up(memory, heap, memory.counts[heap] - 1, value)


@compiled
def remove(memory, value):
    """Take a value out of fast memory."""
    heap, hole = memory.values[value, HEAP], memory.values[value, PLACE]
    memory.values[value, HEAP] = OUT
    memory.counts[heap] -= 1
    memory.counts[WORDS] -= memory.values[value, WEIGHT]
    last = memory.heaps[heap, memory.counts[heap]]
    if last != value:
        sift_up(memory, heap, hole, last)
        _sift_down(memory, memory.counts[heap], heap, last)


@compiled
def record(memory, kind, vertex, parent):
    """Write a move down if there is room for it, and count it."""
    if memory.counts[MOVES] < len(memory.moves):
        memory.moves[memory.counts[MOVES], 0] = kind
        memory.moves[memory.counts[MOVES], 1] = vertex
        memory.moves[memory.counts[MOVES], 2] = parent
    memory.counts[MOVES] += 1


@compiled
def save(memory, value):
    """Store a value."""
    memory.values[value, BLUE] = 1
    memory.counts[COST] += memory.values[value, WEIGHT]
    record(memory, _STORE, value, NOBODY)


@compiled
def leave(memory, value):
    """Delete a value, saved first if it has to be."""
    needed = memory.values[value, NEXT] != NEVER or memory.values[value, DROPPABLE] == 0
    if needed and memory.values[value, BLUE] == 0:
        save(memory, value)
    remove(memory, value)
    record(memory, _DELETE, value, NOBODY)


@compiled
def furthest(memory, now, reluctance):
    """The value to give up, or -1 if everything red is needed now."""
    clean = unsaved = -1
    if memory.counts[CLEAN] > 0 and memory.values[memory.heaps[CLEAN, 0], NEXT] > now:
        clean = memory.heaps[CLEAN, 0]
    if memory.counts[UNSAVED] > 0 and memory.values[memory.heaps[UNSAVED, 0], NEXT] > now:
        unsaved = memory.heaps[UNSAVED, 0]
    if clean < 0 or unsaved < 0:
        return max(clean, unsaved)
    if memory.values[unsaved, NEXT] - now > reluctance * (memory.values[clean, NEXT] - now):
        return unsaved
    return clean


@compiled
def load(memory, value, now, reluctance):
    """Load a value that is needed now; others leave for it."""
    while memory.counts[WORDS] + memory.values[value, WEIGHT] > memory.counts[RED]:
        leave(memory, furthest(memory, now, reluctance))
    memory.values[value, NEXT] = now
    memory.counts[COST] += memory.values[value, WEIGHT]
    insert(memory, np.int64(CLEAN), value)
    record(memory, _LOAD, value, NOBODY)
