"""The room where tiles of keys turn, and gradients of keys and of the positions that stay give way to each other.

Everything works on integers and on arrays of many cases.
"""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import floor_div, larger, smaller, where

Ints = NDArray[np.int64]
# Up to so many keys, or positions, every size is tried; of more those between which words are linear.
FEW = 16
# More than any memory has.
NEVER = 2**60


class TurnRoom(NamedTuple):
    """Words that a key and a position in all heads of a group take.

    A tile of b keys holds b*per_key + per_row + per_sum while positions pass. At a turn at which x of them stay it
    holds b*per_input and the largest of b*(per_key - per_input) + x*per_query, b*per_partial + x*per_row and x*per_row
    + y*per_sum, for y of them whose sums have no place of their own. All this is beside s*per_sum, for sums that have
    one, and ``beside``.
    """

    per_key: Counts
    per_input: Counts
    per_partial: Counts
    per_row: Counts
    per_query: Counts
    per_sum: Counts
    beside: Counts


def at_turn(room: TurnRoom, tile: Counts, stay: Counts, without: Counts) -> Counts:
    """Words at a turn beside the keys of a tile, and sums that have places; so many positions have none."""
    gradients = tile * (room.per_key - room.per_input) + stay * room.per_query
    sums = stay * room.per_row + larger(smaller(stay, without), 0) * room.per_sum
    return larger(larger(gradients, tile * room.per_partial + stay * room.per_row), sums)


def staying_tried(room: TurnRoom, tile: Counts, free: Counts, most: Counts) -> tuple[Counts, ...]:
    """Positions that may stay at a turn: as many as fit, up to so many, or as bring two of its rooms together.

    These are where gradients of keys take as much as sums of positions, as partial ones do, and partial ones as sums.
    """
    gradients, whole = room.per_key - room.per_input, room.per_row + room.per_sum
    full = smaller(floor_div(free, whole), most)
    full = smaller(full, floor_div(free - tile * gradients, room.per_query))
    full = larger(smaller(full, floor_div(free - tile * room.per_partial, room.per_row)), 0)
    together = (
        quotient(tile * gradients, whole - room.per_query),
        quotient(tile * (gradients - room.per_partial), room.per_row - room.per_query),
        floor_div(tile * room.per_partial, room.per_sum),
    )
    return full, *(larger(smaller(full, each), 0) for each in together)


def quotient(numerator: Counts, denominator: Counts) -> Counts:
    """Rounded down; something where nothing is to be divided by."""
    return floor_div(numerator, where(denominator == 0, 1, denominator))


def best_of_tried(tried: Iterable[Counts], words_with: Callable[[Counts], tuple[Counts, ...]]) -> tuple[Counts, ...]:
    """Words, and sizes, of the first that moves least of what is tried; ``NEVER``, and no sizes, where nothing fits.

    Of many cases all that is tried is looked at in one array.
    """
    every = list(tried)
    if isinstance(every[0], np.ndarray) and every[0].ndim:
        found = np.stack(np.broadcast_arrays(*words_with(np.stack(every))))
        words, *sizes = np.take_along_axis(found, found[:1].argmin(axis=1, keepdims=True), axis=1)[:, 0]
    else:
        words, *sizes = min(map(words_with, every), key=itemgetter(0))
    fits = words < NEVER
    return words, *(where(fits, size, 0) for size in sizes)
