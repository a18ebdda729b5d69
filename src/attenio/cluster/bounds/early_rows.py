"""Causal work on several KV heads: the first rows see few keys, whoever has them, so their pairs are worth more.

A device with y keys of a head makes y pairs of a late row for the words of that row, and s pairs of row s. Besides a
price for pairs of neighbours and one for all pairs, those of first rows with tokens of other homes get one: so much
that a first row pays for the words it takes but for a part of the price of its pairs. Whatever these prices are, they
prove a bound if no device gains by any rows and keys. Last keys, which few rows see, are first rows in a
mirror. Proof: docs/theory/devices_causal_heads.md.

Prices are for all query heads of a KV head together, and pairs are those of one query head.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce

import numpy as np

from attenio.cluster.bounds.causal_heads import CausalHeads, Values

# Prices that are tried, for one query head on a KV head and for several: of neighbours, as a part of the fewer words of
# a row and of a key; of a key by first rows, as a part of its words; which part of the price of pairs those of first
# rows cost at least; which part of their neighbour's price first rows lend.
_ALONE = (
    (0.56, 0.21, 0.55, 0.0), (0.72, 0.18, 0.56, 0.0), (0.61, 0.15, 0.59, 0.0), (0.49, 0.22, 0.6, 0.0),
    (0.684, 0.093, 0.641, 0.0),
)  # fmt: skip
_GROUPED = ((0.44, 0.53, 0.85, 0.67), (0.55, 0.53, 0.81, 0.68), (0.5, 0.63, 0.83, 0.78), (0.67, 0.32, 0.72, 0.64))
# Into how many ranges keys and pairs of a device are cut, and how often the range of a price is halved.
_KEYS, _AMOUNTS, _HALVINGS = 96, 32, 12


@dataclass(frozen=True, kw_only=True)
class EarlyRows:
    """Prices [choice, 1, 1] in words: of neighbours, of first rows for a key at most, of a pair, and its least part."""

    head: CausalHeads
    most: float  # pairs beyond own ones that a device makes of a query head of one KV head
    neighbour: Values
    key: Values
    pair: Values
    part: Values
    lent: Values  # of what first rows are worth, so much is the neighbour's

    @cached_property
    def row(self) -> Values:
        """Words of a row of all query heads, less a neighbour."""
        return self.head.group * self.head.row_words - self.neighbour

    @cached_property
    def least(self) -> Values:
        """What a pair of a first row costs at least."""
        return self.part * self.pair

    @cached_property
    def more(self) -> Values:
        """What pairs of the very first rows are worth more than others."""
        return self.key / self.head.least_share

    @cached_property
    def capped(self) -> Values:
        """Rows whose pairs are worth no more than that are after this one."""
        return self.row / (self.more + self.least)

    @cached_property
    def first(self) -> Values:
        """The last of the first rows."""
        return np.minimum(self.row / self.least, float(self.head.tokens))

    def worth(self) -> Values:
        """What pairs of first rows of all homes are worth more than others, for one KV head, at least."""
        head, row, least, more, capped = self.head, self.row, self.least, self.more, self.capped
        share, home = float(head.least_share), (head.share + 1) / 2
        # a concave function, so at every whole number at least its mean around it
        start, stop = 0.5, np.floor(self.first) + 0.5
        few, last = np.clip(capped, start, stop), np.maximum(stop, capped)
        found = more * ((few**2 - start**2) / 2 - home * (few - start))
        found = found + row * (last - capped) - least * (last**2 - capped**2) / 2
        found = found - home * (row * np.log(last / capped) - least * (last - capped))
        both = np.minimum(self.lent, self.key)
        until = np.minimum(row / (both / share + least), self.first)
        lost = both * until + share * (row * np.log(self.first / until) - least * (self.first - until))
        return np.where(capped >= home, np.maximum((share / head.share) ** 2 * found - lost, 0.0), 0.0)

    def is_proven(self) -> Values:
        """Whether no rows and keys of a device are worth more than they cost [choice]."""
        head = self.head
        t, far = float(head.share), head.tokens + 1.0 - head.share
        keys = t + np.concatenate([[0.0], np.geomspace(0.01 * t, t, _KEYS // 4), np.geomspace(t, far, _KEYS)[1:]])
        pairs = self.most * np.concatenate([[0.0], np.geomspace(2e-4, 1, _AMOUNTS)])
        gains = _Gains(prices=self, low=keys[:-1, None], high=keys[1:, None], pairs=pairs)
        # between two amounts of pairs each of these is concave; one that is the same for all has no second amount
        ranges = (np.minimum(each[..., 1:], each[..., :-1]) if each.shape[-1] > 1 else each for each in gains.kinds())
        proven: Values = reduce(np.maximum, ranges).min(axis=(1, 2)) >= 0
        return proven


@dataclass(frozen=True, kw_only=True)
class _Gains:
    """What devices pay beyond what their pairs are worth, at least, by ranges of keys and by pairs beyond own ones."""

    prices: EarlyRows
    low: Values
    high: Values
    pairs: Values

    def kinds(self) -> list[Values]:
        """Lower bounds, of which the largest holds [choice, keys, pairs]."""
        prices, t = self.prices, float(self.prices.head.share)
        row, key, c, w = prices.row, float(prices.head.key_words), prices.neighbour, prices.key
        found = self._charged(row, key - c - np.maximum(w - prices.lent, 0.0), 0 * c)
        found += self._charged(row, key - w, c * t)
        found += self._charged(row + c, key - c - w, c * t)
        # or own first rows by themselves
        worth = np.minimum((prices.pair + prices.more) * self.high, row + (prices.pair - prices.least) * self.high)
        alone = key * (self.low - t) - c * t + prices.pair * t * (t + 1) / 2 - t * worth - self._extra
        return [*found, *self._shared(), np.where(row >= prices.pair * self.high, alone, -np.inf)]

    def _charged(self, row: Values, key: Values, alone: Values) -> list[Values]:
        """With neighbours and own first rows charged to rows and keys, which then cost so much."""
        prices, t, low, high, pairs = self.prices, float(self.prices.head.share), self.low, self.high, self.pairs
        area = pairs + t * t
        keys = np.clip(np.sqrt(row * area / np.maximum(key, 1e-9)), low, high)
        price = np.minimum(np.minimum(self._floor, prices.row / high), key / t)
        at_price = prices.pair * pairs
        few = np.minimum((key - prices.pair * t) * (low - t), (key - prices.pair * t) * (high - t))
        return [
            key * (keys - t) + row * area / keys - row * t - self._saved - alone - at_price,
            (key - price * t) * (low - t) + price * pairs - alone - at_price,
            np.where(row >= prices.pair * high, few - alone - self._extra, -np.inf),
        ]

    def _shared(self) -> list[Values]:
        """With neighbours by the pairs between them that are not seen."""
        prices, t, low, high = self.prices, float(self.prices.head.share), self.low, self.high
        c, key, at_price = prices.neighbour, float(prices.head.key_words), prices.pair * self.pairs
        row, own = prices.row + c, t * (t + 1) / 2
        area, each = self.pairs + own, key - c * c / (2 * row)
        alone = c * t + (row + key) * (t + 0.5)
        keys = np.clip(np.sqrt(row * area / each), low + 0.5, high + 0.5)
        price = np.minimum(self._floor, row / (high + 0.5))
        few = key * (low - t) - row * (t + 0.5) - c * t - c * c / (2 * prices.pair) + prices.pair * own
        return [
            row * area / keys + each * keys - alone - self._savings(row, c) - at_price,
            price * area + each * (low + 0.5) - alone - at_price,
            np.where(row >= prices.pair * (high + 0.5), few - self._extra, -np.inf),
        ]

    @cached_property
    def _floor(self) -> Values:
        """What a pair of a first row costs with no more keys than these, at least."""
        return np.maximum(self.prices.row / self.high - self.prices.more, self.prices.least)

    @cached_property
    def _saved(self) -> Values:
        """By how much first rows are cheaper than others without a neighbour."""
        return self._savings(self.prices.row, 0 * self.prices.row)

    def _savings(self, row: Values, neighbour: Values) -> Values:
        """By how much first rows are cheaper than others that cost so much, for all of their pairs."""
        prices, low, high = self.prices, self.low, self.high
        seen, few = np.minimum(high, prices.first), np.minimum(high, prices.capped)
        slope = row / low + prices.more
        start = prices.row / slope
        found = np.where(few > start, slope * (few - start) ** 2 / 2 + slope * few - prices.row, 0.0)
        later = np.maximum(row / low - prices.least, 0.0) * ((seen**2 - prices.capped**2) / 2 + seen)
        found = found + np.where(seen > prices.capped, later, 0.0)
        after = np.where(prices.first > low, prices.first - low + 1, 0.0)
        return found + high * self._more_after(low, prices.first) + neighbour * after

    @cached_property
    def _extra(self) -> Values:
        """By how much first rows are worth more than they cost at the price of all pairs, together."""
        prices, high = self.prices, self.high
        seen, few, worth = np.minimum(high, prices.first), np.minimum(high, prices.capped), prices.pair + prices.more
        start = prices.row / worth
        found = np.where(few > start, worth * (few - start) ** 2 / 2 + worth * few - prices.row, 0.0)
        later = (prices.pair - prices.least) * ((seen**2 - prices.capped**2) / 2 + seen)
        found = found + np.where(seen > prices.capped, later, 0.0)
        # rows after the last of the keys: those that are worth their words
        left = prices.row / high - prices.pair + prices.least
        last = np.where(left > 0, np.minimum(prices.row / np.maximum(left, 1e-300), prices.first), prices.first)
        after = high * self._more_after(high, last) + (prices.pair * high - prices.row) * (last - high)
        return found + np.where((last > high) & (worth * high > prices.row), np.maximum(after, 0.0), 0.0)

    def _more_after(self, start: Values, stop: Values) -> Values:
        """What a pair of each row between two is worth more than others, together: no less than the sum."""
        prices = self.prices
        last = np.maximum(stop, prices.capped)
        begin = np.clip(start, prices.capped, last)
        capped = prices.more * (np.maximum(np.minimum(prices.capped, stop) - start, 0.0) + 1)
        found: Values = prices.row * np.log(last / begin) - prices.least * (last - begin) + capped
        return np.maximum(found, 0.0)


@lru_cache(maxsize=256)
def early_row_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words that devices exchange, at least, for work as even as this; 0 where these prices prove nothing.

    >>> head = CausalHeads(tokens=2**20, devices=64, heads=8, group=8, row_words=256, key_words=256)
    >>> round(early_row_words(head) / (8 * 256 * 2**20), 2)
    11.37
    """
    found = _by_first_rows(head, imbalance)
    if head.group == 1 and head.row_words < head.key_words:
        # with rows and keys, first and last tokens exchanged the mask is the same
        found = max(found, _by_first_rows(mirrored(head), imbalance))
    return found


