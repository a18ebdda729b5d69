"""Causal work on one KV head: rows that a device owns early in the sequence, and keys late in it, are of little use.

An own row s sees s keys only, however many the device has, and an own key is seen by the rows after it. Every token is
some device's, so some devices own the first and the last ones. Proof: docs/theory/devices_causal.md.
"""

from functools import lru_cache

import numpy as np

from attenio.cluster.bounds.causal_heads import CausalHeads, Values

_PLACES = 512  # how finely places in the sequence are told apart


@lru_cache(maxsize=1024)
def position_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words that devices exchange, at least, for work as even as this on one KV head; 0 where this proves nothing.

    >>> head = CausalHeads(tokens=2**16, devices=32, heads=1, group=1, row_words=64, key_words=64)
    >>> round(position_words(head) / (2 * 64 * 2**16 * ((33 / 2) ** 0.5 - 1)), 3)
    1.011
    """
    n, t, g = float(head.tokens), float(head.share), float(head.group)
    mean, own = g * n * (n + 1) / (2 * head.devices), g * t * (t + 1) / 2
    most = imbalance * mean
    if head.heads > 1 or head.least_share < 2 or most <= own or head.devices < 2:
        return 0.0
    words = _words(head, most)
    # pairs of a device, if all others do the most, less those that are worth being sent as such
    least = most - (imbalance - 1) * mean * head.devices - float(words.max())
    if least <= own or words[0].min() < 0:
        return 0.0
    price = np.minimum(words / (most - own), _words(head, least) / (least - own)).max(axis=0)
    if price.min() < 0 or price.max() > 1:
        return 0.0
    every = float(price.mean()) * (most - own) * n / t
    return max(every - float(price.max()) * (imbalance - 1) * mean * head.devices, 0.0)


def _words(head: CausalHeads, pairs: float) -> Values:
    """Words of a device all of whose tokens are at one place [kind, place]: of any tokens, of early rows, of late keys.

    Less than nothing where a kind says nothing.
    """
    n, t, least = float(head.tokens), float(head.share), float(head.least_share)
    row, key = float(head.group * head.row_words), float(head.key_words)
    area = pairs / head.group + least * (least - 1) / 2
    edges = np.linspace(0, n, _PLACES + 1)
    kinds = [_joint(row, key, np.full(_PLACES, area), n) - (row + key) * t]
    for place, lost in ((np.ceil(edges[1:]), key), (n - np.floor(edges[:-1]), row)):
        left = area - t * (t + place)
        says = (left >= 0) & (place <= n / 2)
        kinds.append(np.where(says, _joint(row, key, np.maximum(left, 0.0), n) - lost * t, -1.0))
    return np.array(kinds)


def _joint(row: float, key: float, area: Values, most: float) -> Values:
    """The least words of x rows and y keys, x·y >= area, neither above the most: concave in the area."""
    both = 2 * np.sqrt(row * key * area)
    all_keys, all_rows = row * area / most + key * most, key * area / most + row * most
    return np.where(row * area > key * most**2, all_keys, np.where(key * area > row * most**2, all_rows, both))
