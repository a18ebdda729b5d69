"""Premiums on late rows: no rows and keys gain a device more than its own tokens may, and no placement sends less."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.bounds.causal_heads import CausalHeads
from attenio.cluster.bounds.late_rows import LateRows, late_row_words
from attenio.cluster.patches import best_patches
from attenio.workload import Workload
from cluster.bounds.test_causal_heads import drawn, subsets

# A premium, what is taken off last rows, and what a device pays.
PRICES = ((0.25, 1.0, 0.0), (0.25, 0.5, 0.2), (0.5, 0.5, 0.25), (0.5, 0.0, 0.5), (1.0, 0.7, 0.4), (1.0, 0.3, 1.0))


@pytest.mark.parametrize(
    ("tokens", "devices", "group", "first"), [(8, 4, 2, 3), (9, 3, 3, 4), (8, 2, 3, 4), (9, 4, 6, 4)]
)
def test_no_rows_and_keys_of_any_device_gain_more_than_its_own_tokens_may(
    tokens: int, devices: int, group: int, first: int
) -> None:
    head = CausalHeads(tokens=tokens, devices=devices, heads=2, group=group, row_words=3, key_words=3)
    t, every, place = head.share, subsets(tokens), np.arange(1, tokens + 1)
    for own, (premium, taken, paid) in product(combinations(range(tokens), t), PRICES):
        prices = LateRows(head=head, first=float(first), premium=premium, taken=taken)
        part = np.array([float((place[list(own)] > first).mean())])
        sets = every[every[:, own].all(axis=1)].astype(float)
        keys = sets.sum(axis=1)
        words = prices.row_pairs / t * (keys - t)[:, None] + (keys - t)[None]
        price = 1 - taken * np.maximum(1 - prices.row_pairs / place, 0) + premium * (place > first)
        assert prices.pairs() == pytest.approx((price * place).sum())
        worth = sets @ (np.tri(tokens) * np.maximum(price - paid, 0)[:, None]) @ sets.T / t
        assert ((worth - words).max(axis=0) <= prices.gains(part, np.array([paid]), keys) + 1e-9).all()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**31), st.integers(2, 12), st.integers(2, 24))
def test_gains_are_those_of_own_rows_and_of_late_rows_one_by_one_and_little_more(
    seed: int, devices: int, group: int
) -> None:
    random = np.random.default_rng(seed)
    head = CausalHeads(tokens=64 * devices, devices=devices, heads=2, group=group, row_words=3, key_words=4)
    t, premium, taken, paid = head.share, *random.random(2), random.random()
    paid, first = paid * premium, int(min(random.random() * head.tokens, group * 3 * t / 4))
    prices = LateRows(head=head, first=float(first), premium=premium, taken=taken)
    late_tokens, keys = int(random.integers(t + 1)), int(random.integers(t, head.tokens + 1))
    row, late, place = prices.row_pairs, 1 + premium - paid, np.arange(1, head.tokens + 1)
    price = late - taken * np.maximum(1 - row / place, 0)
    others = np.maximum(price * np.minimum(place, keys) - row, 0)[first:]
    after = keys - np.arange(t)
    own = np.where(np.arange(t) < late_tokens, np.minimum(row, late * after), (1 - paid) * np.minimum(first, after))
    direct = (own.sum() + others.sum()) / t - (keys - t)
    found = float(prices.gains(np.array([late_tokens / t]), np.array([paid]), np.array([float(keys)]))[0])
    assert direct <= found + 1e-9 <= direct + (1 + premium) + 2 * max(late * keys - row, 0) / t + 2e-9


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**31), st.integers(2, 12), st.integers(2, 24))
def test_what_a_device_gains_between_two_numbers_of_keys_and_two_late_parts_is_little_more(
    seed: int, devices: int, group: int
) -> None:
    random = np.random.default_rng(seed)
    head = CausalHeads(tokens=64 * devices, devices=devices, heads=2, group=group, row_words=3, key_words=4)
    n, t, premium, taken = head.tokens, head.share, *random.random(2)
    first = float(int(min(random.random() * n, group * 3 * t / 4)))
    prices, paid = LateRows(head=head, first=first, premium=premium, taken=taken), np.array(premium * random.random())
    low, few = random.random() * 0.9, t - 1 + random.random() * (n - t)
    high, many = low + random.random() * (1 - low), few + random.random() * (n - few)
    parts, keys = np.linspace(low, high, 33), np.linspace(few, many, 33)
    found = prices.gains(parts[:, None], paid, keys)
    more = (1 + premium) * t * (high - low) ** 2 / 8 + (3 + 2 * premium) * (many - few) ** 2 / (8 * t)
    assert found.max() <= found[np.ix_([0, -1], [0, -1])].max() + more + 1e-9


@settings(max_examples=16, deadline=None, derandomize=True)
@given(
    st.sampled_from([(2, 2, 2), (2, 4, 4), (4, 4, 4), (4, 2, 8), (4, 4, 8)]),
    st.integers(0, 2**31),
    st.sampled_from([(2, 2), (3, 4)]),
)
def test_no_placement_exchanges_less_for_its_balance(
    shape: tuple[int, int, int], seed: int, words: tuple[int, int]
) -> None:
    random = np.random.default_rng(seed)
    placed, head = drawn(shape, random, words, share=8, scattered=seed % 2 == 1)
    if seed % 3:  # own rows, all heads
        placed.maker = np.where(placed.maker >= 0, placed.owner[:, None], -1)
    # late rows of a head go to the device that has least to do
    for _ in range(20):
        assert late_row_words(head, placed.imbalance) <= placed.words(*words)
        one, start = int(random.integers(head.heads)), int(random.integers(head.tokens // 3, head.tokens))
        placed.to_the_idlest(one, slice(None), slice(start, None))


def test_late_rows_ask_for_more_than_keys_of_half_the_sequence_where_own_rows_are_as_many_words_as_keys() -> None:
    n, d = 2**18, 128
    for devices, group in ((4, 4), (8, 8), (12, 12)):
        work = Workload(n=n, d=d, heads=8 * group, kv_heads=8, mask="causal")
        keys = 8 * 2 * n * d
        assert balanced_exchange(work, devices).words > 1.05 * keys * (devices - 1) / 2
    # two sequences have own tokens of their own
    pair = Workload(n=n, d=d, heads=64, kv_heads=8, mask="causal", batch=2)
    one = Workload(n=n, d=d, heads=64, kv_heads=8, mask="causal")
    assert balanced_exchange(pair, 8).words < 2 * balanced_exchange(one, 8).words


def test_eight_query_heads_on_eight_devices_are_within_12_percent_of_late_rows_backward() -> None:
    work = Workload(n=2**20, d=128, heads=64, kv_heads=8, mask="causal", direction="backward", dtype="bf16")
    plan = best_patches(work, 8)
    assert plan is not None and plan.gap is not None
    assert 1.1 < plan.gap < 1.12
    # a linear program over all assignments of blocks, tokens being in order
    keys = 8 * 2**20 * 4 * 128
    assert 3.53 * keys < balanced_exchange(work, 8).words < 3.74 * keys


def test_one_device_and_pairs_that_are_dearer_than_a_word_prove_nothing() -> None:
    alone = CausalHeads(tokens=64, devices=1, heads=4, group=8, row_words=8, key_words=8)
    short = CausalHeads(tokens=16, devices=8, heads=4, group=1, row_words=8, key_words=8)
    assert late_row_words(alone) == late_row_words(short) == 0
