"""Groups of independent parts, advanced together so that they share what they load.

Without its inputs a graph often falls apart: a product of matrices into one part for every entry of the result,
attention into one for every row. Parts share nothing but inputs, so any of them may run side by side. A group is grown
from a first part by bundles: all parts that lack exactly the same inputs join together, and the bundle with the most
parts for each missing word goes first. Inside a group one part leads, in a given order of its operations, and the
others do what they can with what it has loaded.

>>> from attenio.pebbling.game import Game
>>> from attenio.pebbling.graph import ComputationGraph
>>> from attenio.pebbling.scheduling.program import program_of
>>> graph = ComputationGraph.from_parents({"b": ("a",), "c": ("a",), "d": ("b",), "e": ("c",)})
>>> program = program_of(Game(graph=graph, red=3))
>>> parts_of(program).of_operation.tolist()
[0, 1, 0, 1]
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

from typing import NamedTuple

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.graph import starts_of
from attenio.pebbling.scheduling.program import Numbers, Program

_NEVER = np.iinfo(np.int64).max
# Columns of ``of_part``, one row a part: its group, its place among all parts, the exclusive or of the random codes of
# the inputs that it lacks (so that parts that lack the same have the same), their words, the last group that met it.
_GROUP, _PLACE, _SIGNATURE, _LACKING, _SEEN, _COLUMNS = range(6)


class Parts(NamedTuple):
    """The parts of a program and the inputs that each reads."""

    number: int
    of_operation: Numbers
    input_starts: Numbers
    inputs: Numbers
    # The parts that read each value.
    reader_starts: Numbers
    readers: Numbers


def parts_of(program: Program) -> Parts:
    """The connected pieces of the program when inputs do not connect."""
    roots = _roots(program)
    _, of_operation = np.unique(roots[program.targets], return_inverse=True)
    of_operation = of_operation.astype(np.int64)
    count = int(of_operation.max(initial=-1)) + 1
    owners = np.repeat(of_operation, np.diff(program.operand_starts))
    from_outside = program.makers[program.operands] == 0
    size = len(program.weights)
    pairs = np.unique(owners[from_outside] * size + program.operands[from_outside])
    parts, inputs = pairs // size, pairs % size
    by_input = np.argsort(inputs, kind="stable")
    return Parts(
        number=count,
        of_operation=of_operation,
        input_starts=starts_of(parts, count),
        inputs=inputs,
        reader_starts=starts_of(inputs, size),
        readers=parts[by_input],
    )


@compiled
def _root(leaders, value):
    while leaders[value] != value:
        leaders[value] = leaders[leaders[value]]
        value = leaders[value]
    return value


@called_from_python
def _roots(program):
    leaders = np.arange(len(program.weights), dtype=np.int64)
    for operation in range(len(program.targets)):
        mine = _root(leaders, program.targets[operation])
        for slot in range(program.operand_starts[operation], program.operand_starts[operation + 1]):
            value = program.operands[slot]
            if program.makers[value] > 0:
                other = _root(leaders, value)
                # The lower number leads, so that parts are numbered as they begin.
                leaders[max(mine, other)] = min(mine, other)
                mine = min(mine, other)
    for value in range(len(leaders)):
        leaders[value] = _root(leaders, value)
    return leaders


@compiled
def _take(parts, part, group, books, of_part, met):
    """Put a part into the group: what it reads is present, so others lack less. Returns how many parts were met so far.

    ``met`` holds the parts that read something present, and how many they are at its end.
    """
    weights, codes, present = books
    of_part[part, _GROUP] = group
    for value in parts.inputs[parts.input_starts[part] : parts.input_starts[part + 1]]:
        if present[value] == group:
            continue
        present[value] = group
        for other in parts.readers[parts.reader_starts[value] : parts.reader_starts[value + 1]]:
            of_part[other, _SIGNATURE] ^= codes[value]
            of_part[other, _LACKING] -= weights[value]
            if of_part[other, _SEEN] != group:
                of_part[other, _SEEN] = group
                met[met[-1]] = other
                met[-1] += 1


@compiled
def _best_bundle(candidates, of_part):
    """Of the bundles among the candidates the one with most parts a missing word."""
    signature, lacking = of_part[:, _SIGNATURE], of_part[:, _LACKING]
    order = np.argsort(signature[candidates], kind="mergesort")
    best_start = best_stop = 0
    best = -1.0
    start = 0
    for stop in range(1, len(order) + 1):
        first = candidates[order[start]]
        if stop < len(order) and signature[candidates[order[stop]]] == signature[first]:
            continue
        worth = np.inf if lacking[first] == 0 else (stop - start) / lacking[first]
        if worth > best or (worth == best and first < candidates[order[best_start]]):
            best, best_start, best_stop = worth, start, stop
        start = stop
    return candidates[order[best_start:best_stop]]


@compiled
def _clear(tally, members):
    for member in members:
        tally[member] = 0


@compiled
def _sort(members):
    """Sort a few numbers in place, by insertion: they come nearly in order, and the library's sort compiles longer."""
    for last in range(1, len(members)):
        member, place = members[last], last
        while place > 0 and members[place - 1] > member:
            members[place] = members[place - 1]
            place -= 1
        members[place] = member


