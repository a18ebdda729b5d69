"""First rows see few keys: their weights, what devices gain by them at most, and placements against the bound."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.cluster.bounds import balanced_exchange, early_rows
from attenio.cluster.bounds.causal_heads import CausalHeads, neighbour_words
from attenio.cluster.bounds.early_rows import EarlyRows, early_row_words, mirrored
from attenio.workload import Workload
from cluster.bounds.test_causal_heads import drawn, subsets

Numbers = NDArray[np.float64]


def prices_of(head: CausalHeads, most: float, *of: float) -> EarlyRows:
    """Prices of neighbours, of a key, of a pair, its least part, and what is lent."""
    neighbour, key, pair, part, lent = (np.full((1, 1, 1), each) for each in of)
    return EarlyRows(head=head, most=most, neighbour=neighbour, key=key, pair=pair, part=part, lent=lent)


def weights(prices: EarlyRows, owner: tuple[int, ...]) -> Numbers:
    """What every row and key [row, key] of these homes are worth in draws, besides the price of pairs."""
    n, share = len(owner), prices.head.least_share
    place = np.arange(1, n + 1)
    row, least = (float(each[0, 0, 0]) for each in (prices.row, prices.least))
    neighbour, key, lent = (float(each[0, 0, 0]) for each in (prices.neighbour, prices.key, prices.lent))
    first = np.minimum(key, share * np.maximum(row / place - least, 0.0))
    found = np.zeros((n, n))
    homes = [[i for i in range(n) if owner[i] == p] for p in range(max(owner) + 1)]
    draws = list(product(*homes))
    for each in draws:
        drawn = sorted(each)
        for i in range(1, len(drawn)):
            for j in range(i - 1):
                found[drawn[i], drawn[j]] += first[drawn[i]]
            found[drawn[i], drawn[i - 1]] += neighbour + max(first[drawn[i]] - lent, 0.0)
    return share * found / len(draws)


HOMES = [
    (0, 0, 1, 1, 2, 2, 3, 3), (0, 1, 2, 3, 3, 2, 1, 0), (0, 1, 2, 3, 0, 1, 2, 3), (0, 1, 1, 0, 3, 2, 3, 2),
    (0, 0, 0, 1, 1, 1, 2, 2, 2), (0, 1, 2, 2, 1, 0, 0, 1, 2), (0, 0, 0, 1, 1, 1, 2, 2), (1, 0, 2, 1, 0, 1, 0, 2),
]  # fmt: skip


@pytest.mark.parametrize("owner", HOMES)
@pytest.mark.parametrize("of", [(1.0, 1.5, 0.6, 0.0), (2.0, 1.5, 0.8, 1.0), (0.5, 2.5, 0.7, 0.5), (2.0, 1.0, 0.5, 0.0)])
def test_no_rows_and_keys_of_any_device_are_worth_more_than_they_cost(
    owner: tuple[int, ...], of: tuple[float, float, float, float]
) -> None:
    n, devices, group = len(owner), max(owner) + 1, 3
    head = CausalHeads(tokens=n, devices=devices, heads=2, group=group, row_words=3, key_words=4)
    t, rho, key = head.share, 9.0, 4.0
    own_pairs, most = t * (t + 1) / 2, 12.0
    neighbour, of_key, part, lent = of
    # the dearest pairs that are proven, and no less than what neighbours alone prove
    low, high = 0.0, 8.0
    for _ in range(20):
        middle = (low + high) / 2
        proven = bool(prices_of(head, most, neighbour, of_key, middle, part, lent).is_proven()[0])
        low, high = (middle, high) if proven else (low, middle)
    assert low > 0
    prices = prices_of(head, most, neighbour, of_key, low, part, lent)
    worth, sets = weights(prices, owner), subsets(n).astype(np.float64)
    assert worth.sum() >= neighbour * head.least_share * (devices - 1) + float(prices.worth()[0, 0, 0]) - 1e-9
    pairs, gained = sets @ np.tri(n) @ sets.T, sets @ worth @ sets.T
    for device in range(devices):
        own = np.array([each == device for each in owner])
        has = sets[:, own].all(axis=1)
        beyond = sets[has].sum(axis=1) - own.sum()
        words = rho * beyond[:, None] + key * beyond[None]
        made = np.minimum(pairs[np.ix_(has, has)] - own_pairs, most)
        assert (words - gained[np.ix_(has, has)] >= low * np.maximum(made, 0.0) - 1e-9).all()


@pytest.mark.parametrize("owner", HOMES)
@pytest.mark.parametrize("of", [(1.0, 1.5, 0.6, 0.0), (1.5, 1.0, 0.8, 1.0), (0.5, 2.0, 0.7, 0.5), (2.0, 0.5, 0.5, 0.0)])
def test_no_rows_and_keys_are_worth_more_than_they_cost_by_the_prices_of_last_keys(
    owner: tuple[int, ...], of: tuple[float, float, float, float]
) -> None:
    n, devices, (row, key), most = len(owner), max(owner) + 1, (3.0, 4.0), 12.0
    head = CausalHeads(tokens=n, devices=devices, heads=2, group=1, row_words=3, key_words=4)
    (neighbour, of_row, part, lent), image = of, mirrored(head)
    low, high = 0.0, 8.0
    for _ in range(20):
        middle = (low + high) / 2
        proven = bool(prices_of(image, most, neighbour, of_row, middle, part, lent).is_proven()[0])
        low, high = (middle, high) if proven else (low, middle)
    assert low > 0
    prices = prices_of(image, most, neighbour, of_row, low, part, lent)
    # weights of the mirror image, with row i called key n + 1 - i there; rows and keys of devices are those of owners
    worth, sets = weights(prices, owner[::-1])[::-1, ::-1].T, subsets(n).astype(np.float64)
    pairs, gained = sets @ np.tri(n) @ sets.T, sets @ worth @ sets.T
    assert (worth[~np.tri(n, dtype=bool)] == 0).all()
    for device in range(devices):
        own = np.array([each == device for each in owner])
        has = sets[:, own].all(axis=1)
        beyond = sets[has].sum(axis=1) - own.sum()
        words = row * beyond[:, None] + key * beyond[None]
        made = np.minimum(pairs[np.ix_(has, has)] - head.share * (head.share + 1) / 2, most)
        assert (words - gained[np.ix_(has, has)] >= low * np.maximum(made, 0.0) - 1e-9).all()


@pytest.mark.parametrize(("devices", "gain"), [(16, 1.005), (32, 1.005)])
def test_last_keys_ask_for_more_than_neighbours_and_first_rows_where_keys_are_more_words(
    devices: int, gain: float
) -> None:
    head = CausalHeads(tokens=2**18, devices=devices, heads=8, group=1, row_words=384, key_words=512)
    assert early_row_words(head) > gain * max(neighbour_words(head), early_rows._by_first_rows(head, 1.0))
    several = CausalHeads(tokens=2**18, devices=devices, heads=8, group=2, row_words=192, key_words=512)
    assert early_row_words(several) == early_rows._by_first_rows(several, 1.0)


def test_first_rows_are_worth_what_all_draws_say_at_least() -> None:
    for owner in HOMES:
        head = CausalHeads(tokens=len(owner), devices=max(owner) + 1, heads=2, group=4, row_words=3, key_words=4)
        for of in ((0.5, 1.5, 0.8, 0.5, 0.0), (1.5, 3.0, 1.2, 0.6, 1.5), (1.0, 4.0, 0.7, 0.9, 0.5)):
            prices = prices_of(head, 10.0, *of)
            all_draws = weights(prices, owner).sum()
            assert of[0] * head.least_share * (head.devices - 1) + float(prices.worth()[0, 0, 0]) <= all_draws + 1e-9


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    st.sampled_from([(4, 2, 2), (4, 2, 4), (8, 2, 4), (4, 4, 1), (8, 2, 8), (6, 3, 4), (8, 4, 1), (4, 2, 1)]),
    st.integers(0, 2**31),
    st.sampled_from([(2, 2), (3, 4)]),
)
def test_no_placement_exchanges_less_for_its_balance(
    shape: tuple[int, int, int], seed: int, words: tuple[int, int]
) -> None:
    random = np.random.default_rng(seed)
    placed, head = drawn(shape, random, words, share=4, scattered=seed % 2 == 1)
    if seed % 3 == 0:  # own rows, all heads
        placed.maker = np.where(placed.maker >= 0, placed.owner[:, None], -1)
    # rows of a head, late ones first, go to the device that has least to do
    for _ in range(8):
        assert early_row_words(head, placed.imbalance) <= placed.words(*words)
        one, start = int(random.integers(head.heads)), int(random.integers(head.tokens))
        placed.to_the_idlest(one, slice(None), slice(start, start + head.tokens // 3))


@pytest.mark.parametrize(
    ("heads", "kv_heads", "devices", "direction", "gain"),
    [
        (64, 8, 64, "forward", 1.03), (64, 8, 64, "backward", 1.03), (64, 8, 128, "forward", 1.04),
        (32, 8, 32, "backward", 1.02), (32, 8, 64, "forward", 1.03), (32, 32, 128, "forward", 1.005),
    ],
)  # fmt: skip
def test_first_rows_ask_for_more_than_neighbours_where_rows_are_many_words(
    heads: int, kv_heads: int, devices: int, direction: str, gain: float
) -> None:
    n, d = 2**18, 128
    work = Workload(n=n, d=d, heads=heads, kv_heads=kv_heads, mask="causal", direction=direction)
    row, key = (2 * d, 2 * d) if direction == "forward" else (3 * d, 4 * d)
    head = CausalHeads(tokens=n, devices=devices, heads=kv_heads, group=heads // kv_heads, row_words=row, key_words=key)
    assert balanced_exchange(work, devices).words >= early_row_words(head) > gain * neighbour_words(head)


def test_two_sequences_exchange_twice_as_much() -> None:
    one, two = (
        CausalHeads(tokens=2**16, devices=64, heads=heads, group=8, row_words=256, key_words=256) for heads in (8, 16)
    )
    assert early_row_words(two) > 1.5 * early_row_words(one) > 0


def test_one_device_shares_of_nothing_and_pairs_dearer_than_a_word_prove_nothing() -> None:
    shape = {"heads": 4, "row_words": 8, "key_words": 8}
    one = CausalHeads(tokens=64, devices=1, group=4, **shape)
    none = CausalHeads(tokens=3, devices=4, group=4, **shape)
    dear = CausalHeads(tokens=8, devices=8, group=1, **shape)
    assert [early_row_words(each) for each in (one, none, dear)] == [0, 0, 0]


def test_less_even_work_proves_less() -> None:
    head = CausalHeads(tokens=2**16, devices=64, heads=8, group=8, row_words=256, key_words=256)
    found = [early_row_words(head, each) for each in (1.0, 1.1, 1.5, 3.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 1.02 * found[1] > 0


@pytest.mark.parametrize(
    ("devices", "heads", "group", "row", "key"), [(64, 8, 8, 2, 2), (32, 8, 4, 3, 4), (64, 16, 1, 2, 2)]
)
def test_no_search_over_blocks_finds_rows_and_keys_that_are_worth_more(
    devices: int, heads: int, group: int, row: int, key: int
) -> None:
    """Tokens in order and whole blocks of them: what a device has, changed at random as long as it pays less."""
    random, n = np.random.default_rng(devices + group), 2**16
    head = CausalHeads(tokens=n, devices=devices, heads=heads, group=group, row_words=64 * row, key_words=64 * key)
    t = head.share
    own = t * (t + 1) / 2
    most = heads * n * (n + 1) / 2 / devices - heads * own
    neighbour, of_key, part, lent = (early_rows._ALONE if group == 1 else early_rows._GROUPED)[0]
    of = (neighbour * min(group * row, key) * 64, of_key * key * 64)
    low, high = 0.0, float(group)
    for _ in range(24):
        middle = (low + high) / 2
        proven = bool(prices_of(head, most, *of, middle, part, lent * of[0]).is_proven()[0])
        low, high = (middle, high) if proven else (low, middle)
    first = np.clip(t * ((group * row * 64 - of[0]) / np.arange(1, n + 1) - part * low), 0, of[1])
    far, near = first.reshape(devices, t).mean(axis=1), np.maximum(first - lent * of[0], 0).reshape(devices, t)
    worth = t * np.tri(devices, k=-1) * far[:, None]
    worth[np.arange(1, devices), np.arange(devices - 1)] = t * (of[0] + near.mean(axis=1)[1:])
    pairs = np.tri(devices, k=-1) * float(t) * t + np.eye(devices) * own
    closest = np.inf
    for _ in range(12):
        mine = np.arange(devices) == random.integers(devices)
        rows, keys = mine | (np.arange(devices) >= random.integers(devices)), mine | (random.random(devices) < 0.7)
        least = np.inf
        for _ in range(500):
            has = [rows.copy(), keys.copy()]
            one, (start, stop) = has[int(random.integers(2))], sorted(random.integers(0, devices + 1, 2).tolist())
            one[start : stop if random.random() < 0.5 else start + 1] ^= True
            x, y = ((each | mine).astype(float) for each in has)
            made = min(float(x @ pairs @ y) - own, most)
            if made < 0.5 * most < np.inf and least < np.inf:
                continue
            left = 64 * t * (group * row * (x.sum() - 1) + key * (y.sum() - 1)) - x @ worth @ y - low * made
            if left < least:
                rows, keys, least = x > 0, y > 0, left
        assert least >= 0
        closest = min(closest, least / (low * most))
    assert closest < 0.25  # so that a price that is a quarter too high would be found out
