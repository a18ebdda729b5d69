"""Prices of causal rows: no placement of pairs, however it is found, exchanges less than they prove."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.bounds.own_rows import OwnRows, own_row_words
from attenio.workload import Workload
from cluster.bounds.placements import Makers

Whole = NDArray[np.int64]


class Placement(Makers):
    """Owners of tokens, and makers of the pairs of every query head [head, row, key]; -1 where a key is hidden."""

    def __init__(self, tokens: int, devices: int, group: int, kv_heads: int = 1) -> None:
        half = tokens // (2 * devices)
        turn = np.arange(tokens) // half
        self.owner: Whole = np.minimum(turn, 2 * devices - 1 - turn)
        seen = np.tri(tokens, dtype=bool)
        self.maker: Whole = np.where(seen, self.owner[:, None], -1)[None].repeat(group * kv_heads, axis=0)
        self.devices, self.kv_heads = devices, kv_heads

    def words(self, row: int, key: int) -> int:
        """Words that all devices exchange."""
        total = 0
        for device in range(self.devices):
            made, own = self.maker == device, self.owner == device
            of_keys = made.reshape(self.kv_heads, -1, len(own)).any(axis=1)
            total += row * int((made.any(axis=2) & ~own).sum()) + key * int((of_keys & ~own).sum())
        return total


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
@given(
    st.sampled_from([(2, 2), (2, 4), (4, 4), (4, 8)]),
    st.integers(0, 2**31),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4]),
)
def test_no_placement_exchanges_less_for_its_balance(
    shape: tuple[int, int], seed: int, share: int, kv_heads: int
) -> None:
    (devices, group), random = shape, np.random.default_rng(seed)
    tokens = 4 * share * devices
    placed = Placement(tokens, devices, group, kv_heads)
    placed.owner = random.permutation(placed.owner) if seed % 2 else placed.owner
    head = OwnRows(tokens=tokens, devices=devices, group=group, row_words=2, key_words=2, heads=kv_heads)
    # from even work on, rows of a head and a range of keys go to the device that has least to do
    for _ in range(8):
        bound = own_row_words(head, placed.imbalance)
        assert bound <= placed.words(2, 2)
        one, start = int(random.integers(group * kv_heads)), int(random.integers(tokens))
        rows, keys = slice(start, start + tokens // 4), slice(0, int(random.integers(1, tokens)))
        placed.to_the_idlest(one, rows, keys)


def test_the_bound_of_heads_that_share_keys_asks_for_more_than_keys_of_half_the_sequence() -> None:
    n, d = 2**16, 64
    for devices in (8, 16, 32):
        bound = balanced_exchange(Workload(n=n, d=d, heads=16, kv_heads=1, mask="causal"), devices).words
        assert bound > 1.15 * 2 * n * d * (devices - 1) / 2
    alone = OwnRows(tokens=n, devices=1, group=16, row_words=2 * d, key_words=2 * d)
    assert own_row_words(alone) == 0
    few = OwnRows(tokens=n, devices=32, group=1, row_words=2 * d, key_words=2 * d)
    assert own_row_words(few) == 0


def test_several_kv_heads_ask_for_most_of_what_one_does_and_late_rows_of_a_head_on_one_device_send_no_less() -> None:
    n, d, devices, group = 2**16, 64, 8, 16
    one, several = (
        balanced_exchange(Workload(n=n, d=d, heads=group * heads, kv_heads=heads, mask="causal"), devices).words / heads
        for heads in (1, 8)
    )
    assert 0.85 * one < several <= one
    # every device computes its own rows in order, but a head has the late ones on one device, with all keys
    placed = Placement(32, 4, 8, 4)
    placed.owner = np.arange(32) // 8
    placed.maker = np.where(np.tri(32, dtype=bool), placed.owner[:, None], -1)[None].repeat(32, axis=0)
    for head in range(4):
        late = placed.maker[8 * head : 8 * head + 8, 16:]
        late[late >= 0] = head
    bound = own_row_words(OwnRows(tokens=32, devices=4, group=8, row_words=2, key_words=2, heads=4), placed.imbalance)
    assert 0 <= bound <= placed.words(2, 2)
