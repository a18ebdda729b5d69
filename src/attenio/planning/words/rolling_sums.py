"""Sums that wait, where rows come and go one by one: of a key that leaves after its first turn they may stay.

Of every a keys that follow each other slots keep all, or one less than slots, until their second turn (see
``masks.patterns.rolling``). Of the next ones as many sums stay as there are places. A single place less than all would
need leaves one empty: slots do not count so.

Where all sums wait, and the first row needs one key, the second one two and so on, nobody waits for a second turn in
the beginning. With x of the 2a keys of two turns away, the first 2a - x rows pass one by one, each done when the next
one comes, and the keys that they need stay. From then on rows stay as well: when k of them have come max(0, k - x) keys
are done, and min(k, l) have left their sums, where l = a - s + 1 of every a keys leave, the first of them number a - x.
With r words of a row, c of a key and t of its sums

    k r + (2a - x - max(0, k - x) - min(k, l)) c + min(k, l) t

words are there, and fast memory is for those of a rows, s - 1 keys and all places, beside one key that passes. As the
words change at the same rate between them, it is enough to look at k = 0, x, l and a.
"""

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, larger, smaller, where


def slots_and_places(tile: Counts, slots: Counts, places: Counts) -> Counts:
    """Slots that would keep as many keys as either stay or leave their sums."""
    both = slots + places
    return where(slots >= tile, slots, where(both == tile, larger(tile - 1, slots), both))


def best_slots_and_places(tile: Counts, words: Counts, per_slot: Counts, per_sum: Counts) -> tuple[Counts, Counts]:
    """What to keep in so many words, one slot at least: sums first, which save the most for their words, then keys."""
    places = smaller(larger(words - per_slot, 0) // per_sum, tile)
    left = words - per_slot - tile * per_sum
    slots = larger(1, where(places == tile, smaller(1 + left // (per_slot - per_sum), tile - 1), 1))
    places = where(places == tile, tile + 1 - slots, where(places == tile - 1, larger(tile - 2, 0), places))
    everything = tile * per_slot <= words
    return where(everything, tile, slots), where(everything, 0 * places, places)


def keys_in_ring(sizes: tuple[Counts, Counts, Counts], per_row: Counts, per_slot: Counts, per_sum: Counts) -> Counts:
    """The first keys that stay until they are done, a - x of them, for rows, slots and places; 0 if none gain by it."""
    tile, slots, places = sizes
    leave = tile - slots + 1
    room = tile * per_row + (slots - 1) * per_slot + places * per_sum
    gained, short = 2 * per_slot - per_row - per_sum, 2 * tile * per_slot - room
    away = larger(where(gained > 0, ceil_div(short, larger(gained, 1)), 1), 1)
    # no rows have come that stay, or the last one passes
    away = larger(away, larger(2 * tile - room // per_slot, 2 * tile - 1 - (room - per_row) // per_slot))
    fits = leave * (per_row + per_sum) + 2 * (tile - leave) * per_slot <= room
    worth = (places >= leave) & (away * gained >= short) & (away < leave)
    return where(worth & fits, tile - away, 0)
