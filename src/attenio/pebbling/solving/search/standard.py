"""Positions of the standard game, in which values may be computed again, and what is forced in them.

A position is what is red, what has been stored (inputs always are), and what of that is *promised*, as explained below.
``standard_steps`` lists what can follow it. Computed outputs are stored at once, since they have to be some
time. Anything else is stored only as it is deleted: until then the red pebble serves wherever the blue one would.

**Promises.** A value that is stored as it is deleted is paid for twice, the store and one load: it is promised. That
load is then free and ends the promise, and until then the value is not computed. Proof: take a cheapest game and a
store of u in it. If u is never loaded after it, the game without the store is cheaper. If u is computed again before it
is loaded, put the store off until u is deleted next; that costs the same, the blue pebble was not used in between, and
u is deleted before it is loaded. A store can be put off only finitely often. So some cheapest game loads every stored
value before it computes it again, and charging the load with the store changes no game's cost.

**What is dropped.** A value is *useful* while a path leads from it to an output not yet stored. Pebbles on useless
values are dropped. So is a red pebble on d if all that usefully needs d is one vertex v, v is red and not heavier; and
a blue one, if not promised, if v is blue and not heavier; and so along a chain of such vertices. Proof: d serves only
to compute v. Play any continuation with v's pebble in the place of d's: store v when d is stored, delete it when d is
deleted, load it when d is loaded and v is not red. When the continuation computes v from d, v is there. A pebble that d
gets later by being computed again is played as it is. The room and the price of v are never more than those of d. (If v
is promised its load is free at the time when that of d is paid for, and paid for, if ever, when the continuation's is
free.)

**Forced steps.** A vertex v that is not promised is computed at once when its parents are red and there is room, and
either

(a) v is an output that nothing else useful needs: it is stored and gone;
(b) some parent d, not lighter than v, is usefully needed by v alone: v takes its part, as in the proof above. (Should
    the continuation delete d and load it again, v is deleted and d loaded, just as in the continuation.) Or
(c) it fits beside what is red and would not be dropped: it can be deleted again for nothing, so it cannot hurt.

Inputs that v alone usefully needs may be loaded for it if v must be computed in any case: then they must be loaded.
"""

from typing import Any

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.solving.search.bits import (
    NONE,
    ONE,
    add,
    fact,
    has,
    is_input,
    is_output,
    lowest,
    remove,
    weigh,
    words_of,
)
from attenio.pebbling.solving.search.certain import analyse
from attenio.pebbling.solving.search.encoding import HEADER, RED, SLIDING


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
def covered(game: Any, s: Any, low: Any, high: Any, vertex: Any) -> Any:
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
    forced = True
    while forced:
        forced = False
        low, high, must_low, must_high = analyse(game, s)
        _drop_useless(game, s, low, high)
        if steps > 0:
            log[steps - 1, 2], log[steps - 1, 3] = s[0], s[1]
        # Leaving a forced step out is no mistake, so the log's length may end them.
        if steps == len(log):
            break
        for half in range(2):
            word = (low if half == 0 else high) & ~s[half] & ~s[4 + half] & ~game[HEADER, half]
            must = (must_low if half == 0 else must_high) & ~s[2 + half]
            while word and not forced:
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
                    forced = True
    return steps, cost


@called_from_python
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
    s[4] &= low
    s[5] &= high
    for half in range(2):
        word = s[half] | (s[2 + half] & ~game[HEADER, 2 + half])
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            if covered(game, s, low, high, vertex):
                remove(s, 0, vertex)
            child = _only_use(game, low, high, vertex)
            lighter = child >= 0 and words_of(game, child) <= words_of(game, vertex)
            if lighter and has(s, 2, child) and not (is_output(game, vertex) or has(s, 4, vertex)):
                remove(s, 2, vertex)


@compiled
def _forced(game: Any, s: Any, vertex: Any, must: Any, low: Any, high: Any) -> Any:
    """The parent whose place a forced vertex takes, -1 if it has its own, -2 if it is not forced."""
    if covered(game, s, low, high, vertex):
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


@called_from_python
def do_standard(game: Any, s: Any, vertex: Any) -> Any:
    """Load the missing parents, compute the vertex, store it if it is an output never stored; what that costs."""
    low, high = game[vertex, 0] & ~s[0], game[vertex, 1] & ~s[1]
    cost = weigh(game, low & ~s[4], high & ~s[5])
    s[0] |= low
    s[1] |= high
    # Loads end promises; a red parent may be promised, if the vertex is about to take its place.
    s[4] &= ~low
    s[5] &= ~high
    add(s, 0, vertex)
    if is_output(game, vertex) and not has(s, 2, vertex):
        add(s, 2, vertex)
        cost += words_of(game, vertex)
    return cost
