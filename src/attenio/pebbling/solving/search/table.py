"""The search itself: positions met, kept once each, taken up in the order of what they must cost in all.

Positions lie in one array in the order in which they were met, with the cost so far and the position they came from; an
open-addressing table finds them. Those not yet taken up wait in one list per total cost (a bucket queue): the next one
is the last of the lowest list, so that of equal totals the search goes deep first and meets an end early.

In the standard game a position has so many successors that most of the work would go into those that cost too much.
There the search has a *ceiling*: what must cost more in all is not kept, only the least such total is noted. When
everything up to the ceiling has been taken up without meeting an end, no game costs less than that total, and the
search begins again with a higher ceiling. The other games instead list the successors of a position price by price.
"""

from typing import Any, NamedTuple

import numpy as np

from attenio.pebbling.compiled import called_from_python, compiled
from attenio.pebbling.solving.search.bits import NONE, ONE, fact
from attenio.pebbling.solving.search.certain import certain_words
from attenio.pebbling.solving.search.encoding import COMPULSORY, COUNT, HEADER, IN_EDGES, VARIANT, Encoded
from attenio.pebbling.solving.search.evictions import COST, LIMIT, NEXT, NO_PRICE, limit
from attenio.pebbling.solving.search.one_shot import expand_one_shot, settle_one_shot
from attenio.pebbling.solving.search.partial import expand_partial, settle_partial
from attenio.pebbling.solving.search.peers import enter_group, group_place, pointless
from attenio.pebbling.solving.search.standard import settle_standard
from attenio.pebbling.solving.search.standard_steps import expand_standard
from attenio.pebbling.solving.search.symmetry import canonical

# Places in Store.state
POSITIONS, WAITING, FREED, LEVEL, BEST, BEST_POSITION, EXPLORED, CEILING, BEYOND, PROVEN = range(10)
# What advance() answers
PAUSED, EXHAUSTED, TABLE_FULL, ROOM_FULL, MEMORY_FULL, CEILING_MET = range(6)

_END = -1
_FIRST_TABLE = 2**16


class Store(NamedTuple):
    """Every position met, and the queue of those not yet taken up."""

    keys: Any
    costs: Any
    origins: Any
    done: Any
    peers: Any  # the next older position that has done the same
    heads: Any  # of each total cost's list
    following: Any
    waiting: Any
    state: Any
    table: Any  # 1 + the number of a position, at the place of its hash
    groups: Any  # 1 + the number of the newest position of a group
    symmetries: Any
    edge_symmetries: Any
    stored: Any
    base: int  # the lowest total cost

    @staticmethod
    def bytes_per_position(words: int) -> int:
        """Memory of one position with its share of queue and table, while the table is being enlarged."""
        return 8 * words + 4 + 4 + 1 + 4 + 8 + 36


def store_for(positions: int, encoded: Encoded, best: int) -> Store:
    """Room for this many positions and totals from the compulsory words to below ``best``; taken as it is written."""
    state = np.zeros(10, dtype=np.int64)
    state[FREED], state[BEST], state[BEST_POSITION] = _END, best, _END
    state[CEILING] = state[BEYOND] = NO_PRICE
    return Store(
        keys=np.empty((positions, len(encoded.stored)), dtype=np.uint64),
        costs=np.empty(positions, dtype=np.int32),
        origins=np.empty(positions, dtype=np.int32),
        done=np.zeros(positions, dtype=np.uint8),
        peers=np.empty(positions, dtype=np.int32),
        heads=np.full(max(1, best - encoded.compulsory), _END, dtype=np.int32),
        following=np.empty(positions, dtype=np.int32),
        waiting=np.empty(positions, dtype=np.int32),
        state=state,
        table=np.zeros(_FIRST_TABLE, dtype=np.int32),
        groups=np.zeros(_FIRST_TABLE, dtype=np.int32),
        symmetries=encoded.symmetries,
        edge_symmetries=encoded.edge_symmetries,
        stored=encoded.stored,
        base=encoded.compulsory,
    )


@called_from_python
def settle(game: Any, s: Any, log: Any) -> Any:
    """Bring a position into its normal form; how many forced steps that took and what they cost."""
    if fact(game, VARIANT) == 0:
        return settle_standard(game, s, log)
    if fact(game, VARIANT) == 1:
        return settle_one_shot(game, s, log), 0
    return settle_partial(game, s, log), 0


@called_from_python
def expand(game: Any, room: Any, s: Any) -> Any:
    """List what can follow a position at the prices asked for; how many, or -1 for lack of room."""
    if fact(game, VARIANT) == 0:
        return expand_standard(game, room, s)
    if fact(game, VARIANT) == 1:
        return expand_one_shot(game, room, s)
    return expand_partial(game, room, s)


@compiled
def _finished(game: Any, s: Any) -> Any:
    if fact(game, VARIANT) == 0:
        return (game[HEADER, 2] & ~s[2]) | (game[HEADER, 3] & ~s[3]) == NONE
    if fact(game, VARIANT) == 1:
        return (game[HEADER, 2] & ~s[4]) | (game[HEADER, 3] & ~s[5]) == NONE
    for vertex in range(fact(game, COUNT)):
        for word in range(4):
            if game[vertex, IN_EDGES + word] & ~s[4 + word] != NONE:
                return False
    return True


@compiled
def _hash(stored: Any, s: Any) -> Any:
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for word in stored:
        mixed = (mixed ^ s[word]) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(32))


@compiled
def _find(store: Any, s: Any) -> Any:
    """The table's place for a position: its own, or the empty one where it belongs."""
    mask = np.uint64(len(store.table) - 1)
    place = _hash(store.stored, s) & mask
    while store.table[place]:
        number = store.table[place] - 1
        same = True
        for column in range(len(store.stored)):
            if store.keys[number, column] != s[store.stored[column]]:
                same = False
                break
        if same:
            break
        place = (place + ONE) & mask
    return place


