"""Two ranks a KV head: work is even, and what they send is what rows, keys and own tokens say."""

import numpy as np
import pytest

from attenio.cluster.patches import best_patches, plan_patches
from attenio.cluster.patches.halves import halves
from attenio.cluster.patches.layout import holdings
from attenio.cluster.strips import best_strips
from attenio.workload import Workload


@pytest.mark.parametrize(("heads", "by_rows"), [(4, 0), (4, 2), (4, 4), (7, 3), (16, 8)])
def test_work_is_even_and_pairs_of_own_tokens_are_at_home(heads: int, by_rows: int) -> None:
    table = halves(heads, by_rows)
    assert (table.heads, table.devices, table.blocks) == (heads, 2 * heads, 4 * heads)
    assert len(set(table.pairs(12 * table.blocks))) == 1
    has, owners = holdings(table), np.array(table.owners)
    own = owners[:, None] == owners
    for head in range(heads):
        at_home = has.makers[head][own & np.tri(table.blocks, dtype=bool)]
        assert (at_home == np.repeat(np.arange(table.devices), 3)).all()
        rest = has.makers[head][~own & np.tri(table.blocks, dtype=bool)]
        assert len(set(rest.tolist())) == 2
        # nobody else needs the first rows or the last keys
        for blocks, ends in ((has.rows, owners == 0), (has.keys, owners == table.devices - 1)):
            assert {int(each) for each in np.flatnonzero(blocks[:, head][:, ends].any(axis=1))} == {owners[ends][0]}


def test_halves_by_rows_have_one_rank_with_all_keys_and_by_keys_one_with_all_rows() -> None:
    for by_rows in (0, 4):
        table = halves(4, by_rows)
        has = holdings(table)
        for head in range(4):
            rest = has.keys if by_rows else has.rows
            most = rest[:, head].sum(axis=1).max()
            assert most >= table.blocks - 2


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_two_ranks_for_each_of_many_heads_send_less_than_strips(direction: str) -> None:
    workload = Workload(n=2**18, d=128, heads=32, mask="causal", direction=direction)
    plan, strips = best_patches(workload, 64), best_strips(workload, 64)
    assert plan is not None and strips is not None and plan.gap is not None
    assert plan.words_per_device < 0.985 * strips.words_per_device
    assert plan.imbalance == 1 and plan.gap < 1.12


def test_halves_by_keys_send_less_backward_and_both_kinds_less_forward() -> None:
    for direction, best in (("forward", 16), ("backward", 0)):
        workload = Workload(n=2**17, d=128, heads=32, mask="causal", direction=direction)
        words = {each: plan_patches(workload, halves(32, each)).total_words for each in (0, 16, 32)}
        assert min(words, key=lambda each: words[each]) == best


def test_halves_are_for_twice_as_many_devices_as_heads() -> None:
    for heads, devices in ((5, 10), (12, 24)):
        workload = Workload(n=2**14, d=64, heads=heads, mask="causal")
        plan = best_patches(workload, devices)
        assert plan is not None and plan.patchwork.devices == devices
        assert best_patches(workload, devices + 2) is None