@compiled
def _strip_of(parts, first, neighbours, tally, length):
    """Of these neighbours up to ``length`` that share with the first one what its nearest neighbour shares with it."""
    _clear(tally, neighbours)
    for slot in range(parts.input_starts[first], parts.input_starts[first + 1]):
        value = parts.inputs[slot]
        for reader in range(parts.reader_starts[value], parts.reader_starts[value + 1]):
            tally[parts.readers[reader]] += 1
    near = neighbours[0]
    for other in neighbours:
        if tally[other] > tally[near] or (tally[other] == tally[near] and other < near):
            near = other
    _clear(tally, neighbours)
    theirs = parts.inputs[parts.input_starts[near] : parts.input_starts[near + 1]]
    common = 0
    for slot in range(parts.input_starts[first], parts.input_starts[first + 1]):
        value = parts.inputs[slot]
        place = np.searchsorted(theirs, value)
        if place < len(theirs) and theirs[place] == value:
            common += 1
            for reader in range(parts.reader_starts[value], parts.reader_starts[value + 1]):
                tally[parts.readers[reader]] += 1
    alike = neighbours[tally[neighbours] == common]
    _sort(alike)
    return alike[:length]


@compiled
def _free(met, of_part):
    """The parts met so far that are in no group."""
    neighbours = met[: met[-1]]
    return neighbours[of_part[neighbours, _GROUP] < 0]


@compiled
def _alone(parts, books, of_part, part):
    """A part lacks everything it reads."""
    weights, codes, _ = books
    of_part[part, _SIGNATURE] = of_part[part, _LACKING] = 0
    for value in parts.inputs[parts.input_starts[part] : parts.input_starts[part + 1]]:
        of_part[part, _SIGNATURE] ^= codes[value]
        of_part[part, _LACKING] += weights[value]


@called_from_python
def _grow(parts, books, limit, strip, whole):
    """The columns of every part, with its group and its place among all."""
    of_part = np.full((parts.number, _COLUMNS), -1, np.int64)
    tally = np.zeros(parts.number, np.int64)
    met = np.zeros(parts.number + 1, np.int64)
    for part in range(parts.number):
        _alone(parts, books, of_part, part)
    group = placed = np.int64(0)
    for first in range(parts.number):
        if of_part[first, _GROUP] >= 0:
            continue
        met[-1] = 0
        bundle = np.array([first], dtype=np.int64)
        members = 0
        while len(bundle) > 0 and members < limit:
            if whole and members > 0 and members + len(bundle) > limit and of_part[bundle[0], _LACKING] > 0:
                break
            for part in bundle[: limit - members]:
                of_part[part, _PLACE] = placed
                placed += 1
                members += 1
                _take(parts, part, group, books, of_part, met)
            candidates = _free(met, of_part)
            if len(candidates) > 0 and members == 1 and strip > 1:
                candidates = _strip_of(parts, first, candidates, tally, strip - 1)
                bundle = candidates
            elif len(candidates) > 0:
                bundle = _best_bundle(candidates, of_part)
            else:
                bundle = candidates
        for part in met[: met[-1]]:
            _alone(parts, books, of_part, part)
        group += 1
    return of_part


