"""Sums that wait, where rows come and go one by one: of a key that leaves after its first turn they may stay.

Of every a keys that follow each other slots keep all, or one less than slots, until their second turn (see
``masks.patterns.rolling``). Of the next ones as many sums stay as there are places. A single place less than all would
need leaves one empty: slots do not count so.
"""

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import larger, smaller, where


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
