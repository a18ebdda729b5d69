"""What any continuation of the standard game does, from a position on."""

from typing import Any

import numpy as np

from attenio.pebbling.compiled import compiled
from attenio.pebbling.solving.search.bits import NONE, ONE, highest, lowest, weigh, words_of
from attenio.pebbling.solving.search.encoding import HEADER


@compiled
def analyse(game: Any, s: Any) -> Any:
    """The useful vertices, and those that must be red some time (or are unstored outputs), as four words."""
    useful_low = must_low = game[HEADER, 2] & ~s[2]
    useful_high = must_high = game[HEADER, 3] & ~s[3]
    # From the last vertex to the first: parents have lower numbers.
    rest = useful_high
    while rest:
        vertex = highest(rest)
        bit = ONE << np.uint64(vertex)
        low, high = game[64 + vertex, 0], game[64 + vertex, 1]
        useful_low |= low
        useful_high |= high
        rest = (rest & ~bit) | high
        if must_high & bit & ~s[1] & ~s[3]:
            must_low |= low
            must_high |= high
    rest = useful_low
    while rest:
        vertex = highest(rest)
        bit = ONE << np.uint64(vertex)
        low = game[vertex, 0]
        useful_low |= low
        rest = (rest & ~bit) | low
        if must_low & bit & ~s[0] & ~s[2]:
            must_low |= low
    return useful_low, useful_high, must_low, must_high


@compiled
def certain_words(game: Any, s: Any) -> Any:
    """Words that any continuation moves.

    Outputs not yet stored are stored. What must be red and is neither red nor stored must be computed, so its parents
    must be red; inputs among those that are not red must be loaded. A stored value p that must be red and is not is
    loaded, or computed again, for which all inputs are loaded that it needs beyond what is red or stored; where these
    are not counted yet, the cheaper of the two is certain, and for two such p both are if they share no such input.
    Loads of promised values are paid already.
    """
    _, _, low, high = analyse(game, s)
    words = weigh(game, game[HEADER, 2] & ~s[2], game[HEADER, 3] & ~s[3])
    counted_low = low & game[HEADER, 0] & ~s[0]
    counted_high = high & game[HEADER, 1] & ~s[1]
    words += weigh(game, counted_low, counted_high)
    for half in range(2):
        word = (low if half == 0 else high) & s[2 + half] & ~s[half] & ~s[4 + half]
        while word:
            vertex = 64 * half + lowest(word)
            word &= word - ONE
            again_low, again_high = _loads_to_compute(game, s, vertex)
            again = weigh(game, again_low, again_high)
            if again and (again_low & counted_low) | (again_high & counted_high) == NONE:
                words += min(again, words_of(game, vertex))
                counted_low |= again_low
                counted_high |= again_high
    return words


@compiled
def _loads_to_compute(game: Any, s: Any, vertex: Any) -> Any:
    """Inputs that must be loaded before the vertex can be computed, if everything stored comes for free."""
    low, high = game[vertex, 0], game[vertex, 1]
    rest = high & ~s[1] & ~s[3]
    while rest:
        above = highest(rest)
        rest &= ~(ONE << np.uint64(above))
        low |= game[64 + above, 0]
        high |= game[64 + above, 1]
        rest |= game[64 + above, 1] & ~s[1] & ~s[3]
    rest = low & ~s[0] & ~s[2]
    while rest:
        above = highest(rest)
        rest &= ~(ONE << np.uint64(above))
        low |= game[above, 0]
        rest |= game[above, 0] & ~s[0] & ~s[2]
    return low & game[HEADER, 0] & ~s[0], high & game[HEADER, 1] & ~s[1]
