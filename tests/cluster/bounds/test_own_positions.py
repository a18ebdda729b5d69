"""Own tokens that are early or late: no rows and keys of a device have more pairs, and no placement sends less."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.bounds.causal_heads import CausalHeads
from attenio.cluster.bounds.own_positions import position_words
from attenio.workload import Workload
from cluster.bounds.test_own_rows import Placement


@pytest.mark.parametrize("own", [(1, 2), (1, 8), (3, 4), (7, 8), (2, 5), (1, 4, 8), (6, 7, 8)])
def test_own_rows_that_are_early_and_own_keys_that_are_late_take_pairs_off(own: tuple[int, ...]) -> None:
    n, t = 8, len(own)
    sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    sets = sets[(sets[:, [each - 1 for each in own]] == 1).all(axis=1)]
    seen = sets @ np.tri(n, dtype=np.int64) @ sets.T  # [rows, keys]
    count = sets.sum(axis=1)
    x, y = count[:, None], count[None]
    for early in range(t + 1):
        for late in range(t + 1 - early):
            first, last = own[:early], own[t - late :]
            lost = sum(y - t - s for s in first) + sum(x - t - (n - s) for s in last)
            assert (seen <= x * y - t * (t - 1) // 2 - lost).all()


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.sampled_from([4, 8, 16]), st.integers(0, 2**31), st.sampled_from([(2, 2), (3, 4)]))
def test_no_placement_of_one_head_exchanges_less_for_its_balance(
    devices: int, seed: int, words: tuple[int, int]
) -> None:
    random, tokens = np.random.default_rng(seed), 16 * devices
    placed = Placement(tokens, devices, 1)
    placed.owner = random.permutation(placed.owner) if seed % 2 else np.arange(tokens) // (tokens // devices)
    head = CausalHeads(tokens=tokens, devices=devices, heads=1, group=1, row_words=words[0], key_words=words[1])
    assert position_words(head) > 0
    for _ in range(20):
        assert position_words(head, placed.imbalance) <= placed.words(*words)
        start = int(random.integers(tokens))
        rows, keys = slice(start, start + tokens // 4), slice(0, int(random.integers(1, tokens)))
        placed.to_the_idlest(0, rows, keys)


def test_own_positions_ask_for_more_than_rows_and_keys_wherever_they_are() -> None:
    n, d = 2**20, 128
    for devices, more in ((8, 1.02), (16, 1.015), (32, 1.01)):
        anywhere = 4 * n * d * (((devices + 1) / 2) ** 0.5 - 1)
        assert balanced_exchange(Workload(n=n, d=d, mask="causal"), devices).words > more * anywhere
    uneven = CausalHeads(tokens=n, devices=32, heads=1, group=1, row_words=2 * d, key_words=2 * d)
    assert position_words(uneven, 2.0) == 0
