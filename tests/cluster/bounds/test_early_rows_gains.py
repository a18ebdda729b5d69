"""What a device pays beyond what its pairs are worth: closed forms for ranges of keys against the best rows."""

import numpy as np
import pytest
from numpy.typing import NDArray

from attenio.cluster.bounds.causal_heads import CausalHeads
from attenio.cluster.bounds.early_rows import EarlyRows, _Gains

Numbers = NDArray[np.float64]


def cheapest(pairs: float, words: Numbers, made: Numbers, price: float) -> float:
    """The fewest words for so many pairs: first rows in whole or in part, and all other rows at a price for a pair."""
    paid = 0.0
    for i in np.argsort(words / made):
        if pairs <= 0 or words[i] >= price * made[i]:
            break
        part = min(1.0, pairs / made[i])
        paid, pairs = paid + part * words[i], pairs - part * made[i]
    return paid + price * max(pairs, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_no_closed_form_asks_for_more_than_the_best_rows_cost(seed: int) -> None:
    random, asked = np.random.default_rng(seed), np.zeros(4, dtype=int)
    for _ in range(300):
        devices, group = int(random.integers(2, 12)), int(random.choice([1, 2, 4, 8, 16]))
        n, (r, k) = int(random.integers(2 * devices, 200)), random.choice([(2, 2), (3, 4), (5, 3), (1, 6)])
        head = CausalHeads(tokens=n, devices=devices, heads=3, group=group, row_words=int(r), key_words=int(k))
        t, rho = head.share, float(group * r)
        c, w, part = random.random() * min(rho, k) * 0.95, random.random() * k, random.uniform(0.05, 1)
        lent, pair = random.random() * c, rho / n * 10 ** random.uniform(-0.5, 1)
        low = t + (n + 1 - t) * random.random() ** 2
        high = min(n + 1.0, low + 0.1 * random.random() * low)
        y, beyond, row, least = random.uniform(low, high), n * n / 2 * random.random() ** 3, rho - c, part * pair
        prices = EarlyRows(
            head=head, most=n * n / 2.0,
            **{name: np.full((1, 1, 1), each) for name, each in
               (("neighbour", c), ("key", w), ("pair", pair), ("part", part), ("lent", lent))},
        )  # fmt: skip
        gains = _Gains(prices=prices, low=np.array([[low]]), high=np.array([[high]]), pairs=np.array([beyond]))
        said = np.array([np.broadcast_to(each, (1, 1, 1))[0, 0, 0] for each in gains.kinds()])
        # the first rows, the pairs that they make, and what they cost beyond what these are worth
        place = np.arange(1.0, min(row / least, n) + 1e-9)
        made = np.minimum(place, y)
        words = row - np.minimum(w / head.least_share, row / place - least) * made
        others, own = beyond - t * (y - t), t * (t + 1) / 2
        exact = [
            (k - c - max(w - lent, 0.0)) * (y - t) + cheapest(others, words, made, row / y),
            (k - w) * (y - t) - c * t + cheapest(others, words, made, row / y),
            (k - c - w) * (y - t) - c * t + cheapest(others, words + c, made, rho / y),
            k * (y - t) - rho * (t + 0.5) - c * t - c * c * (y + 0.5) / (2 * rho)
            + cheapest(beyond + own, words, made, rho / (y + 0.5)),
        ]  # fmt: skip
        for kind, least_words in enumerate(exact):
            proves = said[3 * kind : 3 * kind + 3].max()
            # what is less than nothing proves nothing
            assert proves <= max(least_words - pair * beyond, 0.0) + 1e-9 * rho * n
            asked[kind] += proves > 0
        # own first rows by themselves, all others at the price of pairs or not at all
        tokens = np.arange(1.0, n + 1)
        more = np.minimum(w / head.least_share, np.maximum(row / tokens - least, 0.0))
        mine = t * ((pair + more) * np.minimum(tokens, y)).max()
        alone = k * (y - t) - c * t - mine + pair * own - np.maximum(pair * made - words, 0.0).sum()
        assert said[-1] <= alone + 1e-9 * rho * n
    assert (asked > 5).all()
