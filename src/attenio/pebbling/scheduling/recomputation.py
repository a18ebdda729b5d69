"""Computing a value again instead of loading it, where what it needs is red or cheaper to load.

The standard game allows it, and an order may name an operation more than once: between its last use and its next
computation a value takes no room and needs no store.

>>> from attenio.pebbling.game import Game
>>> from attenio.pebbling.graph import ComputationGraph
>>> from attenio.pebbling.scheduling.eviction import schedule_of
>>> from attenio.pebbling.scheduling.program import program_of
>>> graph = ComputationGraph.from_parents({"b": ("a",), "s": ("b", "x"), "t": ("s", "y", "z"), "u": ("t", "b", "a")})
>>> program = program_of(Game(graph=graph, red=4))
>>> order = np.arange(4)
>>> computed_again(program, order, schedule_of(program, order), share=1.0).tolist()
[0, 1, 2, 0, 3]
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

import numpy as np

from attenio.pebbling.compiled import called_from_python
from attenio.pebbling.schedule import CODES, MoveKind, Schedule
from attenio.pebbling.scheduling.program import Numbers, Program

_LOAD, _DELETE, _COMPUTE = CODES[MoveKind.LOAD], CODES[MoveKind.DELETE], CODES[MoveKind.COMPUTE]


def computed_again(program: Program, order: Numbers, schedule: Schedule, *, share: float) -> Numbers:
    """The order with operations repeated where its schedule loads a computed value though its operands are at hand.

    At hand is what is red, and inputs of up to ``share`` times the words of the value.
    """
    maker = np.full(len(program.weights), -1, np.int64)
    maker[program.targets] = np.arange(len(program.targets), dtype=np.int64)
    arrays = schedule.kinds, schedule.vertices, schedule.parents
    steps, operations = _reloads(program, maker, arrays, share)
    return np.insert(order, steps, operations)


@called_from_python
def _reloads(program, maker, arrays, share):
    kinds, vertices, parents = arrays
    red = np.zeros(len(program.weights), np.bool_)
    steps, operations = [0 for _ in range(0)], [0 for _ in range(0)]
    step = 0
    for move in range(len(kinds)):
        vertex = vertices[move]
        if kinds[move] == _LOAD:
            operation = maker[vertex]
            if operation >= 0:
                missing = 0
                possible = True
                for value in program.operands[
                    program.operand_starts[operation] : program.operand_starts[operation + 1]
                ]:
                    if not red[value]:
                        possible = possible and maker[value] < 0
                        missing += program.weights[value]
                if possible and missing <= share * program.weights[vertex]:
                    steps.append(step)
                    operations.append(operation)
            red[vertex] = True
        elif kinds[move] == _DELETE:
            red[vertex] = False
        elif kinds[move] == _COMPUTE:
            red[vertex] = True
            if parents[move] >= 0:
                red[parents[move]] = False
            step += 1
    return np.array(steps, np.int64), np.array(operations, np.int64)
