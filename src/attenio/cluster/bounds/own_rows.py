"""Causal work of few devices and many query heads on a KV head: late rows need late keys, and early ones are few.

Where rows are many words beside keys, devices work on their own rows. A row s sees s keys, whatever the device has, and
every row must be worked on. So a price w(s) is put on the pairs of each row, and a price e(y) on the pairs of a device
that has y keys; whatever prices are taken, they prove a bound. Proof: docs/theory/devices_causal.md.

Prices are words for a pair in units of k P/(g n), and lengths are parts of the sequence:

    e(y) = min(c / max(y, y0), max(a - 2y, b - ln(2y - 1))),    c = g r/(k P)

which a linear program found to be close to the best ones, and c/y where devices work on rows of others too. Of a few a,
b and y0 those are taken that prove most.

With several KV heads y is the mean over these, and a device may have all keys of one. The best prices then are flat for
few keys, fall where a device has more than half of them, and are a line from there on.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# How finely rows, keys, keys of the last kind of prices, and prices of rows are told apart.
_ROWS, _KEYS, _FINE, _PRICES = 48, 48, 256, 12
_STEEPNESS, _LOGARITHMS, _FLAT = (0.9, 1.0, 1.1), (-9.0, 1.5), (0.25, 0.42)
# Of prices with several KV heads: keys from which on they fall, prices before that, and lines after it.
_FALLS, _BEFORE, _LINES = (0.5, 0.55), (1.2, 1.5), ((2.2, 2.1), (2.6, 2.0))
# Own rows over all keys, in words, from which on devices work on own rows first, and on which these prices matter,
# on one KV head and on several.
_OWN_FIRST, _LEAST, _LEAST_OF_SEVERAL = 0.2, 0.05, 0.9


@dataclass(frozen=True, kw_only=True)
class OwnRows:
    """KV heads of n tokens with ``group`` query heads each, in words of a row and of a key, on so many devices."""

    tokens: int
    devices: int
    group: int
    row_words: int
    key_words: int
    heads: int = 1
    cells: int = _KEYS

    @property
    def weight(self) -> float:
        """Words of all rows that a device owns over those of all keys."""
        return self.group * self.row_words / (self.key_words * self.devices)

    @property
    def unit(self) -> float:
        """Words for a pair that make one price."""
        return self.key_words * self.devices / (self.group * self.tokens)

    @cached_property
    def share(self) -> int:
        """Tokens that a device owns at most."""
        return -(-self.tokens // self.devices)

    @cached_property
    def held(self) -> Values:
        """Numbers of keys between which the price of a device's pairs is the same."""
        return np.linspace(self.tokens // self.devices, self.tokens, self.cells + 1)

    @cached_property
    def corners(self) -> list[tuple[Values, Values, Values]]:
        """Keys y, own tokens a after a row, and what these are worth: where the least is, by row and by keys."""
        last, found, t = self.rows[1:, None], list[tuple[Values, Values, Values]](), float(self.share)
        low, high = self.held[None, :-1], self.held[None, 1:]
        for first, stop, worth, slope in ((0.0, t / 2, 3 * t / 8 - 1, -1.0), (t / 2, t, -t / 8 - 1, 0.0)):
            ends = [np.full((1, 1), each) for each in (first, stop)]
            at = [(y, a) for y in (low, high) for a in ends]
            at += [(np.clip(last + a, low, high), a) for a in ends]
            at += [(y, np.clip(y - last, first, stop)) for y in (low, high)]
            found += [(y, a, worth + slope * a) for y, a in at]
        return found

    @cached_property
    def rows(self) -> Values:
        """Rows between which the price of pairs is the same."""
        return np.floor(np.linspace(0, self.tokens, _ROWS + 1))


@lru_cache(maxsize=256)
def own_row_words(head: OwnRows, imbalance: float = 1.0) -> float:
    """Words that devices exchange, at least, for work as even as this; 0 where these prices prove nothing."""
    if head.weight < _LEAST or head.devices == 1 or head.share < 4:
        return 0.0
    if head.heads > 1:
        if head.weight < _LEAST_OF_SEVERAL:
            return 0.0
        several = product(_FALLS, (each * head.weight for each in _BEFORE), _LINES)
        return head.heads * max(0.0, *(_proven(head, _falling_prices(head, *kind), imbalance) for kind in several))
    found = [0.0]
    if head.weight >= _OWN_FIRST:
        tangent = 2 * sqrt(2 * head.weight)
        kinds = product((each * tangent for each in _STEEPNESS), _LOGARITHMS, _FLAT)
        found += [_proven(head, _prices(head, *kind), imbalance) for kind in kinds]
    finer = replace(head, cells=_FINE)
    found.append(_proven(finer, finer.unit * finer.weight * finer.tokens / finer.held[1:], imbalance))
    return max(found)


def _prices(head: OwnRows, steep: float, logarithm: float, flat: float) -> Values:
    keys = (head.held[1:] + head.held[:-1]) / (2 * head.tokens)
    falling = np.maximum(steep - 2 * keys, logarithm - np.log(np.maximum(2 * keys - 1, 1e-3)))
    most = head.weight / np.maximum(head.held[1:] / head.tokens, flat)
    return head.unit * np.maximum(np.minimum(falling, most), 0.0)


def _falling_prices(head: OwnRows, fall: float, before: float, line: tuple[float, float]) -> Values:
    keys = (head.held[1:] + head.held[:-1]) / (2 * head.tokens)
    return head.unit * np.where(keys < fall, before, np.maximum(line[0] - line[1] * keys, 0.0))


def _proven(head: OwnRows, price: Values, imbalance: float) -> float:
    """What prices of devices' pairs prove, each row's price being the best of a few."""
    n, g = float(head.tokens), head.group
    pairs = n * (n + 1) / 2
    first, last = head.rows[:-1], head.rows[1:]
    sums = (last * (last + 1) - first * (first + 1)) / 2
    # no row of another device and no score may be worth more than it costs; with several heads a device may have all
    # keys of one
    reach = np.minimum(last[:, None], head.held[None, 1:] if head.heads == 1 else head.tokens)
    most = np.minimum(head.row_words / np.maximum(reach, 1.0), 1.0) - price
    worth = [
        (
            head.key_words * (y / head.share - 1) + g * price * (pairs / (head.devices * head.share) + own),
            g * np.maximum(np.minimum(last[:, None], y - a), 0.0),
        )
        for y, a, own in head.corners
    ]
    best, dearest = np.full(len(last), -np.inf), most.min(axis=1)
    for given in (0.0, *-np.quantile(price, np.linspace(0, 1, _PRICES))):
        row = np.minimum(given, dearest)
        above = np.maximum(row[:, None] + price, 0.0)
        token = np.min([(of_keys - above * seen).min(axis=1) for of_keys, seen in worth], axis=0)
        best = np.maximum(best, g * sums * row + (last - first) * token)
    return float(best.sum() - (imbalance - 1) * price.max() * g * pairs)
