"""Causal work of few devices a head, forward: a token costs three rows and keys, if it is not single or an own one.

Where work is even nearly every pair is made by one device that has the whole row and the whole key; recomputed products
of scores count as work for that. A token whose row
and key one device alone has, which is not its owner, is single, and costs two; all pairs of single tokens are work of
that device, but for those that their owners make. Own tokens save some more: one token of every home is drawn, and
what drawn tokens save is bounded for each draw, pairs of the device with the single ones having a price. Proof:
docs/theory/devices_single_tokens.md.
"""

from functools import lru_cache

import numpy as np

from attenio.cluster.bounds.causal_heads import CausalHeads, Values

# What is tried: up to which part of a share single tokens may be overlooked, and the price of a pair where many are
# single.
_CHOICES = ((0.05, 0.66), (0.1, 0.66), (0.25, 0.4), (0.45, 0.25))
# Prices of pairs in tokens, and how finely numbers of single tokens are told apart.
_PRICES, _STEPS = np.concatenate([[0.0], np.geomspace(0.001, 0.25, 160)]), 2048
# Tokens that cost less than three save no more than this together in a draw, besides single ones.
MOST_SAVED = 11


def saved_by_others(devices: int, price: Values) -> Values:
    """What tokens that are not single save in a draw at most, less a price for each of their pairs that one makes.

    That one is the device with the single tokens, and there are enough of these for all others to need it.

    >>> saved_by_others(16, np.array([0.0, 0.08])).tolist()
    [11.0, 9.8]
    """
    alone, several = (np.maximum(price * (devices - less) - 1, 0.0) for less in (3, 4))
    beyond = np.maximum(alone, 2 * several)
    kinds = (
        MOST_SAVED - 15 * price,
        10 - 5 * price,
        9 + 2 * price + beyond,
        8 + (devices - 5) * price + beyond,
    )
    found: Values = np.max(kinds, axis=0)
    return found


def pairs_of_single_tokens(devices: int, single: Values) -> Values:
    """Pairs of drawn tokens of which one is single, on the average, if so many are: at least."""
    others = devices - 1
    found: Values = others * single - single * single * (others - 1) / (2 * others)
    return found


def most_saved(devices: int, pairs: float, overlooked: float, price: float) -> float:
    """What all tokens of a draw save at most, on the average, if a device makes so many pairs of these at most.

    Up to a part ``overlooked`` of a share single tokens are not seen; ``price`` is that of a pair for many of them.

    >>> round(most_saved(16, 64, 0.1, 2 / 3), 2)
    14.78
    """
    few = 2 + 2 * overlooked
    without = max(few + 1, 3 / (1 - overlooked * few / 2))
    some = few + 1  # enough for pairs to have a price
    single = np.linspace(some, max(devices - 1.0, some), _STEPS + 1)
    left = pairs - pairs_of_single_tokens(devices, single)
    four = 3 * np.maximum(4 + overlooked - single, 0.0)  # in the homes of four owners tokens can do without that device
    prices = _PRICES[:, None]
    saved = [
        single + saved_by_others(devices, prices) + prices * (left + four),
        (2 * devices + 1 - single + price * left)[None],
    ]
    # convex in the number of single tokens, so that between two of these it is no more than at both
    every = np.concatenate(saved)
    between = np.maximum(every[:, 1:], every[:, :-1]).min(axis=0)
    return float(max(MOST_SAVED + max(without, some), between.max()))


@lru_cache(maxsize=256)
def single_token_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words that devices exchange forward, at least, for work as even as this; 0 where single tokens prove nothing.

    >>> head = CausalHeads(tokens=2**20, devices=16, heads=8, group=1, row_words=256, key_words=256)
    >>> round(single_token_words(head) / (8 * 256 * 2**20), 3)
    2.077
    """
    if head.group != 1 or head.row_words != head.key_words or head.devices < 2:
        return 0.0
    return max(0.0, *(_proven(head, imbalance, *choice) for choice in _CHOICES))


def _proven(head: CausalHeads, imbalance: float, overlooked: float, price: float) -> float:
    """What one choice proves."""
    n, t, words = float(head.tokens), float(head.least_share), float(head.row_words)
    # tokens that a drawn pair may save which is made by several devices, or for which scores are sent
    for_pair = 3 + 3 / overlooked + max(price, float(_PRICES[-1])) * (head.devices - 1)
    if words * for_pair > t:  # a score that is sent must not save more than its word
        return 0.0
    pairs = head.heads * n * (n + 1) / 2
    saved = most_saved(head.devices, imbalance * pairs / head.devices / t**2, overlooked, price)
    shared = for_pair * (imbalance - 1) * pairs / t
    return words * (head.heads * t * (3 * head.devices - saved) - shared)