def grouped(program: Program, parts: Parts, *, limit: int, strip: int, whole: bool) -> tuple[Numbers, Numbers]:
    """The group of every part and its place among all; groups have up to ``limit`` parts and begin with a strip."""
    codes = np.random.default_rng(0).integers(1, 2**62, len(program.weights), dtype=np.int64)
    present = np.full(len(program.weights), -1, np.int64)
    of_part = _grow(parts, (program.weights, codes, present), limit, strip, whole)
    return of_part[:, _GROUP].copy(), of_part[:, _PLACE].copy()


def side_by_side(program: Program, parts: Parts, places: tuple[Numbers, Numbers], base: Numbers) -> Numbers:
    """The order that runs group by group, and in a group the parts in step; ``base`` is any order of the operations."""
    group, place = places
    size = len(base)
    # The base order, part by part: first as the groups stand, then with the longest part of each group in front.
    part = parts.of_operation[base]
    by_place = base[np.argsort(place[part], kind="stable")]
    lengths = np.bincount(part, minlength=parts.number)
    leading = np.empty(parts.number, np.int64)
    leading[np.lexsort((place, -lengths, group))] = np.arange(parts.number, dtype=np.int64)
    by_part = base[np.argsort(leading[part], kind="stable")]
    times = _times(program, by_part, group[parts.of_operation], parts.of_operation)
    keys = group[parts.of_operation[by_place]] * (size + 1) + times[by_place]
    return by_place[np.argsort(keys, kind="stable")]


@called_from_python
def _times(program, by_part, in_group, in_part):
    """When an operation happens in its group: the clock ticks with the leader, others go as soon as they can.

    A follower can go when the leader, or whoever was first, has loaded what they share.
    """
    times = np.zeros(len(by_part), np.int64)
    of_value = np.zeros(len(program.weights), np.int64)
    touched = np.full(len(program.weights), -1, np.int64)
    clock = 0
    group = leader = -1
    for operation in by_part:
        if in_group[operation] != group:
            group, leader, clock = in_group[operation], in_part[operation], 0
        target = program.targets[operation]
        first, last = program.operand_starts[operation], program.operand_starts[operation + 1]
        if in_part[operation] == leader:
            clock += 1
            time = clock
        else:
            time = of_value[target] if program.partial else 0
            for value in program.operands[first:last]:
                if program.makers[value] > 0 or touched[value] == group:
                    time = max(time, of_value[value])
        for value in program.operands[first:last]:
            if program.makers[value] == 0 and touched[value] != group:
                touched[value] = group
                of_value[value] = time
        times[operation] = time
        of_value[target] = time
    _postpone(program, by_part, times)
    return times


@compiled
def _postpone(program, by_part, times):
    """Operations on inputs alone can go early, and should not: they wait for whoever needs what they make."""
    for index in range(len(by_part) - 1, -1, -1):
        operation = by_part[index]
        target = program.targets[operation]
        ready_early = program.user_starts[target] < program.user_starts[target + 1]
        for value in program.operands[program.operand_starts[operation] : program.operand_starts[operation + 1]]:
            ready_early = ready_early and program.makers[value] == 0
        if ready_early:
            soonest = _NEVER
            for user in program.users[program.user_starts[target] : program.user_starts[target + 1]]:
                soonest = min(soonest, times[user])
            times[operation] = max(times[operation], soonest)
