"""Positions of the partial game, in which sums are filled edge by edge, and what can follow them.

A position is what is red, which finished red values also lie in slow memory (inputs always do), and which edges are
marked. A step deletes what has to go, loads the two ends of one edge where they are not red, and marks it. As in the
one-shot game deleting what is still needed costs the load to come, and a store before unless it was stored since it
last changed; a value that is loaded before it is finished is loaded to be changed, so only finished ones are ever
unchanged.
Finished outputs are stored at once. Values that are finished, stored if they are outputs, and used by every child are
dropped.

**Forced steps**, each made as soon as there is room for what it adds:

(a) An edge is marked when both ends are red and the first is finished: the second has changed since it was stored
    anyway, and every mark is owed.
(b) A finished value whose unmarked edges all lead to red vertices is loaded, and gone after marking them: that load and
    those marks are owed.
(c) A vertex is loaded or begun when all its unmarked edges come from red finished vertices and all its children are
    red: it is finished (stored if it is an output), passed on and gone. A load was owed if it had been begun.
(d) A vertex v not yet begun is begun if D, the red finished values not lighter than v whose only unmarked edge leads to
    v, cost together at least as much to delete as v, twice its weight. Proof: as for the one-shot game, until the
    continuation begins v, which then is there or is loaded, at the price of a load of D that is yet to come; from then
    on v is wherever the continuation has it.
"""

from typing import Any

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.solving.search.bits import (
    NONE,
    ONE,
    add,
    copy_words,
    edge_from,
    edge_to,
    fact,
    has,
    is_input,
    is_output,
    lowest,
    remove,
    weigh,
    words_of,
)
from attenio.pebbling.solving.search.encoding import COUNT, EDGES, IN_EDGES, OUT_EDGES, POSITION_WORDS, RED
from attenio.pebbling.solving.search.evictions import DELETED, EXTRA, LIMIT, LISTED, PRICE, choose, list_evictable


@compiled
def _open(game: Any, edges: Any, s: Any, vertex: Any) -> Any:
    """Whether some of a vertex's edges are not marked."""
    unmarked = NONE
    for word in range(4):
        unmarked |= game[vertex, edges + word] & ~s[4 + word]
    return unmarked != NONE


@compiled
def _begun(game: Any, s: Any, vertex: Any) -> Any:
    marked = NONE
    for word in range(4):
        marked |= game[vertex, IN_EDGES + word] & s[4 + word]
    return marked != NONE


@compiled
def _mark(game: Any, s: Any, edge: Any, log: Any, steps: Any) -> Any:
    """Mark an edge between red vertices; drop what is done with."""
    source, target = edge_from(game, edge), edge_to(game, edge)
    add(s, 4, edge)
    if not _open(game, OUT_EDGES, s, source):
        remove(s, 0, source)
        remove(s, 2, source)
    if not _open(game, IN_EDGES, s, target):
        if is_output(game, target):
            add(s, 2, target)
        if not _open(game, OUT_EDGES, s, target):
            remove(s, 0, target)
            remove(s, 2, target)
    log[steps, 0], log[steps, 1] = source, target
    log[steps, 2], log[steps, 3] = s[0], s[1]
    return steps + 1


@compiled
def _mark_into(game: Any, s: Any, vertex: Any, log: Any, steps: Any) -> Any:
    """Mark every edge from a red finished vertex into a red one."""
    for word in range(4):
        edges = game[vertex, IN_EDGES + word] & ~s[4 + word]
        while edges:
            edge = 64 * word + lowest(edges)
            edges &= edges - ONE
            source = edge_from(game, edge)
            if has(s, 0, source) and not _open(game, IN_EDGES, s, source):
                steps = _mark(game, s, edge, log, steps)
    return steps


@compiled
def settle_partial(game: Any, s: Any, log: Any) -> Any:
    """Make forced steps until there are none; how many were made."""
    steps: Any = np.int64(0)
    before = -1
    while before != steps:
        before = steps
        for vertex in range(fact(game, COUNT)):
            red = has(s, 0, vertex)
            if _open(game, IN_EDGES, s, vertex):
                if not red and _worth_beginning(game, s, vertex):
                    add(s, 0, vertex)
                    red = True
                if red:
                    steps = _mark_into(game, s, vertex, log, steps)
            elif not red and _open(game, OUT_EDGES, s, vertex) and _children_red(game, s, vertex):
                if weigh(game, s[0], s[1]) + words_of(game, vertex) > fact(game, RED):
                    continue
                add(s, 0, vertex)
                for word in range(4):
                    edges = game[vertex, OUT_EDGES + word] & ~s[4 + word]
                    while edges:
                        edge = 64 * word + lowest(edges)
                        edges &= edges - ONE
                        steps = _mark(game, s, edge, log, steps)
    return steps


