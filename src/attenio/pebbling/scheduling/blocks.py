"""Blocks of operations that need few words from outside: what an S-partition is made of, grown greedily.

A block starts with the first operation left. Then it takes in operations that use what it has, each with everything
that must come before it, as long as the block reads no more than ``inflow`` words made elsewhere; operations that lack
the fewest operands go first. Blocks with small inflow are what the lower bound of [Hong and Kung 1981] counts; on a
Fourier transform they are small transforms, on a stencil they are pyramids.

>>> from attenio.pebbling.game import Game
>>> from attenio.pebbling.scheduling.program import program_of
>>> from attenio.pebbling.graphs.fft import fft
>>> program = program_of(Game(graph=fft(4), red=3))
>>> in_blocks(program, np.arange(8), 2).tolist()
[0, 2, 1, 3, 4, 5, 6, 7]
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, type-arg"

from typing import NamedTuple

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.scheduling.orders import makers_of
from attenio.pebbling.scheduling.program import Numbers, Program

# Goals are kept in queues by how many operands they lack: none, one, more.
_QUEUES = 3
# A block that so many goals in a row do not fit into is full.
_MOST_FAILURES = 64
# Columns of ``operations``: block that it is done in, last search that met it, next operand to look at.
_DONE, _MET, _CURSOR = range(3)
# Columns of ``values``: block that has it, last search that counted it, makers still to be done, users to skip.
_HAVE, _COUNTED, _MAKERS, _SKIP = range(4)
# Entries of ``counts``: number of the block, of the search, operations placed, words of inflow.
_BLOCK, _SEARCH, _PLACED, _INFLOW = range(4)


class _Board(NamedTuple):
    """What is done and what is wanted, while blocks grow."""

    maker_starts: Numbers
    makers: Numbers
    order: Numbers
    operations: Numbers
    values: Numbers
    counts: Numbers
    queues: np.ndarray
    # First and last of each queue.
    ends: Numbers
    # For searches: what they are at, and what a goal needs.
    stack: Numbers
    needed: Numbers


def in_blocks(program: Program, base: Numbers, inflow: int) -> Numbers:
    """The order block by block, each begun with the first operation of ``base`` that is left."""
    starts, makers = makers_of(program)
    size = len(base)
    # Searches give up beyond a few operations for every word of inflow, so that a hopeless goal costs little.
    needed = np.empty(min(size, 8 * inflow + 64) + 1, np.int64)
    values = np.full((len(program.weights), 4), -1, np.int64)
    values[:, _MAKERS] = program.makers
    values[:, _SKIP] = program.user_starts[:-1]
    board = _Board(
        maker_starts=starts,
        makers=makers,
        order=np.empty(size, np.int64),
        operations=np.full((size, 3), -1, np.int64),
        values=values,
        counts=np.zeros(4, np.int64),
        queues=np.empty((_QUEUES, len(program.operands) + 1), np.int32),
        ends=np.zeros((2, _QUEUES), np.int64),
        stack=np.empty(len(needed) + 1, np.int64),
        needed=needed,
    )
    order: Numbers = _in_blocks(program, board, base, inflow)
    return order


@compiled
def _missing_words(program, board, operation):
    """Words from outside that one operation adds to the block, apart from what is still to be made."""
    values, counts = board.values, board.counts
    words = 0
    first, last = program.operand_starts[operation], program.operand_starts[operation + 1]
    target = program.targets[operation]
    for slot in range(first, last + 1):
        value = program.operands[slot] if slot < last else target
        if slot == last and (not program.partial or values[target, _MAKERS] == program.makers[target]):
            continue
        outside = values[value, _HAVE] != counts[_BLOCK] and values[value, _COUNTED] != counts[_SEARCH]
        if outside and (slot == last or values[value, _MAKERS] == 0):
            values[value, _COUNTED] = counts[_SEARCH]
            words += program.weights[value]
    return words


@compiled
def _unmet_maker(board, value, search):
    for place in range(board.maker_starts[value], board.maker_starts[value + 1]):
        maker = board.makers[place]
        if board.operations[maker, _DONE] < 0 and board.operations[maker, _MET] != search:
            return maker
    return -1


@compiled
def _reach(program, board, goal, budget):
    """What has to be done for a goal, in order, into ``needed``; its length and the words needed, -1 if over budget."""
    operations, counts, stack, needed = board.operations, board.counts, board.stack, board.needed
    counts[_SEARCH] += 1
    stack[0] = goal
    depth, length = 1, 0
    operations[goal, _MET] = counts[_SEARCH]
    operations[goal, _CURSOR] = program.operand_starts[goal]
    words = _missing_words(program, board, goal)
    while depth > 0:
        operation = stack[depth - 1]
        slot = operations[operation, _CURSOR]
        if words > budget or depth + length >= len(needed):
            return -1, words
        if slot == program.operand_starts[operation + 1]:
            needed[length] = operation
            length += 1
            depth -= 1
            continue
        value = program.operands[slot]
        maker = -1
        if board.values[value, _MAKERS] > 0:
            maker = _unmet_maker(board, value, counts[_SEARCH])
        if maker < 0:
            operations[operation, _CURSOR] += 1
            continue
        operations[maker, _MET] = counts[_SEARCH]
        operations[maker, _CURSOR] = program.operand_starts[maker]
        words += _missing_words(program, board, maker)
        stack[depth] = maker
        depth += 1
    return length, words


@compiled
def _have(program, board, value):
    """The block has a value: its users are goals, though not all of very many."""
    operations, values, counts = board.operations, board.values, board.counts
    if values[value, _HAVE] == counts[_BLOCK]:
        return
    values[value, _HAVE] = counts[_BLOCK]
    last = program.user_starts[value + 1]
    while values[value, _SKIP] < last and operations[program.users[values[value, _SKIP]], _DONE] >= 0:
        values[value, _SKIP] += 1
    first = values[value, _SKIP]
    for place in range(first, min(last, first + len(board.needed))):
        user = program.users[place]
        if operations[user, _DONE] >= 0:
            continue
        lacking = 0
        for slot in range(program.operand_starts[user], program.operand_starts[user + 1]):
            if values[program.operands[slot], _HAVE] != counts[_BLOCK]:
                lacking += 1
        queue = min(lacking, _QUEUES - 1)
        board.queues[queue, board.ends[1, queue]] = user
        board.ends[1, queue] += 1


@compiled
def _do(program, board, operation):
    values, counts = board.values, board.counts
    board.order[counts[_PLACED]] = operation
    counts[_PLACED] += 1
    board.operations[operation, _DONE] = counts[_BLOCK]
    target = program.targets[operation]
    values[target, _MAKERS] -= 1
    for slot in range(program.operand_starts[operation], program.operand_starts[operation + 1]):
        _have(program, board, program.operands[slot])
    if values[target, _MAKERS] == 0:
        _have(program, board, target)
    else:
        values[target, _HAVE] = counts[_BLOCK]


@compiled
def _next_goal(board):
    for queue in range(_QUEUES):
        if board.ends[0, queue] < board.ends[1, queue]:
            board.ends[0, queue] += 1
            return board.queues[queue, board.ends[0, queue] - 1]
    return -1


@called_from_python
def _in_blocks(program, board, base, inflow):
    counts = board.counts
    for seed in base:
        if board.operations[seed, _DONE] >= 0:
            continue
        counts[_BLOCK] += 1
        counts[_INFLOW] = failures = 0
        for queue in range(_QUEUES):
            board.ends[0, queue] = board.ends[1, queue] = 0
        goal, budget = seed, np.iinfo(np.int64).max
        while goal >= 0 and failures < _MOST_FAILURES:
            length = words = 0
            if board.operations[goal, _DONE] < 0:
                length, words = _reach(program, board, goal, budget)
            if length < 0 and goal == seed:
                # More must come before it than a search looks at. In the base order it is next, so it can go alone.
                length, words, board.needed[0] = 1, 0, seed
            failures = failures + 1 if length < 0 else 0
            for index in range(length):
                _do(program, board, board.needed[index])
            if length > 0:
                counts[_INFLOW] += words
            budget = inflow - counts[_INFLOW]
            goal = _next_goal(board)
    return board.order
