"""Orders of operations that need no search: depth first, and depth first with everything that follows done at once.

An order is an array of operation numbers in which every operation comes after those that it depends on.

>>> from attenio.pebbling.game import Game
>>> from attenio.pebbling.graph import ComputationGraph
>>> from attenio.pebbling.scheduling.program import program_of
>>> graph = ComputationGraph.from_parents({"b": ("a",), "c": ("a",), "d": ("b",), "e": ("c",)})
>>> program = program_of(Game(graph=graph, red=3))
>>> [graph.names[program.targets[operation]] for operation in depth_first(program)]
['b', 'd', 'c', 'e']
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

import numpy as np

from attenio.pebbling.compiled import called_from_python
from attenio.pebbling.scheduling.program import Numbers, Program


def makers_of(program: Program) -> tuple[Numbers, Numbers]:
    """Starts and numbers of the operations that make each value, in the order of their numbers."""
    starts = np.zeros(len(program.weights) + 1, np.int64)
    np.cumsum(program.makers, out=starts[1:])
    return starts, np.argsort(program.targets, kind="stable").astype(np.int64)


def depth_first(program: Program) -> Numbers:
    """Every output in turn, and before an operation what its operands need: few values are open at a time.

    In the partial game a value is added to its sum as soon as it is finished.
    """
    starts, makers = makers_of(program)
    order: Numbers = _depth_first(program, starts, makers)
    return order


@called_from_python
def _depth_first(program, maker_starts, makers):
    values = len(program.weights)
    order = np.empty(len(program.targets), np.int64)
    placed = 0
    # The next operation of each value that is being made, and the next operand that this operation waits for.
    next_maker = maker_starts[:-1].copy()
    next_operand = program.operand_starts[:-1].copy()
    stack = np.empty(values + 1, np.int64)
    for root in range(values):
        if not program.is_output[root] or next_maker[root] == maker_starts[root + 1]:
            continue
        stack[0] = root
        depth = 1
        while depth > 0:
            value = stack[depth - 1]
            if next_maker[value] == maker_starts[value + 1]:
                depth -= 1
                continue
            operation = makers[next_maker[value]]
            slot = next_operand[operation]
            if slot < program.operand_starts[operation + 1]:
                next_operand[operation] += 1
                needed = program.operands[slot]
                if next_maker[needed] < maker_starts[needed + 1]:
                    stack[depth] = needed
                    depth += 1
                continue
            order[placed] = operation
            placed += 1
            next_maker[value] += 1
    return order


def eager(program: Program) -> Numbers:
    """As depth first, but what can be done without a new input-only operation is done at once, latest chance first.

    A row of an online softmax takes in key after key this way, all its outputs together; a Fourier transform grows
    from small transforms.
    """
    starts, makers = makers_of(program)
    order: Numbers = _eager(program, _depth_first(program, starts, makers), starts, makers)
    return order


@called_from_python
def _eager(program, calls, maker_starts, makers):
    waiting = np.zeros(len(program.targets), np.int64)
    for operation in range(len(program.targets)):
        for slot in range(program.operand_starts[operation], program.operand_starts[operation + 1]):
            if program.makers[program.operands[slot]] > 0:
                waiting[operation] += 1
    # Only operations on inputs wait for their call; -1 says that an operation is done or on the stack.
    makers_left = program.makers.copy()
    order = np.empty(len(calls), np.int64)
    stack = np.empty(len(calls), np.int64)
    placed = depth = 0
    for call in calls:
        if waiting[call] == 0:
            stack[depth] = call
            depth += 1
            waiting[call] = -1
        while depth > 0:
            depth -= 1
            operation = stack[depth]
            order[placed] = operation
            placed += 1
            target = program.targets[operation]
            makers_left[target] -= 1
            if makers_left[target] == program.makers[target] - 1:
                # What has been begun takes in its inputs now, before they are called for.
                for place in range(maker_starts[target + 1] - 1, maker_starts[target] - 1, -1):
                    other = makers[place]
                    if waiting[other] == 0:
                        stack[depth] = other
                        depth += 1
                        waiting[other] = -1
            if makers_left[target] > 0:
                continue
            for place in range(program.user_starts[target + 1] - 1, program.user_starts[target] - 1, -1):
                user = program.users[place]
                waiting[user] -= 1
                if waiting[user] == 0:
                    stack[depth] = user
                    depth += 1
                    waiting[user] = -1
    return order
