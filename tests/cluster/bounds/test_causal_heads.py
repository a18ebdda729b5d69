"""Causal work on several heads: the weights and the lemma behind its bounds, and placements against them."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.cluster import Grid, sent_words
from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.bounds.causal_heads import CausalHeads, apart_words, neighbour_words
from attenio.workload import Workload
from cluster.bounds.placements import Makers

Whole = NDArray[np.int64]


def subsets(count: int) -> NDArray[np.bool_]:
    """Every set of so many things."""
    return (np.arange(2**count)[:, None] >> np.arange(count)) & 1 > 0


def edge_weights(devices: int, rows: int, keys: int) -> NDArray[np.float64]:
    """The weights [row, key] of docs/theory/devices_causal_heads.md, for words of a row (of all heads) and of a key."""
    if rows < keys:
        return edge_weights(devices, keys, rows)[::-1, ::-1].T
    found = np.zeros((devices, devices))
    for i in range(1, devices):
        found[i, :i] = np.clip(rows - keys * np.arange(i), 0, keys)
    last = devices - 1
    if keys * (last - 1) > found[last].sum():
        found[last, 1:last], found[last, 0] = keys, 0
    return found


@pytest.mark.parametrize("devices", range(2, 8))
@pytest.mark.parametrize(("row", "key", "group"), [(2, 2, 1), (3, 4, 1), (2, 2, 4), (3, 4, 4), (2, 2, 3), (1, 5, 1)])
def test_no_rows_and_keys_are_worth_more_than_they_cost_to_whoever_owns_a_token(
    devices: int, row: int, key: int, group: int
) -> None:
    weights, sets = edge_weights(devices, group * row, key), subsets(devices)
    worth = sets @ weights @ sets.T
    cost = group * row * (sets.sum(axis=1) - 1)[:, None] + key * (sets.sum(axis=1) - 1)
    for owner in range(devices):
        own = sets[:, owner]
        assert (worth[np.ix_(own, own)] <= cost[np.ix_(own, own)] + 1e-9).all()
    share = 10
    head = CausalHeads(tokens=share * devices, devices=devices, heads=3, group=group, row_words=row, key_words=key)
    assert apart_words(head) == pytest.approx(3 * share * weights.sum())


@pytest.mark.parametrize("devices", range(3, 8))
@pytest.mark.parametrize(("one", "row", "neighbour"), [(2, 5, 2), (2, 8, 1), (3, 7, 4), (1, 3, 0), (4, 4, 6)])
def test_neighbours_and_first_keys_are_worth_no_more_than_what_they_are_charged_to(
    devices: int, one: int, row: int, neighbour: int
) -> None:
    weights, links = np.zeros((devices, devices)), np.eye(devices, k=-1) * neighbour
    for i in range(1, devices):
        before = one * np.arange(i)
        weights[i, :i] = np.clip(row - before, 0, one)
        weights[i, i - 1] = min(max(one - neighbour, 0), max(row - before[-1], 0))
    sets = subsets(devices)
    others = sets.sum(axis=1) - 1
    x, y = others[:, None], others[None]
    sums = [
        (row + neighbour) * x + max(one, neighbour) * y,
        (row + neighbour) * x + one * y + neighbour,
        (row + neighbour) * x + neighbour * y + row,
        (row + neighbour) * x + neighbour + row + 0 * y,
        row * x + neighbour * y + neighbour + row,
    ]
    worth, first = (sets @ each @ sets.T for each in (weights + links, weights))
    for owner in range(devices):
        own = np.ix_(sets[:, owner], sets[:, owner])
        assert all((worth[own] <= each[own] + 1e-9).all() for each in sums)
        assert (first[own] <= (row * x + row + 0 * y)[own] + 1e-9).all()


@pytest.mark.parametrize("owner", [(0, 0, 1, 1, 2, 2), (0, 1, 2, 2, 1, 0), (0, 1, 2, 0, 1, 2), (0, 1, 1, 0, 2, 2)])
def test_rows_and_keys_of_neighbours_have_pairs_that_are_not_seen(owner: tuple[int, ...]) -> None:
    n, share = len(owner), 2
    sets = subsets(n).astype(np.int64)
    drawn = [sorted(some) for some in product(*[[i for i in range(n) if owner[i] == p] for p in range(3)])]
    links = np.zeros((n, n))  # [row, key], how often they are neighbours
    for some in drawn:
        for key, row in pairwise(some):
            links[row, key] += 1 / len(drawn)
    assert links.sum() == pytest.approx(2)
    neighbours = share * (sets @ links @ sets.T)
    not_before = sets @ np.triu(np.ones((n, n))) @ sets.T
    assert (not_before >= np.maximum(neighbours - share, 0) ** 2 / 2 - 1e-9).all()
    assert (neighbours <= np.minimum.outer(sets.sum(axis=1), sets.sum(axis=1)) + 1e-9).all()


class Placement(Makers):
    """Owners of tokens, and makers of the pairs of every query head [KV head, head, row, key]; -1 where not seen."""

    def __init__(self, owner: Whole, heads: int, group: int) -> None:
        self.owner, self.devices, n = owner, int(owner.max()) + 1, len(owner)
        whole = np.arange(heads).reshape(-1, 1, 1, 1) % self.devices
        at_home = owner[:, None] == owner
        maker = np.where(at_home, owner, whole)
        self.maker: Whole = np.where(np.tri(n, dtype=bool), maker, -1).repeat(group, axis=1)

    def words(self, row: int, key: int) -> int:
        """Words that all devices exchange."""
        total = 0
        for device in range(self.devices):
            made, own = self.maker == device, self.owner == device
            total += row * int((made.any(axis=3) & ~own).sum()) + key * int((made.any(axis=(1, 2)) & ~own).sum())
        return total


def drawn(
    shape: tuple[int, int, int], random: np.random.Generator, words: tuple[int, int], *, share: int, scattered: bool
) -> tuple[Placement, CausalHeads]:
    """A placement on (devices, heads, group) with so many tokens a device, in order or scattered, and its heads."""
    devices, heads, group = shape
    owner = np.arange(share * devices) // share
    placed = Placement(random.permutation(owner) if scattered else owner, heads, group)
    (row, key), tokens = words, len(owner)
    return placed, CausalHeads(tokens=tokens, devices=devices, heads=heads, group=group, row_words=row, key_words=key)


@pytest.mark.parametrize("devices", [3, 4, 8])
def test_own_pairs_at_home_and_the_rest_of_a_head_on_a_device_come_close(devices: int) -> None:
    share = 4
    placed = Placement(np.arange(share * devices) // share, devices, 1)
    head = CausalHeads(tokens=share * devices, devices=devices, heads=devices, group=1, row_words=2, key_words=2)
    assert placed.imbalance == 1
    # in blocks 2(P - 2) + 2/P a device
    assert placed.words(2, 2) == share * 2 * (2 * devices * (devices - 2) + 2)
    assert apart_words(head) == share * 2 * 2 * devices * (devices - 2)


@settings(max_examples=16, deadline=None, derandomize=True)
@given(
    st.sampled_from(
        [(2, 2, 1), (4, 2, 1), (4, 4, 1), (6, 3, 1), (4, 1, 2), (4, 2, 4), (3, 6, 1), (8, 2, 2), (4, 2, 8), (6, 3, 4)]
    ),
    st.integers(0, 2**31),
    st.sampled_from([(2, 2), (3, 4), (4, 4)]),
)
def test_no_placement_exchanges_less_for_its_balance(
    shape: tuple[int, int, int], seed: int, words: tuple[int, int]
) -> None:
    random = np.random.default_rng(seed)
    placed, head = drawn(shape, random, words, share=4, scattered=seed % 2 == 1)
    # rows of a head and a range of keys go to the device that has least to do
    for _ in range(20):
        least = placed.words(*words)
        assert apart_words(head) <= least
        assert neighbour_words(head, placed.imbalance) <= least
        one, start = int(random.integers(head.heads)), int(random.integers(head.tokens))
        rows, keys = slice(start, start + head.tokens // 3), slice(0, int(random.integers(1, head.tokens)))
        placed.to_the_idlest(one, slice(None), rows, keys)


def test_two_devices_for_each_of_many_heads_need_more_than_squares_of_pairs() -> None:
    n, d = 2**20, 128
    bound = balanced_exchange(Workload(n=n, d=d, heads=32, mask="causal"), 64).words
    own = n // 64
    squares = 64 * 2 * d * (n - 2 * own)  # half of the rows with half of the keys
    assert bound > 1.2 * squares
    # one device with the rows above n/sqrt(2), one with the others
    strips = 32 * 2 * d * ((2 + 0.5**0.5) * n - 4 * own)
    assert bound < strips < 1.14 * bound


def test_rows_of_many_query_heads_are_sent_once_and_keys_to_half_of_the_devices() -> None:
    # many KV heads, so that own tokens matter little
    n, key, devices, group = 2**20, 256, 1024, 8
    for each in (4, 8):
        heads = devices // each
        head = CausalHeads(tokens=n, devices=devices, heads=heads, group=group, row_words=key, key_words=key)
        limit = heads * n * (group + (each + 1) / 2) * key
        assert 0.95 * limit < neighbour_words(head) < limit


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_as_many_heads_as_devices_are_exchanged_with_little_more_than_the_bound(direction: str) -> None:
    for devices in (16, 32, 64):
        workload = Workload(n=2**20, d=128, heads=devices, mask="causal", direction=direction)
        sent = int(sent_words(workload, Grid(heads=devices)).sum())
        assert sent <= 1.09 * balanced_exchange(workload, devices).words


def test_one_device_and_shares_of_nothing_exchange_nothing() -> None:
    one = CausalHeads(tokens=64, devices=1, heads=4, group=1, row_words=8, key_words=8)
    none = CausalHeads(tokens=3, devices=4, heads=4, group=1, row_words=8, key_words=8)
    assert [apart_words(each) + neighbour_words(each) for each in (one, none)] == [0, 0]


def test_two_devices_that_share_a_head_evenly_have_all_but_a_few_tokens_in_three_places() -> None:
    # over all sets of rows and keys of both: docs/theory/devices_causal.md, two devices a head
    for n, least in ((3, 8), (4, 11)):
        pairs, sets = [(i, j) for i in range(n) for j in range(i + 1)], range(2**n)
        made = {
            (x, y): sum(1 << p for p, (i, j) in enumerate(pairs) if x >> i & 1 and y >> j & 1)
            for x in sets
            for y in sets
        }
        sizes, every, found = {}, 2 ** len(pairs) - 1, 4 * n
        for (x, y), mine in made.items():
            sizes[mine] = min(sizes.get(mine, 4 * n), x.bit_count() + y.bit_count())
        for one, cost in sizes.items():
            for other, more in sizes.items():
                # pairs that only one of them can make are at most half of all, rounded up
                alone = max((one & ~other).bit_count(), (other & ~one).bit_count())
                if one | other == every and alone <= -(-len(pairs) // 2):
                    found = min(found, cost + more)
        share = -(-len(pairs) // 2)
        single = max(v for v in range(n + 1) if v * n - v * (v - 1) // 2 <= share)
        assert found >= 3 * n - single == least
        assert found == least
