"""Premiums on late rows: no rows and keys gain a device more than its own tokens may, and no placement sends less."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.bounds.causal_heads import CausalHeads
from attenio.cluster.bounds.late_rows import LateRows, late_row_words
from attenio.workload import Workload
from cluster.bounds.test_causal_heads import drawn, subsets


@pytest.mark.parametrize(
    ("tokens", "devices", "group", "first"), [(8, 4, 2, 3), (9, 3, 3, 4), (8, 2, 3, 4), (9, 4, 6, 4)]
)
def test_no_rows_and_keys_of_any_device_gain_more_than_its_own_tokens_may(
    tokens: int, devices: int, group: int, first: int
) -> None:
    head = CausalHeads(tokens=tokens, devices=devices, heads=2, group=group, row_words=3, key_words=3)
    t, premium = head.share, np.array([[0.25], [0.5], [1.0]])
    every, place = subsets(tokens), np.arange(1, tokens + 1)
    for own in combinations(range(tokens), t):
        part = float((place[list(own)] > first).mean())
        prices = LateRows(head=head, first=float(first), premium=premium, part=np.array([part]), width=0.0)
        most = prices.gains()[:, 0]
        sets = every[every[:, own].all(axis=1)].astype(float)
        beyond = sets.sum(axis=1) - t
        for more, limit in zip(premium[:, 0], most, strict=True):
            price = np.minimum(1, prices.row_pairs / place) + more * (place > first) - more * part
            worth = sets @ (np.tri(tokens) * np.maximum(price, 0)[:, None]) @ sets.T / t
            assert (worth - prices.row_pairs / t * beyond[:, None] - beyond[None]).max() <= limit + 1e-9


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


def test_one_device_and_pairs_that_are_dearer_than_a_word_prove_nothing() -> None:
    alone = CausalHeads(tokens=64, devices=1, heads=4, group=8, row_words=8, key_words=8)
    short = CausalHeads(tokens=16, devices=8, heads=4, group=1, row_words=8, key_words=8)
    assert late_row_words(alone) == late_row_words(short) == 0
