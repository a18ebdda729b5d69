"""What can follow a position of the standard game.

As in the one-shot game a step deletes what has to go, loads the missing parents of one vertex and computes it. Loading
later than that is impossible, and earlier only takes room. A value never stored is deleted for nothing, to be computed
again if need be, or it is stored and promised (``standard``).

Values are deleted one by one, and a branch ends where what is certain exceeds the limit. What is certain does not ask
how much room there is, and with a value still red one can do all that one can without it: so it is certain after
further deletions too. As everywhere (``evictions``) only sets are tried of which no member could stay: items
come heaviest first, and a set is complete when it first frees enough.
"""

from typing import Any

from attenio.pebbling.compiled import compiled
from attenio.pebbling.solving.search.bits import (
    NONE,
    ONE,
    add,
    copy_words,
    fact,
    has,
    is_input,
    lowest,
    remove,
    weigh,
    words_of,
)
from attenio.pebbling.solving.search.certain import analyse, certain_words
from attenio.pebbling.solving.search.encoding import HEADER, POSITION_WORDS, RED, SLIDING
from attenio.pebbling.solving.search.evictions import (
    AT,
    COST,
    DELETED,
    DOING,
    DONE,
    FRESH,
    INTO,
    ITEM,
    LIMIT,
    LISTED,
    NEXT,
    OPTION,
    PAID,
    PLACE,
    REST,
    TO,
    list_evictable,
)
from attenio.pebbling.solving.search.standard import covered, do_standard, settle_standard

# Rows of Scratch.positions: after the deletions so far, and after the step with them.
_NOW, _AFTER = 0, 1


@compiled
def expand_standard(game: Any, room: Any, s: Any) -> Any:
    """List the positions one step away within the limit; how many, or -1 for lack of room."""
    low, high, _, _ = analyse(game, s)
    for half in range(2):
        word = (low if half == 0 else high) & ~s[half] & ~s[4 + half] & ~game[HEADER, half]
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            up, down = game[vertex, 0], game[vertex, 1]
            if (up & ~(s[0] | s[2] | game[HEADER, 0])) | (down & ~(s[1] | s[3] | game[HEADER, 1])) != NONE:
                continue
            if not covered(game, s, low, high, vertex) and not _list_steps(game, room, s, vertex):
                return -1
    return room.numbers[LIMIT, LISTED]


@compiled
def _list_steps(game: Any, room: Any, s: Any, vertex: Any) -> Any:
    """List the steps that compute a vertex, in a place of its own or in that of a parent; False if they do not fit."""
    up, down, own = game[vertex, 0], game[vertex, 1], words_of(game, vertex)
    before = weigh(game, s[0] | up, s[1] | down) - fact(game, RED)
    items = list_evictable(game, room, s[0] & ~up, s[1] & ~down)
    room.numbers[LIMIT, DOING], room.numbers[LIMIT, INTO] = vertex, -1
    if not _choose_store(game, room, s, items, before + own):
        return False
    if not fact(game, SLIDING):
        return True
    for half in range(2):
        word = game[vertex, half]
        while word:
            parent = 64 * half + lowest(word)
            word &= word - ONE
            less = max(before, before + own - words_of(game, parent))
            room.numbers[LIMIT, INTO] = parent
            if less < before + own and not _choose_store(game, room, s, items, less):
                return False
    return True


@compiled
def _choose_store(game: Any, room: Any, s: Any, items: Any, need: Any) -> Any:
    """Like anything that is deleted, the parent whose place is taken may be stored first."""
    place = room.numbers[LIMIT, INTO]
    storable = place >= 0 and has(s, 0, place) and not (is_input(game, place) or has(s, 2, place))
    for stored in range(2 if storable else 1):
        copy_words(s, room.positions[_NOW], POSITION_WORDS)
        room.numbers[LIMIT, PAID] = 0
        if stored:
            _promise(game, room, place)
        if _within(game, room) and not _delete(game, room, s, items, need):
            return False
    return True


@compiled
def _promise(game: Any, room: Any, vertex: Any) -> Any:
    add(room.positions[_NOW], 2, vertex)
    add(room.positions[_NOW], 4, vertex)
    room.numbers[LIMIT, PAID] += 2 * words_of(game, vertex)


@compiled
def _step(game: Any, room: Any, then: Any) -> Any:
    """Make the step after the deletions so far; what both cost."""
    copy_words(room.positions[_NOW], then, POSITION_WORDS)
    cost = room.numbers[LIMIT, PAID] + do_standard(game, then, room.numbers[LIMIT, DOING])
    place = room.numbers[LIMIT, INTO]
    if place >= 0:
        remove(then, 0, place)
    return cost


@compiled
def _within(game: Any, room: Any) -> Any:
    """Whether what is certain with the deletions so far stays within the limit."""
    then = room.positions[_AFTER]
    cost = _step(game, room, then)
    total = cost + certain_words(game, then)
    if total <= room.numbers[LIMIT, TO]:
        return True
    room.numbers[LIMIT, NEXT] = min(room.numbers[LIMIT, NEXT], total)
    return False


@compiled
def _delete(game: Any, room: Any, s: Any, items: Any, need: Any) -> Any:
    """Go through the sets of items that free enough, each item stored or not; False when the successors are full."""
    now, numbers = room.positions[_NOW], room.numbers
    if need <= 0:
        return _emit(game, room, s)
    depth = freed = 0
    numbers[AT, 0], numbers[FRESH, 0] = 0, 1
    while depth >= 0:
        at = numbers[AT, depth]
        if numbers[FRESH, depth]:
            numbers[FRESH, depth] = numbers[OPTION, depth] = 0
        else:
            item = numbers[ITEM, at]
            add(now, 0, item)
            freed -= words_of(game, item)
            if numbers[OPTION, depth]:
                remove(now, 2, item)
                remove(now, 4, item)
                numbers[LIMIT, PAID] -= 2 * words_of(game, item)
            if numbers[OPTION, depth] or is_input(game, item) or has(now, 2, item):
                numbers[OPTION, depth] = 0
                at += 1
                numbers[AT, depth] = at
            else:
                numbers[OPTION, depth] = 1
        if at >= items or freed + numbers[REST, at] < need:
            depth -= 1
            continue
        item = numbers[ITEM, at]
        remove(now, 0, item)
        freed += words_of(game, item)
        if numbers[OPTION, depth]:
            _promise(game, room, item)
        if not _within(game, room):
            continue
        if freed < need:
            depth += 1
            numbers[AT, depth], numbers[FRESH, depth] = at + 1, 1
        elif not _emit(game, room, s):
            return False
    return True


@compiled
def _emit(game: Any, room: Any, s: Any) -> Any:
    """List the step after the deletions so far, with what is forced after it."""
    listed = room.numbers[LIMIT, LISTED]
    if listed == len(room.successors):
        return False
    now, then = room.positions[_NOW], room.successors[listed]
    cost = _step(game, room, then)
    for half in range(2):
        then[DELETED + half] = s[half] & ~now[half]
        then[DELETED + 2 + half] = now[2 + half] & ~s[2 + half]
    _, more = settle_standard(game, then, room.log)
    then[COST] = cost + more
    then[DONE], then[PLACE] = room.numbers[LIMIT, DOING], 1 + room.numbers[LIMIT, INTO]
    room.numbers[LIMIT, LISTED] = listed + 1
    return True
