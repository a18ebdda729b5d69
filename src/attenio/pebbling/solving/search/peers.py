"""Positions that another one makes pointless.

Let positions A and B have done the same: computed the same vertices, marked the same edges, or, in the standard game,
stored and promised the same values. From A, delete what B does not have red and load what only B has red: that is B,
but for values that B has in slow memory too and A has not. In the one-shot and the partial game a deletion costs its
price (the load to come is in it), a load then costs nothing more, and a value not in slow memory may cost one store
more than in B. In the standard game deletions are free, loads cost their weight (what is red in B is promised in
neither), and only inputs and stored values can be loaded. If A's cost with that on top is no more than B's, no end is
cheaper through B than through A, and B need not be kept. No circle arises: what A does in B's stead comes nearer to the
end with every step.
"""

from typing import Any

import numpy as np

from attenio.pebbling.compiled import compiled
from attenio.pebbling.solving.search.bits import NONE, ONE, fact, weigh
from attenio.pebbling.solving.search.encoding import HEADER, VARIANT

# Peers looked at, the newest first: looking at all would cost more than it saves.
_MOST_PEERS = 48


@compiled
def _group(game: Any, s: Any) -> Any:
    """A number that positions share which have done the same."""
    first = 2 if fact(game, VARIANT) == 0 else 4
    mixed = np.uint64(0x2545F4914F6CDD1D)
    for word in range(first, 6 if first == 2 else 8):
        mixed = (mixed ^ s[word]) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(29))


@compiled
def _same_group(game: Any, store: Any, peer: Any, s: Any) -> Any:
    first = 2 if fact(game, VARIANT) == 0 else 4
    last = 6 if first == 2 else 8
    for column in range(len(store.stored)):
        word = store.stored[column]
        if first <= word < last and store.keys[peer, column] != s[word]:
            return False
    return True


@compiled
def group_place(game: Any, store: Any, s: Any) -> Any:
    """The place of a position's group in the table of groups, or the empty one where it belongs."""
    mask = np.uint64(len(store.groups) - 1)
    place = _group(game, s) & mask
    while store.groups[place] and not _same_group(game, store, store.groups[place] - 1, s):
        place = (place + ONE) & mask
    return place


@compiled
def enter_group(store: Any, place: Any, position: Any) -> Any:
    """Put a position before its peers."""
    store.peers[position] = store.groups[place] - 1
    store.groups[place] = position + 1


@compiled
def pointless(game: Any, store: Any, s: Any, cost: Any) -> Any:
    """Whether one of the peers looked at does as well as the position."""
    peer = store.groups[group_place(game, store, s)] - 1
    standard = fact(game, VARIANT) == 0
    wide = len(store.stored) > 1 and store.stored[1] == 1
    second = 2 if wide else 1
    for _ in range(_MOST_PEERS):
        if peer < 0:
            return False
        low = store.keys[peer, 0]
        high = store.keys[peer, 1] if wide else NONE
        spare = cost - store.costs[peer]
        if standard:
            lacking_low, lacking_high = s[0] & ~low, s[1] & ~high
            if (lacking_low & ~(s[2] | game[HEADER, 0])) | (lacking_high & ~(s[3] | game[HEADER, 1])) == NONE:
                spare -= weigh(game, lacking_low, lacking_high)
                if spare >= 0:
                    return True
        elif spare >= 0:
            saved_low = store.keys[peer, second] | game[HEADER, 0]
            saved_high = (store.keys[peer, second + 1] if wide else NONE) | game[HEADER, 1]
            spare -= weigh(game, low & ~s[0], high & ~s[1])
            spare -= weigh(game, low & ~s[0] & ~saved_low, high & ~s[1] & ~saved_high)
            spare -= weigh(game, low & s[2] & ~saved_low, high & s[3] & ~saved_high)
            if spare >= 0:
                return True
        peer = store.peers[peer]
    return False
