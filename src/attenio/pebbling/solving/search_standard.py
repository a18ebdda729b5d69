"""Positions of the standard game, in which values may be computed again, and what can follow them.

A position is what is red and what has been stored (inputs always are). As in the one-shot game a step deletes what has
to go, loads the missing parents of one vertex and computes it; a value that was never stored may be stored as it is
deleted, or not. Storing earlier than that gains nothing: until then the red pebble serves wherever the blue one would.
Computed outputs are stored at once, since they have to be some time.

**What is dropped.** A value is *useful* while a path leads from it to an output not yet stored. Pebbles on useless
values are dropped. So is a red pebble on d if all that usefully needs d is one vertex v, v is red and not heavier; and
a blue one if v is blue and not heavier; and so along a chain of such vertices. Proof: d serves only to compute v. Play
any continuation with v's pebble in the place of d's: store v when d is stored, delete it when d is deleted, load it
when d is loaded and v is not red. When the continuation computes v from d, v is there. A pebble that d gets later by
being computed again is played as it is. The room and the price of v are never more than those of d.

**Forced steps.** A vertex v is computed at once when its parents are red and there is room, and either

(a) v is an output that nothing else useful needs: it is stored and gone;
(b) some parent d, not lighter than v, is usefully needed by v alone: v takes its part, as in the proof above. (Should
    the continuation delete d and load it again, v is deleted and d loaded, just as in the continuation.) Or
(c) it fits beside what is red and would not be dropped: it can be deleted again for nothing, so it cannot hurt.

Inputs that v alone usefully needs may be loaded for it if v must be computed in any case: then they must be loaded.
"""

from typing import Any

import numpy as np

from attenio.pebbling.solving.encoding import COUNT, HEADER, RED, SLIDING
from attenio.pebbling.solving.search_bits import (
    NONE,
    ONE,
    add,
    compiled,
    fact,
    has,
    is_input,
    is_output,
    lowest,
    remove,
    weigh,
    words_of,
)
from attenio.pebbling.solving.search_certain import analyse, certain_words
from attenio.pebbling.solving.search_evictions import (
    DELETED,
    EXTRA,
    LIMIT,
    MADE,
    PAID,
    PRICE,
    TO,
    choose,
    list_evictable,
)

__all__ = ["do_standard", "drop_standard", "expand_standard", "settle_standard"]


@compiled
def _only_use(game: Any, low: Any, high: Any, vertex: Any) -> Any:
    """The one useful child, or -1 when there are several or none."""
    low &= game[vertex, 2]
    high &= game[vertex, 3]
    if low and not high and low & (low - ONE) == NONE:
        return lowest(low)
    if high and not low and high & (high - ONE) == NONE:
        return 64 + lowest(high)
    return -1


@compiled
def _covered(game: Any, s: Any, low: Any, high: Any, vertex: Any) -> Any:
    """Whether all that usefully needs a vertex is one not heavier, and that is red or covered itself."""
    while True:
        child = _only_use(game, low, high, vertex)
        if child < 0 or words_of(game, child) > words_of(game, vertex):
            return False
        if has(s, 0, child):
            return True
        vertex = child


@compiled
def settle_standard(game: Any, s: Any, log: Any) -> Any:
    """Drop what is useless and make forced steps until there are none; how many were made and what they cost."""
    steps = cost = 0
    found = True
    while found:
        found = False
        low, high, must_low, must_high = analyse(game, s)
        _drop_useless(game, s, low, high)
        if steps > 0:
            log[steps - 1, 2], log[steps - 1, 3] = s[0], s[1]
        # Leaving a forced step out is no mistake, so the log's length may end them.
        if steps == len(log):
            break
        for half in range(2):
            word = (low if half == 0 else high) & ~s[half] & ~game[HEADER, half]
            must = (must_low if half == 0 else must_high) & ~s[2 + half]
            while word and not found:
                bit = word & (~word + ONE)
                vertex = 64 * half + lowest(word)
                word &= word - ONE
                place = _forced(game, s, vertex, must & bit != NONE, low, high)
                if place != -2:
                    cost += do_standard(game, s, vertex)
                    if place >= 0:
                        remove(s, 0, place)
                    log[steps, 0], log[steps, 1] = vertex, place
                    steps += 1
                    found = True
    return steps, cost


@compiled
def drop_standard(game: Any, s: Any) -> Any:
    """Drop what is useless."""
    low, high, _, _ = analyse(game, s)
    _drop_useless(game, s, low, high)


@compiled
def _drop_useless(game: Any, s: Any, low: Any, high: Any) -> Any:
    s[0] &= low
    s[1] &= high
    s[2] &= low | game[HEADER, 2]
    s[3] &= high | game[HEADER, 3]
    for half in range(2):
        word = s[half] | (s[2 + half] & ~game[HEADER, 2 + half])
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            if _covered(game, s, low, high, vertex):
                remove(s, 0, vertex)
            child = _only_use(game, low, high, vertex)
            lighter = child >= 0 and words_of(game, child) <= words_of(game, vertex)
            if lighter and has(s, 2, child) and not is_output(game, vertex):
                remove(s, 2, vertex)


