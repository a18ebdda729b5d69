"""Causal work on several KV heads: pairs of tokens with different homes, and pairs of neighbours among those.

One token is drawn from every home, and rows and keys of these P tokens alone are counted: whatever homes are, each
device then owns one token of P in their order. Proofs: docs/theory/devices_causal_heads.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# How many prices of neighbours are tried, and at how many amounts of work a price of pairs is looked at.
_PRICES, _AMOUNTS = 32, 96
# Prices of the first keys that are tried: parts of the words of a key, and of as large a part of the words of a row.
_OF_KEY, _OF_ROW = (0.25, 0.5, 0.5625, 0.625, 0.6875, 0.75, 0.8125), (0.3, 0.45, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, kw_only=True)
class CausalHeads:
    """Sequences of n tokens on so many devices: ``heads`` KV heads with ``group`` query heads each, in words.

    ``row_words`` are those of a row of a query head, ``key_words`` those of a key of a KV head.
    """

    tokens: int
    devices: int
    heads: int
    group: int
    row_words: int
    key_words: int

    @property
    def least_share(self) -> int:
        """Tokens that a device owns at least."""
        return self.tokens // self.devices

    @property
    def share(self) -> int:
        """Tokens that a device owns at most."""
        return -(-self.tokens // self.devices)


def apart_words(head: CausalHeads) -> float:
    """Words for pairs of tokens with different homes, however even work is.

    >>> n, P = 4096, 16
    >>> apart_words(CausalHeads(tokens=n, devices=P, heads=16, group=1, row_words=128, key_words=128))
    14680064.0
    >>> 16 * 2 * 128 * (P - 2) * (n // P)
    14680064
    """
    last, share = head.devices - 1, head.least_share
    if last < 1 or share == 0:
        return 0.0
    more, less = sorted((head.group * head.row_words, head.key_words), reverse=True)
    early = int(np.minimum(more, less * np.arange(1, last, dtype=np.int64)).sum())
    edges = early + max(min(more, less * last), less * (last - 1))
    # a pair word that is sent serves one pair, which must not be worth more than it
    worth = min(1.0, head.group * share / less)
    return float(head.heads * share * edges) * worth


@lru_cache(maxsize=1024)
def neighbour_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words for pairs of neighbours, for pairs with the first keys and for all others by prices of their own.

    For work as even as this.
    """
    n, t = float(head.tokens), float(head.share)
    pairs = head.heads * head.group * n * (n + 1) / 2
    own = head.group * t * (t + 1) / 2
    most = min(imbalance * pairs / head.devices - (head.heads - 1) * own, pairs / head.heads)
    if head.least_share < 1 or most <= own or head.devices < 2:
        return 0.0
    beyond = (most - own) * np.geomspace(1e-4, 1, _AMOUNTS)
    others = pairs - head.devices * head.heads * own
    return max(_proven(head, first, beyond, others) for first in _first_keys(head))


class _FirstKeys(NamedTuple):
    """Words that pairs with the first keys are worth, of a row of all query heads: of one key, and of all of them."""

    one: float
    row: float


def _first_keys(head: CausalHeads) -> Iterator[_FirstKeys]:
    """Prices to try: none, and parts of the words of a key and of a row, where rows are more words."""
    row, key = float(head.group * head.row_words), float(head.key_words)
    yield _FirstKeys(0.0, 0.0)
    if row > key and head.devices > 2:
        for part, of_row in product(_OF_KEY, _OF_ROW):
            yield _FirstKeys(part * key, part * of_row * row)


def _proven(head: CausalHeads, first: _FirstKeys, beyond: Values, others: float) -> float:
    """The most that some prices of neighbours prove, with these for the first keys."""
    least, last, g = float(head.least_share), head.devices - 1, float(head.group)
    highest = min(g * head.row_words - first.row, float(head.key_words), g * least - first.one)
    if highest < 0:
        return 0.0
    prices = np.linspace(0, highest, _PRICES + 1)
    worth = (prices + first.one) / (g * least)  # a pair word is one pair
    for_pairs = np.minimum(_pair_prices(head, prices[:, None], first, beyond), 1 - worth)
    # row i with the first i - 1 keys; its neighbour has a price of its own
    before = np.minimum(first.row, first.one * np.arange(last, dtype=np.int64))
    rest = np.minimum(first.row - before, np.maximum(first.one - prices[:, None], 0.0))
    for_edges = head.heads * least * (last * prices + (before + rest).sum(axis=1))
    return float(max((for_edges + for_pairs * others).max(), 0.0))


def _pair_prices(head: CausalHeads, paid: Values, first: _FirstKeys, beyond: Values) -> Values:
    """Words for each pair beyond own ones that a device has to exchange besides what the others pay, at least.

    Every kind of words below is concave in the pairs, so that between two amounts a price that holds for both does.
    """
    ends, g = (float(head.share), float(head.tokens)), float(head.group)
    row, key, t = g * head.row_words - first.row + 0 * paid, head.key_words + 0 * paid, ends[0]
    area, own_row = beyond / g + t * t, first.row * t
    kinds = [
        _least_words((row - paid, key - np.maximum(paid, first.one)), area, ends),
        _least_words((row - paid, key - first.one), area, ends) - paid * t,
        _least_words((row - paid, key - paid), area, ends) - own_row,
        _least_words((row - paid, key), area, ends) - paid * t - own_row,
        _least_words((row, key - paid), area, ends) - paid * t - own_row,
        _shared_words((row, key), paid, beyond / g + t * (t + 1) / 2, ends) - own_row,
    ]
    ratios = np.array(kinds) / beyond  # [kind, price, amount]
    held = np.minimum(ratios[:, :, 1:], ratios[:, :, :-1]).max(axis=0)
    # below the first amount the first kind is concave from 0 on
    least: Values = np.minimum(held.min(axis=1), ratios[0, :, 0])
    return np.maximum(least, 0.0)


def _shared_words(words: tuple[Values, Values], paid: Values, area: Values, ends: tuple[float, float]) -> Values:
    """Words of rows and keys less what their neighbours pay: (x + 1/2)(y + 1/2) >= area + (neighbours - t)²/2."""
    (row, key), (t, end) = words, (ends[0], ends[1] + 0.5)
    flat = 1 - paid * paid / (2 * row * key)  # 1/2 at least
    both = 2 * np.sqrt(row * key * area * flat)
    all_keys = row * area / end - paid * paid * end / (2 * row) + key * end
    all_rows = key * area / end - paid * paid * end / (2 * key) + row * end
    most = end * end * flat
    found = np.where(row * area > key * most, all_keys, np.where(key * area > row * most, all_rows, both))
    return found - paid * t - (row + key) * (t + 0.5)


def _least_words(prices: tuple[Values, Values], area: Values, ends: tuple[float, float]) -> Values:
    """The least words of x rows and y keys beyond own ones, x·y >= area, between t and n; concave in the area."""
    least, most = ends
    # dearer ones than these are taken to cost so much only, for words to stay concave
    row, key = np.minimum(prices[0], prices[1] * most / least), np.minimum(prices[1], prices[0] * most / least)
    low, high = np.maximum(least, area / most), np.minimum(most, area / least)
    best = np.sqrt(area * key / np.where(row > 0, row, 1.0))
    rows = np.clip(best, low, np.maximum(high, low))
    words: Values = row * (rows - least) + key * (area / rows - least)
    return words
