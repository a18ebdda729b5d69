"""Causal work on heads with keys of their own: first rows see few keys and few rows see last keys, both at once.

Pairs of first rows and pairs of last keys with tokens of other homes have prices of their own, besides one for pairs of
neighbours and one for all pairs. First rows do not see last keys, so that these are different pairs. A device may have
any rows and keys: ranges of x rows that are not first and of y keys that are not last are looked at one by one.
Proof: docs/theory/devices_causal_heads.md#both-ends.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.bounds.causal_heads import CausalHeads, Values, neighbour_words
from attenio.cluster.bounds.early_rows import EarlyRows, early_row_words, mirrored

Choices = NDArray[np.bool_]

# Prices that are tried: of neighbours, in words of a row or a key, whichever are fewer; of first rows for a key, in its
# words, and which part of the price of pairs theirs cost at least; the same of last keys for a row.
_PRICES = (
    (0.42, 0.323, 0.611, 0.323, 0.611), (0.637, 0.101, 0.66, 0.128, 0.629), (0.564, 0.088, 0.659, 0.088, 0.659),
)  # fmt: skip
# Rows and keys are cut into ranges: so many for each of the first shares of a device, and so many for all others.
_STEPS, _NEAR, _RANGES = 8, 5, 48
# Which parts of the price of pairs are tried for devices with more pairs than a share.
_PARTS = np.concatenate([np.geomspace(0.15, 0.4, 6), np.linspace(0.42, 0.76, 26), np.linspace(0.8, 1.0, 4)])
# How often the range of a price is halved: without a proof, and with one, up to so much more than without these prices.
_PRICE_HALVINGS, _HALVINGS, _MORE = 40, 7, 1.05
# Devices a head beyond which nothing is gained.
_MOST_DEVICES = 8


@dataclass(frozen=True, kw_only=True)
class End:
    """First rows: their words without a neighbour, what one is worth to a key, and what its pairs cost at least."""

    words: float
    more: float  # what pairs of the very first rows are worth more than others
    least: float

    @property
    def last(self) -> float:
        """The last of the first rows."""
        return self.words / self.least

    def gains(self, price: Values, keys: Values) -> Values:
        """By how much first rows are worth more than they cost at a price of pairs, with so many keys, at most."""
        beyond, worth = price - self.least, price + self.more
        capped = self.words / (self.more + self.least)
        few, start = np.minimum(keys, capped), self.words / worth
        found = np.where(few > start, worth * (few - start) ** 2 / 2 + worth * few - self.words, 0.0)
        seen = np.minimum(keys, self.last)
        found = found + np.where(seen > capped, np.maximum(beyond, 0) * ((seen**2 - capped**2) / 2 + seen), 0.0)
        # rows after the last of the keys: first those that are worth as much as the very first ones
        found = found + np.maximum(worth * keys - self.words, 0.0) * np.where(keys < capped, capped - keys + 1, 0.0)
        begin, left = np.maximum(keys, capped), self.words - beyond * keys
        # up to where they are worth no more than their words
        last = np.where(
            left * self.last > self.words * keys, self.words * keys / np.where(left > 0, left, 1.0), self.last
        )
        end = np.maximum(last, begin)
        after = self.words * keys * np.log(end / begin) - left * (end - begin)
        at_once = np.maximum(self.words * keys / begin - left, 0.0)
        every: Values = found + np.where(begin < self.last, np.maximum(after, 0.0) + at_once, 0.0)
        return every

    def between(self, price: Values, low: Values, high: Values) -> Values:
        """By how much that is more, between two numbers of keys, than a straight line between both, at most."""
        more, wide = np.minimum(self.more, np.maximum(self.words / np.maximum(low, 1.0) - self.least, 0.0)), high - low
        return np.where(low < self.last, (price + more) * (wide * wide / 6 + wide / 4), 0.0)


@dataclass(frozen=True, kw_only=True)
class BothEnds:
    """Prices in words: of neighbours, of first rows for a key and of last keys for a row at most, and of pairs."""

    head: CausalHeads
    most: float  # pairs beyond own ones that a device makes of one head
    neighbour: float
    of_rows: float
    of_keys: float
    pair: float
    row_part: float
    key_part: float

    @cached_property
    def rows(self) -> End:
        """First rows."""
        words = self.head.row_words - self.neighbour
        return End(
            words=words,
            more=self.of_rows / self.head.least_share,
            least=self.row_part * self.pair,
        )

    @cached_property
    def keys(self) -> End:
        """Last keys."""
        words = self.head.key_words - self.neighbour
        return End(
            words=words,
            more=self.of_keys / self.head.least_share,
            least=self.key_part * self.pair,
        )

    def words(self) -> float:
        """Words that devices exchange, at least, if no rows and keys of a device are worth more than they cost."""
        head, n, t = self.head, float(self.head.tokens), float(self.head.share)
        pairs = n * (n + 1) / 2 - head.devices * t * (t + 1) / 2
        between = self.neighbour * head.least_share * (head.devices - 1)
        ends = self._worth(head, self.of_rows, self.row_part) + self._worth(mirrored(head), self.of_keys, self.key_part)
        return head.heads * (between + ends + self.pair * pairs)

    def _worth(self, head: CausalHeads, of_key: float, part: float) -> float:
        neighbour, key, pair, part_of, lent = (
            np.array(each) for each in (self.neighbour, of_key, self.pair, part, 0.0)
        )
        rows = EarlyRows(head=head, most=self.most, neighbour=neighbour, key=key, pair=pair, part=part_of, lent=lent)
        return float(rows.worth())

    @property
    def is_for_pair_words(self) -> bool:
        """Whether no pair is worth more than a word, which a device may get for it."""
        dearest = self.neighbour + max(self.of_rows, self.of_keys)
        return self.pair + dearest / self.head.least_share <= 1

    @property
    def _are_apart(self) -> bool:
        """Whether first rows are before last keys, and no key and no row gets more than its words from own tokens."""
        fits = self.of_rows <= self.keys.words and self.of_keys <= self.rows.words
        return fits and self.rows.last + self.keys.last <= self.head.tokens

    def is_proven(self) -> bool:
        """Whether no rows and keys of a device are worth more than they cost."""
        if not self._are_apart:
            return False
        t, n = float(self.head.share), self.head.tokens + 1.0
        far = min(_NEAR * t, n)
        # up to where no end gains anything
        starts = [min((1 - 1e-9) * end.words / (self.pair + end.more), n) for end in (self.rows, self.keys)]
        fewer, near = np.linspace(0.0, t, _STEPS, endpoint=False), np.linspace(t, far, _STEPS * (_NEAR - 1) + 1)
        edges = np.sort(np.concatenate([fewer, near, np.geomspace(far, n, _RANGES + 1)[1:], starts]))
        shared, own = self._ranges_shared(edges), self._ranges_own(edges)
        # own first rows and own last keys are among x and y there, but not here: so many fewer
        low = np.maximum(np.searchsorted(edges, edges[:-1] - t, side="right") - 1, 0)
        failed = np.zeros((len(edges), len(edges)), dtype=np.int64)
        failed[1:, 1:] = np.cumsum(np.cumsum(~shared, axis=0), axis=1)
        after = np.arange(1, len(edges), dtype=np.int64)
        a, b = np.ix_(low, low), np.ix_(after, after)
        around = failed[b] - failed[np.ix_(low, after)] - failed[np.ix_(after, low)] + failed[a]
        inside = edges[:-1] >= t
        return bool((own | (around == 0))[np.ix_(inside, inside)].all())

    def _left(self, edges: Values, words: tuple[float, float], area: tuple[float, float], parts: Values) -> Values:
        """What ranges [part, keys, rows] cost at least beyond the price of their pairs, first rows and last keys paid.

        A row and a key have so many words, and ``area`` is what is added to both for their product, and taken off it.
        """
        row, key = words
        (more, less), t = area, float(self.head.share)
        price = (self.pair * parts)[:, None, None]
        x, y = edges[None, None, :], edges[None, :, None]
        cost, of_rows, of_keys = (
            row * (x - t) + key * (y - t) - price * ((x + more) * (y + more) - less),
            self.rows.gains(price, y),
            self.keys.gains(price, x),
        )
        # ends at the more expensive edge of a range, or along straight lines and what they are more than these
        at_most = _least(cost) - of_rows[:, 1:] - of_keys[:, :, 1:]
        between = self.rows.between(price, y[:, :-1], y[:, 1:]) + self.keys.between(price, x[:, :, :-1], x[:, :, 1:])
        found: Values = np.maximum(at_most, _least(cost - of_rows - of_keys) - between)
        return found - (self.pair - price) * self.most

    def _ranges_shared(self, edges: Values) -> Choices:
        """Ranges [keys, rows] that are proven with neighbours by the pairs between them that are not seen."""
        head, c, t = self.head, self.neighbour, float(self.head.share)
        alone = c * t + c * c / (2 * self.pair * _PARTS[:, None, None])
        left = self._left(edges, (head.row_words, head.key_words), (0.5, t * (t + 1) / 2), _PARTS)
        return np.asarray((left - alone >= 0).any(axis=0))

    def _ranges_own(self, edges: Values) -> Choices:
        """Ranges [keys, rows] that are proven with neighbours charged to rows and keys of others."""
        head, c, t = self.head, self.neighbour, float(self.head.share)
        found = np.zeros((len(edges) - 1, len(edges) - 1), dtype=bool)
        for row, key, alone in ((c, c, 0.0), (c, 0.0, c * t), (0.0, c, c * t)):
            words = head.row_words - row, head.key_words - key
            by_rows = words[0], words[1] - self.of_rows  # own tokens are first rows, or last keys
            by_keys = words[0] - self.of_keys, words[1]
            left = [self._left(edges, each, (0.0, t * t), _PARTS[-1:]) - alone for each in (by_rows, by_keys)]
            found |= (np.minimum(*left) >= 0).any(axis=0)
        return found


def _least(values: Values) -> Values:
    """The least of the four corners of ranges of the last two axes."""
    along = np.minimum(values[:, :-1], values[:, 1:])
    return np.minimum(along[:, :, :-1], along[:, :, 1:])


@lru_cache(maxsize=256)
def both_ends_words(head: CausalHeads, imbalance: float = 1.0) -> float:
    """Words that devices exchange, at least, for work as even as this; 0 where that is no more than with one end.

    >>> head = CausalHeads(tokens=2**20, devices=32, heads=8, group=1, row_words=256, key_words=256)
    >>> round(both_ends_words(head) / (8 * 256 * 2**20), 2)
    2.83
    """
    n, t = float(head.tokens), float(head.share)
    own, pairs = t * (t + 1) / 2, head.heads * n * (n + 1) / 2
    most = min(imbalance * pairs / head.devices - (head.heads - 1) * own, n * (n + 1) / 2) - own
    few = head.heads < head.devices <= _MOST_DEVICES * head.heads
    if head.group != 1 or not few or head.least_share < 1 or most <= 0:
        return 0.0
    beyond = found = max(neighbour_words(head, imbalance), early_row_words(head, imbalance))
    for neighbour, of_rows, row_part, of_keys, key_part in _PRICES:
        prices = BothEnds(
            head=head,
            most=most,
            neighbour=neighbour * min(head.row_words, head.key_words),
            of_rows=of_rows * head.key_words,
            of_keys=of_keys * head.row_words,
            pair=0.0,
            row_part=row_part,
            key_part=key_part,
        )
        found = max(found, _most_words(prices, found))
    return found if found > beyond else 0.0


def _most_words(prices: BothEnds, beyond: float) -> float:
    """Words by the highest price of a pair that is proven, if these are more than others; 0 if not."""
    low, high = 0.0, 1.0
    for _ in range(_PRICE_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if replace(prices, pair=middle).words() > beyond else (middle, high)
    proven = replace(prices, pair=high)
    if not _holds(proven):
        return 0.0
    high *= _MORE
    for _ in range(_HALVINGS):
        tried = replace(prices, pair=(proven.pair + high) / 2)
        proven, high = (tried, high) if _holds(tried) else (proven, tried.pair)
    return proven.words()


def _holds(prices: BothEnds) -> bool:
    return prices.is_for_pair_words and prices.is_proven()