@compiled
def _forced(game: Any, s: Any, vertex: Any, must: Any, low: Any, high: Any) -> Any:
    """The parent whose place a forced vertex takes, -1 if it has its own, -2 if it is not forced."""
    if _covered(game, s, low, high, vertex):
        return -2
    own = words_of(game, vertex)
    sink = (game[vertex, 2] & low) | (game[vertex, 3] & high) == NONE
    room = fact(game, RED) - weigh(game, s[0], s[1])
    ready = True
    place, placed = -1, 0
    for half in range(2):
        word = game[vertex, half]
        while word:
            parent = 64 * half + lowest(word)
            word &= word - ONE
            alone = _only_use(game, low, high, parent) == vertex
            if not has(s, 0, parent):
                if not (alone and must and is_input(game, parent)):
                    return -2
                room -= words_of(game, parent)
                ready = False
            elif alone and words_of(game, parent) > placed:
                place, placed = parent, words_of(game, parent)
    if ready and room >= own:
        return -1
    if room < 0 or not (sink or placed >= own):
        return -2
    if room >= own:
        return -1
    return place if fact(game, SLIDING) and room + placed >= own else -2


@compiled
def do_standard(game: Any, s: Any, vertex: Any) -> Any:
    """Load the missing parents, compute the vertex, store it if it is an output never stored; what that costs."""
    low, high = game[vertex, 0], game[vertex, 1]
    cost = weigh(game, low & ~s[0], high & ~s[1])
    s[0] |= low
    s[1] |= high
    add(s, 0, vertex)
    if is_output(game, vertex) and not has(s, 2, vertex):
        add(s, 2, vertex)
        cost += words_of(game, vertex)
    return cost


@compiled
def expand_standard(game: Any, room: Any, s: Any) -> Any:
    """List the positions one step away at the prices asked for; how many, or -1 for lack of room."""
    low, high, _, _ = analyse(game, s)
    for half in range(2):
        word = s[half]
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            saved = is_input(game, vertex) or has(s, 2, vertex)
            room.numbers[PRICE, vertex] = 0
            room.numbers[EXTRA, vertex] = 0 if saved else words_of(game, vertex)
    made = 0
    red = weigh(game, s[0], s[1])
    for vertex in range(fact(game, COUNT)):
        held = is_input(game, vertex) or has(s, 0, vertex)
        if held or not ((low if vertex < 64 else high) >> np.uint64(vertex & 63)) & ONE:
            continue
        up, down = game[vertex, 0], game[vertex, 1]
        if (up & ~(s[0] | s[2] | game[HEADER, 0])) | (down & ~(s[1] | s[3] | game[HEADER, 1])) != NONE:
            continue
        if _covered(game, s, low, high, vertex):
            continue
        own, loads = words_of(game, vertex), weigh(game, up & ~s[0], down & ~s[1])
        before = red + loads - fact(game, RED)
        need, place = before + own, -1
        room.numbers[LIMIT, PAID] = loads
        items = list_evictable(game, room, s[0] & ~up, s[1] & ~down)
        sets = choose(game, room, items, need)
        made = _emit(game, room, s, vertex, place, sets)
        if made < 0:
            return -1
        for parent in range(vertex if fact(game, SLIDING) else 0):
            less = max(before, before + own - words_of(game, parent))
            if less < need and has(game[vertex], 0, parent):
                sets = choose(game, room, items, less)
                made = _emit(game, room, s, vertex, parent, sets)
                if made < 0:
                    return -1
    return made


@compiled
def _emit(game: Any, room: Any, s: Any, vertex: Any, parent: Any, sets: Any) -> Any:
    if sets < 0:
        return -1
    made = room.numbers[LIMIT, MADE]
    # The parent whose place is taken may be stored first, like anything that is deleted.
    choices = 2 if parent >= 0 and has(s, 0, parent) and room.numbers[EXTRA, parent] > 0 else 1
    for row in range(sets):
        for store in range(choices):
            if made == len(room.successors):
                return -1
            then = room.successors[made]
            then[:8] = s
            cost = np.int64(room.evictions[row, 4])
            then[11:15] = room.evictions[row, :4]
            for half in range(2):
                then[half] &= ~room.evictions[row, half]
                then[2 + half] |= room.evictions[row, 2 + half]
            if store:
                add(then, 2, parent)
                add(then, DELETED + 2, parent)
                cost += words_of(game, parent)
            do_standard(game, then, vertex)
            cost += words_of(game, vertex) * (is_output(game, vertex) and not has(s, 2, vertex))
            if parent >= 0:
                remove(then, 0, parent)
            # Before the forced steps, which take longer: what is certain now is certain with them.
            if cost + certain_words(game, then) > room.numbers[LIMIT, TO]:
                continue
            _, more = settle_standard(game, then, room.log)
            then[8] = cost + more
            then[9], then[10] = vertex, 1 + parent
            made += 1
    room.numbers[LIMIT, MADE] = made
    return made
