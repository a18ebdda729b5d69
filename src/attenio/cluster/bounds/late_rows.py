"""Causal work of few devices and many query heads on several KV heads: who owns late rows has too much to do.

Where rows are many words beside keys, devices work on own rows. Late rows make more pairs than early ones, and work is
even: owners of late rows must give some away, which costs rows, or own early tokens too, which costs keys that only
some of their rows see. Pairs of late rows are worth a premium, and a device with late tokens pays for all of its pairs.
Whatever these prices are, they prove a bound. Proof: docs/theory/devices_causal.md.

A price of 1 is k/(g t) words for a pair: with one more key, t own rows of g heads make pairs worth a key.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attenio.cluster.bounds.causal_heads import CausalHeads, Values

# Where late tokens begin, as a part of the sequence, and premiums that are tried.
_FIRST, _PREMIUMS = 0.4, np.arange(1, 65, dtype=np.int64) / 64
# How finely late parts of own tokens and numbers of keys are told apart, and credits of a late own token, in its share.
_PARTS, _KEYS, _CREDITS = 32, 96, np.linspace(-0.5, 0.5, 21)


@dataclass(frozen=True, kw_only=True)
class LateRows:
    """Prices of pairs: a premium on those of rows from token ``first`` on, and the least late part of own tokens."""

    head: CausalHeads
    first: float
    premium: Values  # [premium, 1]
    part: Values  # [part]
    width: float  # of a part

    @property
    def row_pairs(self) -> float:
        """So many pairs at a price of 1 are worth the words of their row."""
        head = self.head
        return head.group * head.row_words * head.share / head.key_words

    def gains(self) -> Values:
        """What own tokens and late rows gain a device, at most, beyond the words it exchanges [premium, part].

        In words of a key, for one KV head.
        """
        t, low, high, premium = float(self.head.share), self.part, self.part + self.width, self.premium
        middle = np.clip(0.5, low, high)
        few: Values = (t + 1) / 2 + premium * t * middle * (1 - middle) / 2
        # beyond the first tokens more keys do not help early own rows; from key to key, at the better end of each
        keys = np.linspace(self.first, self.head.tokens, _KEYS + 1)
        lost = ((1 - high) * (1 - premium * high))[..., None] * (keys[:-1] - self.first)
        ranks = low * low * t - high
        ranks = ((1 + premium * (1 - high)) * np.maximum(ranks, 0) + (1 + premium) * np.minimum(ranks, 0)) / 2
        own = np.minimum(few[..., None], t - ranks[..., None] - lost)
        found: Values = np.maximum((own + self._of_others(keys[1:])).max(axis=2), few)
        return found

    def _of_others(self, keys: Values) -> Values:
        """What late rows of other devices are worth with so many keys, beyond their words."""
        n, t, row = float(self.head.tokens), float(self.head.share), self.row_pairs
        premium = (self.premium * (1 - self.part))[..., None]
        last = np.maximum(np.where(keys <= row, (1 + premium) * keys - row, premium * keys), 0.0)
        start = np.maximum(self.first, row / (1 + premium))
        stop = np.maximum(np.minimum(keys, row), start)
        area = (1 + premium) * (stop**2 - start**2) / 2 - row * (stop - start)
        area = area + premium * np.maximum(keys**2 - row**2, 0.0) / 2
        found: Values = (area + (n - keys + 1) * last) / t
        return found


@lru_cache(maxsize=256)
def late_row_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words that devices exchange, at least, for work as even as this; 0 where these prices prove nothing.

    >>> head = CausalHeads(tokens=2**20, devices=8, heads=8, group=8, row_words=256, key_words=256)
    >>> round(late_row_words(head) / (8 * 256 * 2**20), 2)
    3.84
    """
    n, t, first = float(head.tokens), float(head.share), float(int(_FIRST * head.tokens))
    # no pair word and no early row of another device may be worth more than it costs
    premium = _PREMIUMS[head.key_words * (1 + _PREMIUMS) <= head.group * t][:, None]
    low = np.arange(_PARTS, dtype=np.int64) / _PARTS
    prices = LateRows(head=head, first=first, premium=premium, part=low, width=1 / _PARTS)
    if first < 1 or first > prices.row_pairs or head.devices < 2 or not len(premium):
        return 0.0
    late, most = n - first, min(prices.row_pairs, n)
    pairs = most * n - most * most / 2
    more = (n * (n + 1) - first * (first + 1)) / 2 - late / t * imbalance * n * (n + 1) / (2 * head.devices)
    credit = t * _CREDITS[:, None]
    beyond = (prices.gains()[:, None] - np.minimum(credit * low, credit * (low + 1 / _PARTS))).max(axis=2)
    own = (head.devices * beyond + late * _CREDITS).min(axis=1)
    return max(0.0, float(head.heads * head.key_words * ((pairs + premium[:, 0] * more) / t - own).max()))
