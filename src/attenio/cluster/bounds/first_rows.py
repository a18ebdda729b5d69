"""Causal work on one KV head with many query heads: the first rows see few keys, however many a device has.

A device whose own tokens are late ones has the pairs of its own rows with all of its keys; one whose tokens are early
has the few keys before these, and must work on rows of others. Tokens of either kind may be of one home. Proof:
docs/theory/devices_causal.md.
"""

from functools import lru_cache

import numpy as np

from attenio.cluster.bounds.causal_heads import CausalHeads, Values

# How finely places in the sequence and numbers of keys are told apart.
_PLACES, _KEYS = 1024, 1024


@lru_cache(maxsize=1024)
def first_row_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words that devices exchange, at least, for work as even as this on one KV head; 0 where this proves nothing.

    >>> head = CausalHeads(tokens=2**20, devices=64, heads=1, group=16, row_words=256, key_words=256)
    >>> round(first_row_words(head) / (256 * 2**20), 2)
    30.97
    """
    n, own = float(head.tokens), head.group * head.share * (head.share + 1) / 2
    mean = head.group * n * (n + 1) / (2 * head.devices)
    most = imbalance * mean
    least = most - (imbalance - 1) * mean * head.devices  # pairs of a device, if all others do the most
    # a pair word must not be cheaper than a pair of a row that is received
    if head.heads > 1 or head.devices < 2 or least <= own or head.least_share < max(head.row_words, 2):
        return 0.0
    words = token_words(head, most)
    if words.min() < 0:
        return 0.0
    spared = float((words - token_words(head, least)).max()) if imbalance > 1 else 0.0
    return max(float(words.mean()) * n / head.share - spared, 0.0)


def token_words(head: CausalHeads, pairs: float) -> Values:
    """What a device with so many pairs exchanges, as a mean over its own tokens [place]; less than nothing proves it.

    Between two numbers of keys all terms are taken at the end where they are less.
    """
    n, t, row, key = float(head.tokens), float(head.share), float(head.group * head.row_words), float(head.key_words)
    keys = np.geomspace(head.least_share, n, _KEYS + 1)
    few, many, area = keys[:-1], keys[1:], max(pairs / head.group - t / 2, 0.0)
    best = np.clip((row * area / key) ** 0.5, few, many)
    received = row * (area / best - t) + key * (best - t)
    low, high = row * t * t / (2 * many), row * t * t / (2 * few)
    late = float((received + low).min())
    above = received + low - late
    early = late + np.where(above >= high, above - high, 2 * np.sqrt(high * np.minimum(above, high)) - 2 * high)
    places = np.ceil(np.linspace(0, n, _PLACES + 1)[1:])
    # a device with no more keys than a place pays nothing for it
    free = np.concatenate([[np.inf], np.minimum.accumulate(early)])
    beyond = np.searchsorted(few, places, side="right").tolist()
    paid = [
        float((row * t * (1 - place / few[at:]) + early[at:]).min(initial=np.inf))
        for place, at in zip(places.tolist(), beyond, strict=True)
    ]
    found: Values = np.maximum(np.minimum(paid, free[beyond]), late)
    return found
