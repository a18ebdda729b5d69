"""Causal work of few devices and many query heads on several KV heads: who owns late rows has too much to do.

Where rows are many words beside keys, devices work on own rows. Late rows make more pairs than early ones, and work is
even: owners of late rows must give some away, which costs rows, or own early tokens too, which costs keys that only
some of their rows see. Pairs of late rows are worth a premium, those of the last ones less again, and a device with
late tokens pays for all of its pairs. Whatever these prices are, they prove a bound. Proof:
docs/theory/devices_causal.md#late-rows.

A price of 1 is k/(g t) words for a pair: with one more key, t own rows of g heads make pairs worth a key.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attenio.cluster.bounds.causal_heads import CausalHeads, Values

# Prices that are tried: where late tokens begin, as a part of the sequence; the premium, for eight devices; which part
# of what last rows see beyond their words is taken off; which part of the premium devices without late tokens pay, and
# how far what others pay is below a straight line.
_PRICES = (
    (0.286, 0.235, 0.547, 0.046, 0.133), (0.353, 0.466, 0.365, 0.051, 0.452), (0.33, 0.32, 0.604, 0.029, 0.3),
    (0.307, 0.185, 0.593, 0.023, 0.248), (0.392, 0.619, 0.678, 0.028, 0.069), (0.204, 0.106, 0.573, 0.105, 0.287),
    (0.373, 0.768, 0.368, 0.032, 0.078), (0.43, 0.5, 0.4, 0.1, 0.2), (0.289, 0.245, 0.651, 0.051, 0.183),
    (0.365, 0.564, 0.574, 0.05, 0.332), (0.354, 0.403, 0.593, 0.044, 0.092),
)  # fmt: skip
# How finely late parts of own tokens are told apart, and numbers of keys, for a share of the tokens and in all; credits
# of a late own token besides what it pays, in its share.
_PARTS, _STEPS, _KEYS, _CREDITS = 96, 14, 240, np.linspace(-0.5, 0.5, 41)


@dataclass(frozen=True, kw_only=True)
class LateRows:
    """Prices of pairs: a premium on those of rows from token ``first`` on, less for those that see many keys."""

    head: CausalHeads
    first: float
    premium: float
    taken: float

    @property
    def row_pairs(self) -> float:
        """So many pairs at a price of 1 are worth the words of their row."""
        head = self.head
        return head.group * head.row_words * head.share / head.key_words

    def pairs(self) -> float:
        """What all pairs of a query head are worth."""
        n = float(self.head.tokens)
        short = min(float(int(self.row_pairs)), n)  # rows that see no more keys than are worth their words
        beyond = (n * (n + 1) - short * (short + 1)) / 2 - self.row_pairs * (n - short)
        late = (n * (n + 1) - self.first * (self.first + 1)) / 2
        return n * (n + 1) / 2 + self.premium * late - self.taken * beyond

    def gains(self, part: Values, paid: Values, keys: Values) -> Values:
        """What a device gains, at most, beyond the words it exchanges, in words of a key for one KV head.

        Of its own tokens a part is late, it pays a price for each of its pairs and has so many keys.
        """
        t, late = float(self.head.share), 1 + self.premium - paid
        own = late * _capped(self.row_pairs / late, keys, 0.0 * part, part * t)
        own = own + (1 - paid) * _capped(self.first, keys, part * t, 0.0 * part + t)
        rounding = t * (1 + self.premium) / 2
        found: Values = (own + self._of_others(late, keys) + rounding) / t - (keys - t)
        return found

    def _of_others(self, late: Values, keys: Values) -> Values:
        """What late rows are worth with so many keys, beyond their words, at a price of late pairs before ``taken``."""
        n, row, first, kept = float(self.head.tokens), self.row_pairs, self.first, late - self.taken
        best = np.maximum(late * keys - row, 0.0)
        # rows that see no more keys than these: pairs up to the words of a row, and more than these
        start = np.maximum(first, row / late)
        stop = np.maximum(np.minimum(keys, row), start)
        found = late * (stop**2 - start**2) / 2 - row * (stop - start)
        last = np.maximum(keys, row)
        found = found + kept * (last**2 - row**2) / 2 - row * (1 - self.taken) * (last - row)
        # rows after these keys: as much for each, then less and less
        found = found + best * np.maximum(min(row, n) - np.maximum(keys, first), 0.0)
        lacking, most = row - kept * keys, np.maximum(n, last)
        falls = self.taken * row * keys
        end = np.maximum(np.where(lacking * most > falls, falls / np.maximum(lacking, 1e-9), most), last)
        found = found + falls * np.log(end / last) - lacking * (end - last)
        every: Values = np.where(best > 0, found, 0.0) + best
        return every


def _capped(most: Values | float, keys: Values, start: Values, stop: Values) -> Values:
    """The integral from start to stop of the number of keys less a, or of the most if that is less."""
    change = np.clip(keys - most, start, stop)
    found: Values = most * (change - start) + keys * (stop - change) - (stop**2 - change**2) / 2
    return found


@lru_cache(maxsize=256)
def late_row_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words that devices exchange, at least, for work as even as this; 0 where these prices prove nothing.

    >>> head = CausalHeads(tokens=2**20, devices=8, heads=8, group=8, row_words=256, key_words=256)
    >>> round(late_row_words(head) / (8 * 256 * 2**20), 2)
    3.88
    """
    if head.devices < 2 or head.least_share < 1:
        return 0.0
    return max(_proven(head, prices, imbalance) for prices in _PRICES)


def _proven(head: CausalHeads, prices: tuple[float, ...], imbalance: float) -> float:
    """What some prices prove."""
    begin, premium, taken, least, bend = prices
    n, t, premium = float(head.tokens), float(head.share), 8 * premium / head.devices
    first = float(int(begin * head.tokens))
    late = LateRows(head=head, first=first, premium=premium, taken=taken)
    # no pair word and no early row of another device may be worth more than it costs
    if premium > 1 or not 1 <= first <= late.row_pairs or head.key_words * (1 + premium) > head.group * t:
        return 0.0
    ends, keys = np.linspace(0, 1, _PARTS + 1), np.linspace(t - 1, n, min(_STEPS * head.devices, _KEYS) + 1)
    part, middle = np.stack([ends[:-1], ends[1:]]), (ends[:-1] + ends[1:]) / 2  # [end, part]
    paid = premium * (least + (1 - least) * (middle - bend * middle * (1 - middle)))
    gains = late.gains(part[..., None], paid[:, None], keys).max(axis=2)
    # between two numbers of keys and two parts it may be more than at both
    gains = gains + (3 + 2 * premium) * (keys[1] - keys[0]) ** 2 / (8 * t) + (1 + premium) * t / (8 * _PARTS**2)
    work = imbalance * n * (n + 1) / (2 * head.devices * t)
    credit = premium * work + t * _CREDITS
    beyond = (gains + paid * work - credit[:, None, None] * part).max(axis=(1, 2))
    own = (head.devices * beyond + credit * (n - first) / t).min()
    return max(0.0, float(head.heads * head.key_words * (late.pairs() / t - own)))
