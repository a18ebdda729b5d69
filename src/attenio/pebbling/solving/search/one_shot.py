"""Positions of the one-shot game and what can follow them.

A position is what is red, which red values also lie in slow memory (inputs always do), and what has been computed.
It is reached by *steps*: delete what has to go, load the missing parents of one vertex, compute it. Loading later than
that is impossible, and earlier only takes room. A value that is deleted while a vertex still needs it must be in slow
memory, so it is stored at that moment if it never was, and it will be loaded again. A position therefore carries as its
cost what is certain: the compulsory words, the weight of each such deletion for the load to come, and the weight again
if it had to be stored. Every computed output is stored at once, since it has to be stored some time.

Values that nothing needs any more are dropped: that frees room and costs nothing.

**Forced steps.** A vertex v is computed at once, without trying anything else, when there is room, all its parents are
red or can be loaded for v alone (v is the last to need them, so that this load is to come anyway), and either

(a) nothing needs v: it is stored and gone, and its parents can only have become free, or
(b) among the red parents that v is the last to need, those at least as heavy as v, call them D, cost together as much
    to delete (weight, and again if not stored) as v does (twice its weight; once if v is an output, stored anyway).

Proof. Take a best continuation; it computes v at some time t. Compute v now instead, and until t keep v red exactly
while the continuation has any of D red: v takes no more room than that pebble, and the other parents that v frees none.
When the last of D is deleted, delete v (storing it the first time); when one is loaded again, load v. If that happens k
times, the continuation has loaded every member of D after the last time, something at least as heavy as v after each
earlier one, and stored those never stored before: at least the price of one deletion of D plus (k - 1) times the weight
of v, which is what v cost. At t all parents are red, so v is, and the games are the same from there. In case (a) there
is nothing to keep.

**Which of two to delete.** If x is in slow memory too, y weighs the same, and every vertex that still needs x is, or
has among its ancestors, a vertex not yet computed that needs y, then deleting y and keeping x is no better than
deleting x and keeping y. Proof: y is loaded again before x is used. Delete x instead, and load x when y would be
loaded: then both are red as before. Should x be deleted before that, delete y then. Storing x was free and storing y,
if it comes, comes later. The relation is transitive; of two that precede each other the one with the smaller number is
deleted.
"""

from typing import Any

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.solving.search.bits import (
    NONE,
    ONE,
    add,
    copy_words,
    fact,
    has,
    is_input,
    is_output,
    lowest,
    remove,
    weigh,
    words_of,
)
from attenio.pebbling.solving.search.encoding import COUNT, HEADER, POSITION_WORDS, RED, SLIDING
from attenio.pebbling.solving.search.evictions import DELETED, EXTRA, LIMIT, LISTED, PAID, PRICE, choose, list_evictable


@compiled
def settle_one_shot(game: Any, s: Any, log: Any) -> Any:
    """Drop what nothing needs and make forced steps until there are none; how many were made."""
    _drop_unneeded(game, s)
    steps = 0
    forced = True
    while forced:
        forced = False
        used = weigh(game, s[0], s[1])
        for vertex in range(fact(game, COUNT)):
            if is_input(game, vertex) or has(s, 4, vertex) or not _ready(game, s, vertex):
                continue
            parent = _forced(game, s, vertex, used)
            if parent == -2:
                continue
            do_one_shot(game, s, vertex)
            log[steps, 0], log[steps, 1] = vertex, parent
            log[steps, 2], log[steps, 3] = s[0], s[1]
            steps += 1
            used = weigh(game, s[0], s[1])
            forced = True
    return steps


@compiled
def _drop_unneeded(game: Any, s: Any) -> Any:
    low = high = NONE
    for vertex in range(fact(game, COUNT)):
        if not has(s, 4, vertex):
            low |= game[vertex, 0]
            high |= game[vertex, 1]
    s[0] &= low
    s[1] &= high
    s[2] &= s[0]
    s[3] &= s[1]


@compiled
def _ready(game: Any, s: Any, vertex: Any) -> Any:
    low = game[vertex, 0] & ~(s[4] | game[HEADER, 0])
    high = game[vertex, 1] & ~(s[5] | game[HEADER, 1])
    return low | high == NONE


@compiled
def _last_to_need(game: Any, s: Any, vertex: Any, parent: Any) -> Any:
    low = game[parent, 2] & ~s[4]
    high = game[parent, 3] & ~s[5]
    if vertex < 64:
        return low == ONE << np.uint64(vertex) and high == NONE
    return low == NONE and high == ONE << np.uint64(vertex - 64)


@compiled
def _forced(game: Any, s: Any, vertex: Any, used: Any) -> Any:
    """The parent whose place a forced vertex takes, -1 if it has its own, -2 if it is not forced."""
    own = words_of(game, vertex)
    room = fact(game, RED) - used
    place, placed, worth = -1, 0, 0
    for half in range(2):
        word = game[vertex, half]
        while word:
            parent = 64 * half + lowest(word)
            word &= word - ONE
            last = _last_to_need(game, s, vertex, parent)
            weight = words_of(game, parent)
            if not has(s, 0, parent):
                if not last:
                    return -2
                room -= weight
            if last:
                if weight > placed:
                    place, placed = parent, weight
                if weight >= own and has(s, 0, parent):
                    saved = is_input(game, parent) or has(s, 2, parent)
                    worth += weight if saved else 2 * weight
    if room < 0:
        return -2
    if room >= own:
        place = -1
    elif not fact(game, SLIDING) or room + placed < own:
        return -2
    if game[vertex, 2] | game[vertex, 3] == NONE:
        return place
    return place if worth >= (own if is_output(game, vertex) else 2 * own) else -2


