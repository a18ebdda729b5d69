"""First rows and last keys at once: their weights, what devices gain by them at most, and placements against it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.bounds.both_ends import _PRICES, BothEnds, End, both_ends_words
from attenio.cluster.bounds.causal_heads import CausalHeads, neighbour_words
from attenio.cluster.bounds.early_rows import early_row_words
from attenio.workload import Workload
from cluster.bounds.test_causal_heads import drawn, subsets

Numbers = NDArray[np.float64]


def ends(prices: BothEnds) -> tuple[Numbers, Numbers]:
    """What a pair of every row and of every key is worth more than others."""
    place = np.arange(1.0, prices.head.tokens + 1)
    rows, keys = (
        np.minimum(end.more, np.maximum(end.words / place - end.least, 0.0)) for end in (prices.rows, prices.keys)
    )
    return rows, keys[::-1]


def weights(prices: BothEnds, owner: tuple[int, ...]) -> Numbers:
    """What every row and key [row, key] of these homes are worth in draws, besides the price of pairs."""
    n, share, (rows, keys) = len(owner), prices.head.least_share, ends(prices)
    found = np.zeros((n, n))
    draws = list(product(*[[i for i in range(n) if owner[i] == p] for p in range(max(owner) + 1)]))
    for each in draws:
        some = sorted(each)
        for i in range(1, len(some)):
            for j in range(i):
                found[some[i], some[j]] += share * (rows[some[i]] + keys[some[j]])
            found[some[i], some[i - 1]] += prices.neighbour
    return share * found / len(draws)


def dearest(prices: BothEnds) -> BothEnds:
    """The same with the highest price of pairs that is proven, from the least on for which ends do not meet."""
    head = prices.head
    apart = (head.row_words - prices.neighbour) / prices.row_part + (
        head.key_words - prices.neighbour
    ) / prices.key_part
    proven, high = replace(prices, pair=1.000001 * apart / head.tokens), 4 * head.key_words / prices.most**0.5
    assert proven.is_proven()
    for _ in range(18):
        tried = replace(prices, pair=(proven.pair + high) / 2)
        proven, high = (tried, high) if tried.is_proven() else (proven, tried.pair)
    return proven


TWELVE = [
    (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5), (0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0), (0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5),
    (2, 0, 1, 1, 0, 5, 2, 4, 3, 5, 3, 4),
]  # fmt: skip
ELEVEN = [(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5), (5, 0, 1, 2, 3, 4, 4, 3, 2, 1, 0), (1, 3, 0, 4, 2, 2, 5, 0, 1, 3, 4)]
TEN = [(0, 0, 1, 1, 2, 2, 3, 3, 4, 4), (0, 1, 2, 3, 4, 4, 3, 2, 1, 0), (1, 0, 3, 2, 1, 4, 0, 2, 4, 3)]


@pytest.mark.parametrize(
    ("homes", "words", "of", "most"),
    [
        (TWELVE, (2, 3), (0.46, 0.41, 0.13, 0.87, 0.89), 4.0), (TWELVE, (3, 2), (0.3, 0.56, 0.2, 0.91, 0.93), 8.0),
        (TWELVE, (2, 2), (0.41, 0.03, 0.16, 0.94, 0.95), 20.0), (TWELVE, (2, 3), (0.08, 0.47, 0.62, 0.85, 0.94), 20.0),
        (ELEVEN, (3, 2), (0.45, 0.26, 0.2, 0.86, 0.98), 12.0), (TEN, (2, 2), (0.7, 0.33, 0.3, 0.87, 0.98), 8.0),
    ],
)  # fmt: skip
def test_no_rows_and_keys_of_any_device_are_worth_more_than_they_cost(
    homes: list[tuple[int, ...]], words: tuple[int, int], of: tuple[float, ...], most: float
) -> None:
    n, devices, (row, key) = len(homes[0]), max(homes[0]) + 1, words
    neighbour, of_rows, of_keys, row_part, key_part = of
    head = CausalHeads(tokens=n, devices=devices, heads=2, group=1, row_words=row, key_words=key)
    prices = dearest(
        BothEnds(
            head=head,
            most=most,
            neighbour=neighbour,
            of_rows=of_rows,
            of_keys=of_keys,
            pair=0.0,
            row_part=row_part,
            key_part=key_part,
        )
    )
    own_pairs = head.share * (head.share + 1) / 2
    for owner in homes:
        worth, all_pairs = weights(prices, owner), n * (n + 1) / 2 - devices * own_pairs
        assert prices.words() <= head.heads * (worth.sum() + prices.pair * all_pairs) + 1e-9
        for device in range(devices):
            own = np.array([each == device for each in owner])
            sets = np.ones((2 ** int((~own).sum()), n))
            sets[:, ~own] = subsets(int((~own).sum()))
            beyond = sets.sum(axis=1) - own.sum()
            made = np.clip(sets @ np.tri(n) @ sets.T - own_pairs, 0.0, most)
            paid = row * beyond[:, None] + key * beyond - sets @ worth @ sets.T
            assert (paid >= prices.pair * made - 1e-9).all()


def gained(end: End, price: float, keys: float) -> float:
    """By how much first rows are worth more than they cost, row by row."""
    place = np.arange(1.0, end.last + 1e-9)
    more = np.minimum(end.more, np.maximum(end.words / place - end.least, 0.0))
    return float(np.maximum((price + more) * np.minimum(place, keys) - end.words, 0.0).sum())


@pytest.mark.parametrize("seed", range(3))
def test_first_rows_gain_no_more_than_is_said_with_any_keys(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(400):
        n = int(random.integers(5, 400))
        words, more = random.uniform(1, 100), 10 ** random.uniform(-2, 1)
        end = End(words=words, more=more, least=words / n * 10 ** random.uniform(0.01, 1.5))
        price = end.least * 10 ** random.uniform(-0.5, 1)
        low, high = np.sort(random.uniform(0, 1.2 * end.last, 2))
        one = np.array(price)
        said = [float(end.gains(one, np.array(keys))) for keys in (low, high)]
        assert said[0] >= gained(end, price, low) - 1e-9 and said[1] >= gained(end, price, high) - 1e-9
        # more by a few rows at most
        assert said[1] <= gained(end, price, high) + 5 * max((price + more) * min(high, end.last), 0.0) + 1e-9
        part = random.random()
        line = (1 - part) * gained(end, price, low) + part * gained(end, price, high)
        between = float(end.between(one, np.array(low), np.array(high)))
        assert gained(end, price, low + part * (high - low)) <= line + between + 1e-9


@pytest.mark.parametrize(("devices", "row", "key", "of"), [(32, 2, 2, 0), (16, 3, 4, 1)])
def test_parts_of_rows_and_keys_come_close_to_the_price_of_pairs_and_not_below(
    devices: int, row: int, key: int, of: int
) -> None:
    """Tokens in order: the best parts of rows for given keys and of keys for given rows, in turn, from many sets on."""
    n, heads, each, random = 2**18, 8, 4, np.random.default_rng(devices)
    head = CausalHeads(tokens=n, devices=devices, heads=heads, group=1, row_words=64 * row, key_words=64 * key)
    neighbour, of_rows, row_part, of_keys, key_part = _PRICES[of]
    t, least = head.share, 64 * min(row, key)
    own_pairs = t * (t + 1) / 2
    most = heads * n * (n + 1) / 2 / devices - heads * own_pairs
    prices = dearest(
        BothEnds(
            head=head,
            most=most,
            neighbour=neighbour * least,
            of_rows=of_rows * 64 * key,
            of_keys=of_keys * 64 * row,
            pair=0.0,
            row_part=row_part,
            key_part=key_part,
        )
    )
    blocks, wide = each * devices, n // devices // each
    home, (of_row, of_key) = np.arange(blocks) // each, (one.reshape(blocks, wide).mean(axis=1) for one in ends(prices))
    worth = (home[:, None] > home) * (of_row[:, None] + of_key) + (home[:, None] == home + 1) * prices.neighbour / t
    worth, pairs = worth * wide**2, np.tri(blocks, k=-1) * float(wide**2) + np.eye(blocks) * wide * (wide + 1) / 2
    closest = np.inf
    for _ in range(60):
        mine = home == random.integers(devices)
        has = [mine.astype(float), np.maximum(mine, random.random(blocks) < random.random())]
        for turn in range(16):
            side, words = turn % 2, (row, key)[turn % 2] * 64 * wide
            made, gained = (m @ has[1] if side == 0 else has[0] @ m for m in (pairs, worth + prices.pair * pairs))
            left, has[side] = most + own_pairs - made[mine].sum(), mine.astype(float)
            for i in np.argsort(-np.where(mine, -1.0, (gained - words) / np.maximum(made, 1.0))):
                if left <= 0 or gained[i] <= words or mine[i]:
                    break
                has[side][i] = min(1.0, left / made[i])
                left -= made[i]
        beyond = 64 * wide * (row * has[0][~mine].sum() + key * has[1][~mine].sum()) - has[0] @ worth @ has[1]
        paid = beyond - prices.pair * max(min(has[0] @ pairs @ has[1] - own_pairs, most), 0.0)
        assert paid >= -1e-6 * prices.pair * most
        if has[0] @ pairs @ has[1] > own_pairs + 0.5 * most:
            closest = min(closest, paid / (prices.pair * most))
    assert closest < 0.01  # so that a price that is a hundredth too high would be found out


@settings(max_examples=9, deadline=None, derandomize=True)
@given(
    st.sampled_from([(4, 2), (8, 2), (6, 3), (8, 4), (6, 2)]), st.integers(0, 2**31), st.sampled_from([(2, 2), (3, 4)])
)
def test_no_placement_exchanges_less_for_its_balance(shape: tuple[int, int], seed: int, words: tuple[int, int]) -> None:
    random = np.random.default_rng(seed)
    placed, head = drawn((*shape, 1), random, words, share=6, scattered=seed % 2 == 1)
    for _ in range(6):
        assert both_ends_words(head, placed.imbalance) <= placed.words(*words)
        one, start = int(random.integers(head.heads)), int(random.integers(head.tokens))
        rows, keys = slice(start, start + head.tokens // 3), slice(0, int(random.integers(1, head.tokens)))
        placed.to_the_idlest(one, slice(None), rows, keys)


@pytest.mark.parametrize(
    ("heads", "devices", "direction", "gain"),
    [(8, 32, "forward", 1.008), (8, 16, "backward", 1.0025), (8, 64, "forward", 1.005), (32, 128, "forward", 1.008)],
)
def test_both_ends_ask_for_more_than_one(heads: int, devices: int, direction: str, gain: float) -> None:
    n, d = 2**18, 128
    work = Workload(n=n, d=d, heads=heads, mask="causal", direction=direction)
    row, key = (2 * d, 2 * d) if direction == "forward" else (3 * d, 4 * d)
    head = CausalHeads(tokens=n, devices=devices, heads=heads, group=1, row_words=row, key_words=key)
    both = both_ends_words(head)
    assert balanced_exchange(work, devices).words >= both > gain * max(neighbour_words(head), early_row_words(head))
    assert both_ends_words(head, 1.2) < both


def test_other_shapes_prove_nothing() -> None:
    shape = {"row_words": 8, "key_words": 8}
    one = CausalHeads(tokens=64, devices=1, heads=1, group=1, **shape)
    none = CausalHeads(tokens=7, devices=8, heads=4, group=1, **shape)
    dear = CausalHeads(tokens=16, devices=8, heads=4, group=1, **shape)
    several = CausalHeads(tokens=2**16, devices=32, heads=8, group=2, **shape)
    many = CausalHeads(tokens=2**16, devices=512, heads=8, group=1, **shape)
    assert [both_ends_words(each) for each in (one, none, dear, several, many)] == [0] * 5
