"""What one device must exchange to work on so many pairs: the lemma behind the bound on balanced work.

A device holds Y words of rows and X words of keys of a KV head: its own ones (home), those that it receives, and the
sums that it sends away. With those it makes at most Y·X/G pairs; a score that it receives is one pair more. Proof:
docs/theory/devices_balanced.md.
"""

from dataclasses import dataclass
from math import sqrt
from typing import assert_never

from attenio.masks import SlidingWindow
from attenio.workload import Direction, Workload


@dataclass(frozen=True, kw_only=True)
class HeadWords:
    """One KV head of one sequence with all query heads that share it, in words and in pairs.

    ``row_words`` and ``key_words`` are those of all rows and keys, ``pair_area`` is G: Y·X/G pairs at most.
    """

    row_words: float
    key_words: float
    pair_area: float
    pairs: float

    @classmethod
    def of(cls, workload: Workload) -> "HeadWords":
        """The head of a workload, for its direction."""
        row, key = row_and_key_words(workload)
        rows, heads = workload.group * workload.queries, workload.kv_heads * workload.batch
        return cls(
            row_words=float(rows * row),
            key_words=float(workload.keys * key),
            pair_area=_pair_area(workload),
            pairs=workload.scores / heads,
        )


@dataclass(frozen=True, kw_only=True)
class Home:
    """What a device has of one head without any exchange: words of rows and of keys.

    ``unseen`` are pairs of its own rows and keys that the mask does not require; it never makes those.
    """

    row_words: float
    key_words: float
    unseen: float = 0.0

    def pairs(self, head: HeadWords) -> float:
        """Pairs that a device makes of its own words at most."""
        return min(self.row_words * self.key_words / head.pair_area - self.unseen, head.pairs)


def row_and_key_words(workload: Workload) -> tuple[int, int]:
    """Words that belong to one row of a query head and to one key of a KV head: inputs and results."""
    d, value_dim = workload.d, workload.value_dim
    match workload.direction:
        case Direction.FORWARD:
            return d + value_dim, workload.key_words
        case Direction.BACKWARD:
            return 2 * d + value_dim, 2 * (d + value_dim)
        case Direction.TRAINING:
            return 2 * (d + value_dim), 2 * (d + value_dim)
        case _:
            assert_never(workload.direction)


def _pair_area(workload: Workload) -> float:
    """G: rows of Y words and keys of X words make at most Y·X/G pairs."""
    from attenio.bounds.backward.gradient_rows import weights

    d, value_dim = workload.d, workload.value_dim
    if workload.direction is not Direction.FORWARD:
        return float(weights(float(d), float(value_dim), step=workload.is_training)[2])
    if workload.values_in_keys:
        return float((d + value_dim) * d)
    return float((d + value_dim) ** 2 if value_dim <= d else 4 * d * value_dim)


def words_for_pairs(pairs: float, head: HeadWords, home: Home) -> float:
    """The least words that a device exchanges to make so many pairs of one head."""
    own = home.pairs(head)
    if pairs <= own:
        return 0.0
    area = (pairs + home.unseen) * head.pair_area
    # Y + area/Y is convex: its least value is at the square root, or at the end of the range that is closest to it
    least = max(home.row_words, area / head.key_words)
    most = min(head.row_words, area / home.key_words) if home.key_words else head.row_words
    rows = min(max(sqrt(area), least), max(most, least))
    by_rows = rows - home.row_words + max(area / rows, home.key_words) - home.key_words
    return min(by_rows, pairs - own)


def words_for_work(pairs: float, heads: int, head: HeadWords, home: Home) -> float:
    """The least words that a device exchanges to make so many pairs, of whichever heads.

    Where own rows are more words than all keys (or own keys than all rows), every pair beyond the own ones costs as
    much, whatever its head. Elsewhere the words for pairs of one head are concave beyond what is free, so it is best
    to work on few heads: on as many whole ones as the work has, on one more in part, on the others with own words only.
    """
    own = home.pairs(head)
    beyond, whole = pairs - heads * own, head.pairs - own
    if beyond <= 0 or whole <= 0:
        return 0.0
    if home.row_words >= head.key_words or home.key_words >= head.row_words:
        return beyond * min(head.pair_area / max(home.row_words, home.key_words), 1.0)
    full = min(int(beyond / whole), heads)
    rest = min(max(beyond - full * whole, 0.0), whole) if full < heads else 0.0
    return full * words_for_pairs(head.pairs, head, home) + words_for_pairs(own + rest, head, home)


def causal_price(workload: Workload, share: int) -> float:
    """Words that a device exchanges for each causal pair beyond those of its own ``share`` of tokens, at least.

    With x rows of a head and y keys, x + y > n, at least x + y - n tokens are in both, and half of their pairs are
    unseen. So the price is the largest one at which no x and y gain: docs/theory/devices_causal.md. Backward and for a
    step it holds for values that are no wider than keys.
    """
    n, group = workload.keys, workload.group
    row, key = row_and_key_words(workload)
    area = group * ((n * n + n) / 2 + 0.25 - share * (share + 1) / 2)
    line = (group * row + key) * (n + 0.5 - share)
    square = (group * row * row + key * key / group) / 2
    inside = line * line - 4 * area * square
    return 0.0 if inside < 0 or area <= 0 else min((line + sqrt(inside)) / (2 * area), 1.0)


def dense_price(workload: Workload, devices: int) -> float:
    """Words that devices exchange for each dense pair whose row and key have different homes, at least.

    A device with a rows of a head and b keys that are not its own has at most ab + t·min(a + b, n - t) such pairs. The
    price is the largest one at which no a and b gain: docs/theory/devices_balanced.md. It holds for values that are no
    wider than keys.
    """
    row, key = row_and_key_words(workload)
    least = workload.keys // devices
    return min(_price_for_share(workload, share, least, (row, key)) for share in {least, -(-workload.keys // devices)})


def _price_for_share(workload: Workload, share: int, least: int, words: tuple[int, int]) -> float:
    (row, key), g, rest = words, workload.group, float(workload.keys - share)
    if share == 0 or least == 0 or rest == 0:
        return 0.0

    def gains(price: float) -> bool:
        """Whether some a and b on the line a + b = rest are worth more than they cost."""
        a = min(max((key - g * row + price * g * rest) / (2 * price * g), 0.0), rest)
        return g * row * a + key * (rest - a) < price * g * (a * (rest - a) + share * rest)

    whole = (g * row + key) / (g * (rest + 2 * share - least))
    low, high = 0.0, min(row / share, key / (g * share), whole, 1.0)
    if not gains(high):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if gains(middle) else (middle, high)
    return low


def window_price(workload: Workload) -> float:
    """Words that a device exchanges for each pair under a window beyond those of its own tokens, at least.

    A key that it does not own is seen by ``width`` rows of each query head at most, and a row sees as many keys.
    """
    mask = workload.mask
    assert isinstance(mask, SlidingWindow)
    seen = mask.width if mask.causal else 2 * mask.width - 1
    return min((workload.d + workload.value_dim) / (seen * workload.group), 1.0)
