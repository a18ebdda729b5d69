"""Which values leave fast memory when room is needed: every smallest set that frees enough.

A schedule loses nothing by deleting as late as it can: a pebble that lies where it could have been deleted can still be
deleted at the same price when its room is needed, and if it was loaded again in the meantime that load is saved. So
only sets are tried of which no member could stay.
"""

from typing import Any, NamedTuple

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.solving.search.bits import ONE, lowest, words_of
from attenio.pebbling.solving.search.encoding import POSITION_WORDS

# Rows of Scratch.numbers; prices and extras are indexed by vertex, the others by place.
ITEM, PRICE, EXTRA, AT, OPTION, FRESH, REST, LIMIT = range(8)
# Places in the last row: prices wanted from, to; what is paid already; the least price met above those wanted;
# successors listed; the vertex of a step and the parent whose place it takes, or -1
FROM, TO, PAID, NEXT, LISTED, DOING, INTO = range(7)
NO_PRICE = 2**60
# Columns of Scratch.evictions: what is deleted (two words), what of it is stored before (two words), the price
EVICTION_COLUMNS = 5
# Columns of Scratch.successors: the position, its added cost, the vertex or edge done, 1 + the parent whose place was
# taken or 0, what was deleted and stored
COST, DONE, PLACE, DELETED = 8, 9, 10, 11
SUCCESSOR_COLUMNS = 15


class Scratch(NamedTuple):
    """Working room of the search: sets of evictions and successors of one position."""

    numbers: Any
    evictions: Any
    successors: Any
    positions: Any  # on the way from a position to its successors
    log: Any  # rows: what was forced (vertex and parent whose place it took or -1; or edge ends), then what is red


def scratch(rows: int, vertices: int, edges: int) -> Scratch:
    """Room for this many sets and successors of one position."""
    return Scratch(
        np.zeros((8, vertices + 7), dtype=np.int64),
        np.zeros((rows, EVICTION_COLUMNS), dtype=np.uint64),
        np.zeros((rows, SUCCESSOR_COLUMNS), dtype=np.uint64),
        np.zeros((2, POSITION_WORDS), dtype=np.uint64),
        np.zeros((4 * vertices + edges + 2, 4), dtype=np.int64),
    )


@compiled
def list_evictable(game: Any, room: Any, low: Any, high: Any) -> Any:
    """List a set of vertices as items, the heaviest first; how many."""
    count = 0
    for half in range(2):
        word = low if half == 0 else high
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            place = count
            while place > 0 and words_of(game, room.numbers[ITEM, place - 1]) < words_of(game, vertex):
                room.numbers[ITEM, place] = room.numbers[ITEM, place - 1]
                place -= 1
            room.numbers[ITEM, place] = vertex
            count += 1
    room.numbers[REST, count] = 0
    for place in range(count - 1, -1, -1):
        room.numbers[REST, place] = room.numbers[REST, place + 1] + words_of(game, room.numbers[ITEM, place])
    return count


@called_from_python
def limit(room: Any, least: Any, most: Any) -> Any:
    """Ask for sets at these prices only."""
    room.numbers[LIMIT, FROM], room.numbers[LIMIT, TO] = least, most
    room.numbers[LIMIT, PAID], room.numbers[LIMIT, NEXT] = 0, NO_PRICE
    room.numbers[LIMIT, LISTED] = 0


@compiled
def choose(game: Any, room: Any, count: Any, need: Any) -> Any:
    """Fill ``evictions`` with the sets of items that free ``need`` words at a price within the limits; how many.

    Items come heaviest first and a set is complete when it first frees enough, so its lightest member, and with it
    every member, is needed. A price above the limits is noted, so that the search knows when to come back. Returns -1
    when the sets do not fit.
    """
    limits = room.numbers[LIMIT]
    price = limits[PAID]
    if price > limits[TO]:
        limits[NEXT] = min(limits[NEXT], price)
        return 0
    if need <= 0:
        _clear(room, 0)
        room.evictions[0, 4] = price
        return 1 if price >= limits[FROM] else 0
    sets = depth = freed = 0
    room.numbers[AT, 0], room.numbers[FRESH, 0] = 0, 1
    while depth >= 0:
        place = room.numbers[AT, depth]
        if room.numbers[FRESH, depth]:
            room.numbers[FRESH, depth] = room.numbers[OPTION, depth] = 0
        else:
            item = room.numbers[ITEM, place]
            freed -= words_of(game, item)
            price -= room.numbers[PRICE, item] + room.numbers[OPTION, depth] * room.numbers[EXTRA, item]
            if room.numbers[OPTION, depth] == 0 and room.numbers[EXTRA, item] > 0:
                room.numbers[OPTION, depth] = 1
            else:
                room.numbers[OPTION, depth] = 0
                place += 1
                room.numbers[AT, depth] = place
        if place >= count or freed + room.numbers[REST, place] < need:
            depth -= 1
            continue
        item = room.numbers[ITEM, place]
        freed += words_of(game, item)
        price += room.numbers[PRICE, item] + room.numbers[OPTION, depth] * room.numbers[EXTRA, item]
        if price > limits[TO]:
            limits[NEXT] = min(limits[NEXT], price)
            continue
        if freed < need:
            depth += 1
            room.numbers[AT, depth], room.numbers[FRESH, depth] = place + 1, 1
            continue
        if price < limits[FROM]:
            continue
        if sets == len(room.evictions):
            return -1
        _keep(room, sets, depth)
        room.evictions[sets, 4] = price
        sets += 1
    return sets


@compiled
def _clear(room: Any, row: Any) -> Any:
    for column in range(EVICTION_COLUMNS):
        room.evictions[row, column] = 0


@compiled
def _keep(room: Any, row: Any, depth: Any) -> Any:
    _clear(room, row)
    for level in range(depth + 1):
        item = room.numbers[ITEM, room.numbers[AT, level]]
        bit = ONE << np.uint64(item & 63)
        room.evictions[row, item >> 6] |= bit
        if room.numbers[OPTION, level]:
            room.evictions[row, 2 + (item >> 6)] |= bit
