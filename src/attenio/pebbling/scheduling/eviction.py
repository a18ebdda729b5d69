"""What an order of operations costs: the values that leave fast memory are those needed furthest in the future.

Among clean values, whose copy in slow memory is good, furthest next use is the optimum for a fixed order [Belady 1966].
An unsaved value costs a store on top, so it leaves only if its next use is ``reluctance`` times as far away as that of
the furthest clean one. The optimum with stores is NP-hard [Beckmann, Gibbons, Haeupler, McGuffey 2020].

Outputs are stored when they are finished; a value that nothing needs any more, or that is computed anew before it is
next needed, leaves at once and for free.

>>> from attenio.pebbling.game import Game
>>> from attenio.pebbling.graph import ComputationGraph
>>> from attenio.pebbling.scheduling.program import program_of
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> cost_of(program_of(Game(graph=graph, red=3)), np.array([0]))
3
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.schedule import CODES, MoveKind, Schedule
from attenio.pebbling.scheduling.fast_memory import (
    BLUE,
    CLEAN,
    COLUMNS,
    COST,
    COUNTS,
    DROPPABLE,
    HEAP,
    MAKERS,
    MOVES,
    NEVER,
    NEXT,
    NOBODY,
    OUT,
    OUTPUT,
    PLACE,
    RED,
    UNSAVED,
    WEIGHT,
    WORDS,
    Memory,
    furthest,
    insert,
    leave,
    load,
    record,
    remove,
    save,
    sift_up,
)
from attenio.pebbling.scheduling.program import Numbers, Program

# A store and a load against a load.
RELUCTANCE = 2.0

_COMPUTE, _ACCUMULATE = np.int64(CODES[MoveKind.COMPUTE]), np.int64(CODES[MoveKind.ACCUMULATE])
_STAYS = np.bool_(False)


@compiled
def _loss(memory, value, away, reluctance):
    """How gladly a value is given up: the longer until it is needed the better, less if it has to be stored."""
    if away == np.inf or memory.values[value, BLUE] == 1:
        return away
    return away / reluctance


@compiled
def _slide(memory, spare, reads, now, reluctance):
    """The operand whose place the target takes most gladly, and how gladly; -1 if none is heavy enough."""
    operands, upcoming = reads
    instead, best = -1, -1.0
    for slot in range(len(operands)):
        if spare + memory.values[operands[slot], WEIGHT] >= 0:
            away = np.inf if upcoming[slot] == NEVER else float(upcoming[slot] - now)
            away = _loss(memory, operands[slot], away, reluctance)
            if away > best:
                instead, best = slot, away
    return instead, best


@compiled
def _make_place(memory, reads, target, now, reluctance, sliding):
    """Make room for the target; the slot of the operand whose place it takes, or -1 if it has one of its own."""
    while memory.counts[WORDS] + memory.values[target, WEIGHT] > memory.counts[RED]:
        instead, best = -1, -1.0
        if sliding:
            spare = memory.counts[RED] - memory.counts[WORDS] - memory.values[target, WEIGHT]
            instead, best = _slide(memory, spare, reads, now, reluctance)
        victim = furthest(memory, now, reluctance)
        if victim < 0 or _loss(memory, victim, float(memory.values[victim, NEXT] - now), reluctance) < best:
            return instead
        leave(memory, victim)
    return -1


@compiled
def _next_uses(program, order):
    """For every operand of every step, and for every target, the step that next needs it; never if it is made anew."""
    steps = len(order)
    starts = np.zeros(steps + 1, np.int64)
    for step in range(steps):
        operation = order[step]
        starts[step + 1] = starts[step] + program.operand_starts[operation + 1] - program.operand_starts[operation]
    of_operands = np.empty(starts[steps], np.int64)
    of_targets = np.empty(steps, np.int64)
    upcoming = np.full(len(program.weights), NEVER, np.int64)
    for step in range(steps - 1, -1, -1):
        operation = order[step]
        target = program.targets[operation]
        of_targets[step] = upcoming[target]
        upcoming[target] = step if program.partial else NEVER
        first = program.operand_starts[operation]
        for slot in range(first, program.operand_starts[operation + 1]):
            value = program.operands[slot]
            of_operands[starts[step] + slot - first] = upcoming[value]
            upcoming[value] = step
    return starts, of_operands, of_targets


@compiled
def _finish(memory, target, after):
    """Put a computed target where it belongs, and store it if it is a finished output."""
    memory.values[target, MAKERS] -= 1
    memory.values[target, NEXT] = after
    if memory.values[target, OUTPUT] == 1 and memory.values[target, BLUE] == 0 and memory.values[target, MAKERS] <= 0:
        save(memory, target)
    insert(memory, CLEAN if memory.values[target, BLUE] == 1 else UNSAVED, target)
    if after == NEVER:
        leave(memory, target)


@compiled
def _release(memory, reads):
    """After an operation: what is needed later moves up its heap, the rest leaves."""
    operands, upcoming = reads
    for slot in range(len(operands)):
        value = operands[slot]
        if memory.values[value, HEAP] != OUT:
            memory.values[value, NEXT] = upcoming[slot]
            if upcoming[slot] == NEVER:
                leave(memory, value)
            else:
                sift_up(memory, memory.values[value, HEAP], memory.values[value, PLACE], value)


@compiled
def _compute(memory, reads, target, now, reluctance, sliding):
    operands, upcoming = reads
    instead = _make_place(memory, reads, target, now, reluctance, sliding)
    if instead < 0:
        record(memory, _COMPUTE, target, NOBODY)
    else:
        # The operand goes the moment the target comes: saved before, taken off the board by the computation itself.
        value = operands[instead]
        if upcoming[instead] != NEVER and memory.values[value, BLUE] == 0:
            save(memory, value)
        remove(memory, value)
        record(memory, _COMPUTE, target, value)


@compiled
def _accumulate(memory, reads, target, now, reluctance, begun):
    if memory.values[target, HEAP] != OUT:
        remove(memory, target)
    elif begun:
        load(memory, target, now, reluctance)
        remove(memory, target)
    else:
        _make_place(memory, reads, target, now, reluctance, _STAYS)
    memory.values[target, BLUE] = 0
    record(memory, _ACCUMULATE, target, reads[0][0])


@called_from_python
def _run(program, order, values, moves, reluctance):
    """Play the order; the words and the number of moves that it takes."""
    heaps = np.empty((2, min(len(values), program.red) + 1), np.int64)
    memory = Memory(values, heaps, np.zeros(COUNTS, np.int64), moves)
    memory.counts[RED] = program.red
    starts, of_operands, of_targets = _next_uses(program, order)
    for step in range(len(order)):
        operation = order[step]
        target = program.targets[operation]
        operands = program.operands[program.operand_starts[operation] : program.operand_starts[operation + 1]]
        reads = operands, of_operands[starts[step] : starts[step + 1]]
        for slot in range(len(operands)):
            # Pins it: nothing red is needed sooner, so nothing needed now is ever the furthest.
            memory.values[operands[slot], NEXT] = step
            if memory.values[operands[slot], HEAP] == OUT:
                load(memory, operands[slot], step, reluctance)
        if program.partial:
            begun = memory.values[target, MAKERS] < program.makers[target]
            _accumulate(memory, reads, target, step, reluctance, begun)
        else:
            _compute(memory, reads, target, step, reluctance, program.sliding)
        _finish(memory, target, of_targets[step])
        _release(memory, reads)
    return memory.counts[COST], memory.counts[MOVES]


@compiled
def words_moved(program, order, values, reluctance):
    """Words that the order moves, for compiled code; ``values`` are starting values, and are used up."""
    return _run(program, order, values, np.empty((0, 3), np.int64), reluctance)[0]


def starting_values(program: Program) -> Numbers:
    """The state of every value before the first operation."""
    values = np.zeros((len(program.weights), COLUMNS), np.int64)
    values[:, HEAP] = OUT
    values[:, BLUE] = program.makers == 0
    values[:, MAKERS] = program.makers
    values[:, WEIGHT] = program.weights
    values[:, OUTPUT] = program.is_output
    values[:, DROPPABLE] = program.droppable
    return values


def cost_of(program: Program, order: Numbers, reluctance: float = RELUCTANCE) -> int:
    """Words that the order moves."""
    return int(_run(program, order, starting_values(program), np.empty((0, 3), np.int64), reluctance)[0])


def schedule_of(program: Program, order: Numbers, reluctance: float = RELUCTANCE) -> Schedule:
    """The moves that play the order."""
    _, length = _run(program, order, starting_values(program), np.empty((0, 3), np.int64), reluctance)
    moves = np.empty((length, 3), np.int64)
    _run(program, order, starting_values(program), moves, reluctance)
    return Schedule(moves[:, 0].astype(np.uint8), moves[:, 1].copy(), moves[:, 2].copy())