@compiled
def _children_red(game: Any, s: Any, vertex: Any) -> Any:
    """Whether every unmarked edge leads to a red vertex."""
    for word in range(4):
        edges = game[vertex, OUT_EDGES + word] & ~s[4 + word]
        while edges:
            if not has(s, 0, edge_to(game, 64 * word + lowest(edges))):
                return False
            edges &= edges - ONE
    return True


@compiled
def _worth_beginning(game: Any, s: Any, vertex: Any) -> Any:
    """Whether rule (c) or (d) brings an unfinished vertex into fast memory, and there is room."""
    own = words_of(game, vertex)
    all_red = True
    worth = 0
    for word in range(4):
        edges = game[vertex, IN_EDGES + word] & ~s[4 + word]
        while edges:
            edge = 64 * word + lowest(edges)
            edges &= edges - ONE
            source = edge_from(game, edge)
            if not has(s, 0, source) or _open(game, IN_EDGES, s, source):
                all_red = False
                continue
            weight = words_of(game, source)
            if weight >= own and _only_open_edge(game, s, source, edge):
                saved = is_input(game, source) or has(s, 2, source)
                worth += weight if saved else 2 * weight
    useful = (all_red and _children_red(game, s, vertex)) or (worth >= 2 * own and not _begun(game, s, vertex))
    return useful and weigh(game, s[0], s[1]) + own <= fact(game, RED)


@compiled
def _only_open_edge(game: Any, s: Any, vertex: Any, edge: Any) -> Any:
    for word in range(4):
        edges = game[vertex, OUT_EDGES + word] & ~s[4 + word]
        if edge >> 6 == word:
            edges &= edges - ONE
        if edges != NONE:
            return False
    return True


@compiled
def expand_partial(game: Any, room: Any, s: Any) -> Any:
    """List the positions one step away at the prices asked for; how many, or -1 for lack of room."""
    for half in range(2):
        word = s[half]
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            saved = is_input(game, vertex) or has(s, 2, vertex)
            room.numbers[PRICE, vertex] = words_of(game, vertex) if saved else 2 * words_of(game, vertex)
            room.numbers[EXTRA, vertex] = 0
    listed = 0
    red = weigh(game, s[0], s[1])
    for edge in range(fact(game, EDGES)):
        source, target = edge_from(game, edge), edge_to(game, edge)
        if has(s, 4, edge) or _open(game, IN_EDGES, s, source):
            continue
        need = red - fact(game, RED)
        need += 0 if has(s, 0, source) else words_of(game, source)
        need += 0 if has(s, 0, target) else words_of(game, target)
        low, high = s[0], s[1]
        for end in (source, target):
            if end < 64:
                low &= ~(ONE << np.uint64(end))
            else:
                high &= ~(ONE << np.uint64(end - 64))
        items = list_evictable(game, room, low, high)
        sets = choose(game, room, items, need)
        listed = _emit(game, room, s, edge, sets)
        if listed < 0:
            return -1
    return listed


@called_from_python
def mark_edge(game: Any, s: Any, edge: Any, log: Any) -> Any:
    """Load the ends of an edge where they are not red, and mark it."""
    source, target = edge_from(game, edge), edge_to(game, edge)
    if not has(s, 0, source) and not is_input(game, source):
        add(s, 2, source)
    add(s, 0, source)
    add(s, 0, target)
    _mark(game, s, edge, log, np.int64(0))


@compiled
def _emit(game: Any, room: Any, s: Any, edge: Any, sets: Any) -> Any:
    if sets < 0:
        return -1
    listed = room.numbers[LIMIT, LISTED]
    for row in range(sets):
        if listed == len(room.successors):
            return -1
        then = room.successors[listed]
        copy_words(s, then, POSITION_WORDS)
        for half in range(2):
            then[half] &= ~room.evictions[row, half]
            then[2 + half] &= ~room.evictions[row, half]
        mark_edge(game, then, edge, room.log)
        settle_partial(game, then, room.log)
        then[8] = np.int64(room.evictions[row, 4])
        then[9], then[10] = edge, 1 + -1
        for word in range(4):
            then[DELETED + word] = room.evictions[row, word]
        listed += 1
    room.numbers[LIMIT, LISTED] = listed
    return listed