def mirrored(head: CausalHeads) -> CausalHeads:
    """The same for one query head on a KV head with rows and keys, first and last tokens exchanged."""
    return replace(head, row_words=head.key_words, key_words=head.row_words)


def _by_first_rows(head: CausalHeads, imbalance: float) -> float:
    n, t, least = float(head.tokens), float(head.share), float(head.least_share)
    own, pairs = t * (t + 1) / 2, head.heads * n * (n + 1) / 2
    most = min(imbalance * pairs / head.devices - (head.heads - 1) * own, n * (n + 1) / 2) - own
    if head.devices < 2 or least < 1 or most <= 0:
        return 0.0
    row, key, g = float(head.group * head.row_words), float(head.key_words), float(head.group)
    choices = _ALONE if head.group == 1 else _GROUPED
    neighbour, of_key, part, lent = (np.array(each)[:, None, None] for each in zip(*choices, strict=True))
    neighbour, of_key = min(row, key) * neighbour, key * of_key
    lent = lent * neighbour
    # a pair word that is sent serves one pair of one query head
    dearest = np.maximum(g - (neighbour + of_key) / least, 0.0)
    low, high = np.zeros_like(part), np.minimum(4 * np.sqrt(row * key / most), dearest)
    for _ in range(_HALVINGS):
        middle = np.maximum((low + high) / 2, 1e-12)
        tried = EarlyRows(head=head, most=most, neighbour=neighbour, key=of_key, pair=middle, part=part, lent=lent)
        proven = tried.is_proven()[:, None, None]
        low, high = np.where(proven, middle, low), np.where(proven, high, middle)
    holds = (low > 0) & (dearest > 0)
    prices = EarlyRows(
        head=head, most=most, neighbour=neighbour, key=of_key, pair=np.where(holds, low, 1e-12), part=part, lent=lent
    )
    edges = head.heads * (neighbour * least * (head.devices - 1) + prices.worth())
    found = edges + prices.pair * (pairs - head.devices * head.heads * own)
    return max(0.0, float(np.where(holds, found, 0.0).max()))