@called_from_python
def do_one_shot(game: Any, s: Any, vertex: Any) -> Any:
    """Load the missing parents, compute the vertex, drop what nothing needs any more."""
    for half in range(2):
        parents = game[vertex, half]
        s[2 + half] |= parents & ~s[half] & ~game[HEADER, half]
        s[half] |= parents
    add(s, 4, vertex)
    if game[vertex, 2] | game[vertex, 3] != NONE:
        add(s, 0, vertex)
        if is_output(game, vertex):
            add(s, 2, vertex)
    for half in range(2):
        word = game[vertex, half]
        while word:
            parent = 64 * half + lowest(word)
            word &= word - ONE
            if (game[parent, 2] & ~s[4]) | (game[parent, 3] & ~s[5]) == NONE:
                remove(s, 0, parent)
                remove(s, 2, parent)


@compiled
def expand_one_shot(game: Any, room: Any, s: Any) -> Any:
    """List the positions one step away at the prices asked for; how many, or -1 for lack of room."""
    for half in range(2):
        word = s[half]
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            room.numbers[PRICE, vertex] = _price(game, s, vertex)
            room.numbers[EXTRA, vertex] = 0
    listed = 0
    red = weigh(game, s[0], s[1])
    for vertex in range(fact(game, COUNT)):
        if is_input(game, vertex) or has(s, 4, vertex) or not _ready(game, s, vertex):
            continue
        low, high = game[vertex, 0], game[vertex, 1]
        own = words_of(game, vertex)
        before = red + weigh(game, low & ~s[0], high & ~s[1]) - fact(game, RED)
        need = before + own
        if fact(game, SLIDING):
            need = max(before, before + own - _heaviest_freed(game, s, vertex))
        items = list_evictable(game, room, s[0] & ~low, s[1] & ~high)
        room.numbers[LIMIT, PAID] = 0
        sets = choose(game, room, items, need)
        listed = _emit(game, room, s, vertex, np.int64(-1), sets)
        if listed < 0 or not fact(game, SLIDING):
            if listed < 0:
                return -1
            continue
        # A parent that is still needed may give up its place too: it is deleted by it, and priced as such.
        for parent in range(vertex):
            if not has(game[vertex], 0, parent) or _last_to_need(game, s, vertex, parent):
                continue
            less = max(before, before + own - words_of(game, parent))
            price = _price(game, s, parent) if has(s, 0, parent) else words_of(game, parent)
            if less < need:
                room.numbers[LIMIT, PAID] = price
                sets = choose(game, room, items, less)
                listed = _emit(game, room, s, vertex, parent, sets)
                if listed < 0:
                    return -1
    return listed


@compiled
def _price(game: Any, s: Any, vertex: Any) -> Any:
    saved = is_input(game, vertex) or has(s, 2, vertex)
    return words_of(game, vertex) if saved else 2 * words_of(game, vertex)


@compiled
def _heaviest_freed(game: Any, s: Any, vertex: Any) -> Any:
    heaviest = 0
    for half in range(2):
        word = game[vertex, half]
        while word:
            parent = 64 * half + lowest(word)
            word &= word - ONE
            if words_of(game, parent) > heaviest and _last_to_need(game, s, vertex, parent):
                heaviest = words_of(game, parent)
    return heaviest


@compiled
def _emit(game: Any, room: Any, s: Any, vertex: Any, parent: Any, sets: Any) -> Any:
    if sets < 0:
        return -1
    listed = room.numbers[LIMIT, LISTED]
    for row in range(sets):
        if _wasteful(game, room, s, vertex, room.evictions[row]):
            continue
        if listed == len(room.successors):
            return -1
        then = room.successors[listed]
        copy_words(s, then, POSITION_WORDS)
        price = np.int64(room.evictions[row, 4])
        for half in range(2):
            gone = room.evictions[row, half]
            then[half] &= ~gone
            then[2 + half] &= ~gone
        do_one_shot(game, then, vertex)
        if parent >= 0:
            remove(then, 0, parent)
            remove(then, 2, parent)
        settle_one_shot(game, then, room.log)
        then[8] = price
        then[9], then[10] = vertex, 1 + parent
        for word in range(4):
            then[DELETED + word] = room.evictions[row, word]
        listed += 1
    room.numbers[LIMIT, LISTED] = listed
    return listed


@compiled
def _wasteful(game: Any, room: Any, s: Any, vertex: Any, evicted: Any) -> Any:
    """Whether a deleted value stands before a kept one that should have been deleted in its stead."""
    for half in range(2):
        staying = s[half] & ~evicted[half] & ~game[vertex, half] & (game[HEADER, half] | s[2 + half])
        while staying:
            later = 64 * half + lowest(staying)
            staying &= staying - ONE
            for other in range(2):
                word = evicted[other]
                while word:
                    sooner = 64 * other + lowest(word)
                    word &= word - ONE
                    if words_of(game, later) != words_of(game, sooner) or not _precedes(game, s, sooner, later):
                        continue
                    both_saved = room.numbers[PRICE, sooner] == words_of(game, sooner)
                    if later < sooner or not both_saved or not _precedes(game, s, later, sooner):
                        return True
    return False


@compiled
def _precedes(game: Any, s: Any, sooner: Any, later: Any) -> Any:
    """Whether ``sooner`` is needed, at the latest together with it, before ``later`` can be used."""
    low, high = game[sooner, 2] & ~s[4], game[sooner, 3] & ~s[5]
    for half in range(2):
        word = game[later, 2 + half] & ~s[4 + half]
        while word:
            user = 64 * half + lowest(word)
            word &= word - ONE
            if (game[user, 4] & low) | (game[user, 5] & high) == NONE:
                return False
    return True
