"""Prices of causal rows: no placement of pairs, however it is found, exchanges less than they prove."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.bounds.own_rows import OwnRows, own_row_words
from attenio.workload import Workload

Whole = NDArray[np.int64]


class Placement:
    """Owners of tokens, and makers of the pairs of every query head [head, row, key]; -1 where a key is hidden."""

    def __init__(self, tokens: int, devices: int, group: int) -> None:
        half = tokens // (2 * devices)
        turn = np.arange(tokens) // half
        self.owner: Whole = np.minimum(turn, 2 * devices - 1 - turn)
        seen = np.tri(tokens, dtype=bool)
        self.maker: Whole = np.where(seen, self.owner[:, None], -1)[None].repeat(group, axis=0)
        self.devices = devices

    def words(self, row: int, key: int) -> int:
        """Words that all devices exchange."""
        total = 0
        for device in range(self.devices):
            made, own = self.maker == device, self.owner == device
            total += row * int((made.any(axis=2) & ~own).sum()) + key * int((made.any(axis=(0, 1)) & ~own).sum())
        return total

    @property
    def imbalance(self) -> float:
        """Pairs of the busiest device over the mean."""
        work = np.bincount(self.maker[self.maker >= 0], minlength=self.devices)
        return float(work.max() / work.mean())


@pytest.mark.parametrize(
    ("tokens", "devices", "group", "words"),
    [(128, 8, 16, (2, 2)), (256, 16, 16, (2, 2)), (128, 8, 16, (3, 4)), (64, 4, 8, (2, 2))],
)
def test_devices_that_compute_own_zigzag_rows_are_close_to_the_bound(
    tokens: int, devices: int, group: int, words: tuple[int, int]
) -> None:
    row, key = words
    head = OwnRows(tokens=tokens, devices=devices, group=group, row_words=row, key_words=key)
    placed, bound = Placement(tokens, devices, group), own_row_words(head)
    assert placed.imbalance == 1
    assert bound <= placed.words(row, key) <= 1.17 * bound


@settings(max_examples=14, deadline=None, derandomize=True)
@given(st.sampled_from([(2, 2), (2, 4), (4, 4), (4, 8)]), st.integers(0, 2**31), st.integers(1, 3))
def test_no_placement_exchanges_less_for_its_balance(shape: tuple[int, int], seed: int, share: int) -> None:
    (devices, group), random = shape, np.random.default_rng(seed)
    tokens = 4 * share * devices
    placed = Placement(tokens, devices, group)
    placed.owner = random.permutation(placed.owner) if seed % 2 else placed.owner
    head = OwnRows(tokens=tokens, devices=devices, group=group, row_words=2, key_words=2)
    # from even work on, rows of a head and a range of keys go to the device that has least to do
    for _ in range(12):
        bound = own_row_words(head, placed.imbalance)
        assert bound <= placed.words(2, 2)
        one, start = int(random.integers(group)), int(random.integers(tokens))
        rows, keys = slice(start, start + tokens // 4), slice(0, int(random.integers(1, tokens)))
        work = np.bincount(placed.maker[placed.maker >= 0], minlength=devices)
        part = placed.maker[one, rows, keys]
        part[part >= 0] = int(work.argmin())


def test_the_bound_of_heads_that_share_keys_asks_for_more_than_keys_of_half_the_sequence() -> None:
    n, d = 2**16, 64
    for devices in (8, 16, 32):
        bound = balanced_exchange(Workload(n=n, d=d, heads=16, kv_heads=1, mask="causal"), devices).words
        assert bound > 1.15 * 2 * n * d * (devices - 1) / 2
    alone = OwnRows(tokens=n, devices=1, group=16, row_words=2 * d, key_words=2 * d)
    assert own_row_words(alone) == 0
    few = OwnRows(tokens=n, devices=32, group=1, row_words=2 * d, key_words=2 * d)
    assert own_row_words(few) == 0