@compiled
def _push(store: Any, number: Any, total: Any) -> Any:
    entry = store.state[FREED]
    if entry != _END:
        store.state[FREED] = store.following[entry]
    else:
        entry = store.state[WAITING]
        if entry == len(store.waiting):
            return False
        store.state[WAITING] += 1
    store.waiting[entry] = number
    store.following[entry] = store.heads[total - store.base]
    store.heads[total - store.base] = entry
    store.state[LEVEL] = min(store.state[LEVEL], total - store.base)
    return True


@compiled
def offer(game: Any, store: Any, s: Any, cost: Any, origin: Any, least: Any) -> Any:
    """Keep a position that is new or cheaper than before and could lead to a better end; False when memory is full."""
    ahead = certain_words(game, s) if fact(game, VARIANT) == 0 else 0
    total = max(cost + ahead, least)
    if total >= store.state[BEST]:
        return True
    if total > store.state[CEILING]:
        store.state[BEYOND] = min(store.state[BEYOND], total)
        return True
    place = _find(store, s)
    number = store.table[place] - 1
    if number >= 0:
        if store.costs[number] <= cost:
            return True
    else:
        if pointless(game, store, s, cost):
            return True
        number = store.state[POSITIONS]
        if number == len(store.costs):
            return False
        store.state[POSITIONS] += 1
        store.table[place] = number + 1
        for column in range(len(store.stored)):
            store.keys[number, column] = s[store.stored[column]]
        enter_group(store, group_place(game, store, s), number)
    store.costs[number] = cost
    store.origins[number] = origin
    store.done[number] = 0
    if _finished(game, s):
        store.state[BEST], store.state[BEST_POSITION] = cost, number
        return True
    return _push(store, number, total)


@called_from_python
def begin(game: Any, room: Any, store: Any, s: Any) -> Any:
    """Keep the first position."""
    _, cost = settle(game, s, room.log)
    best, trial = np.zeros(8, dtype=np.uint64), np.zeros(8, dtype=np.uint64)
    canonical(store, s, best, trial)
    if fact(game, VARIANT):
        cost = fact(game, COMPULSORY)
    offer(game, store, best, cost, np.int64(_END), store.base)


def begin_again(game: Any, room: Any, store: Store, start: Any, ceiling: int) -> None:
    """Forget every position and keep the first one, with another ceiling."""
    state = store.state
    state[PROVEN] = max(state[PROVEN], state[BEYOND] if state[BEYOND] < NO_PRICE else 0)
    state[POSITIONS] = state[WAITING] = state[LEVEL] = 0
    state[FREED], state[CEILING], state[BEYOND] = _END, ceiling, NO_PRICE
    store.table[:] = store.groups[:] = 0
    store.heads[:] = _END
    begin(game, room, store, start)


def enlarge(game: Any, store: Store) -> Store:
    """The same positions with tables of twice the size."""
    larger = store._replace(table=np.zeros(2 * len(store.table), dtype=np.int32))
    larger = larger._replace(groups=np.zeros(2 * len(store.groups), dtype=np.int32))
    _enter_all(game, larger)
    return larger


@called_from_python
def _enter_all(game: Any, store: Any) -> Any:
    s = np.zeros(8, dtype=np.uint64)
    for number in range(store.state[POSITIONS]):
        for column in range(len(store.stored)):
            s[store.stored[column]] = store.keys[number, column]
        store.table[_find(store, s)] = number + 1
        enter_group(store, group_place(game, store, s), number)


@called_from_python
def advance(game: Any, room: Any, store: Any, steps: Any) -> Any:
    """Take up this many positions, cheapest first, or stop for one of the reasons above."""
    s, best, trial = np.zeros(8, dtype=np.uint64), np.zeros(8, dtype=np.uint64), np.zeros(8, dtype=np.uint64)
    state = store.state
    standard = fact(game, VARIANT) == 0
    for _ in range(steps):
        while state[LEVEL] + store.base < min(state[BEST], 1 + state[CEILING]) and store.heads[state[LEVEL]] == _END:
            state[LEVEL] += 1
        if state[LEVEL] + store.base >= state[BEST]:
            return EXHAUSTED
        if state[LEVEL] + store.base > state[CEILING]:
            return CEILING_MET
        if 3 * (state[POSITIONS] + len(room.successors)) > 2 * len(store.table):
            return TABLE_FULL
        level = state[LEVEL]
        entry = store.heads[level]
        number = store.waiting[entry]
        if not store.done[number]:
            for column in range(len(store.stored)):
                s[store.stored[column]] = store.keys[number, column]
            total = level + store.base
            cost = store.costs[number]
            if standard:
                limit(room, 0, min(state[BEST] - 1, state[CEILING]) - cost)
            else:
                limit(room, total - cost, total - cost)
            count = expand(game, room, s)
            if count < 0:
                return ROOM_FULL
            state[EXPLORED] += 1
            store.done[number] = standard
            store.heads[level] = store.following[entry]
            store.following[entry] = state[FREED]
            state[FREED] = entry
            again = cost + room.numbers[LIMIT, NEXT]
            if standard:
                state[BEYOND] = min(state[BEYOND], again)
            elif again < state[BEST]:
                _push(store, number, again)
            for row in range(count):
                canonical(store, room.successors[row], best, trial)
                if not offer(game, store, best, cost + np.int64(room.successors[row, COST]), number, total):
                    return MEMORY_FULL
        else:
            store.heads[level] = store.following[entry]
            store.following[entry] = state[FREED]
            state[FREED] = entry
    return PAUSED
