"""Laws of patchworks: every causal pair of every head is made once, words and memory are those of counted runs."""

import numpy as np
import pytest
from hypothesis import given, settings

from attenio.cluster.patches import Patchwork, best_patches, plan_patches, tables
from attenio.cluster.patches.words import least_words_per_device
from attenio.errors import InvalidInput
from attenio.workload import Workload
from cluster.patches.strategies import problems

laws = settings(max_examples=12, deadline=None, derandomize=True)


@laws
@given(problems())
def test_every_causal_pair_of_every_head_is_made_once_and_every_token_has_a_home(
    problem: tuple[Workload, Patchwork],
) -> None:
    workload, patchwork = problem
    n = workload.keys
    made, pairs = np.zeros((patchwork.heads, n, n), dtype=int), []
    seen = np.tri(n, dtype=bool)
    for rank in range(patchwork.devices):
        before = int(made[:, seen].sum())
        for head in range(patchwork.heads):
            for (first, stop), (start, end) in patchwork.cells(n, rank, head):
                made[head, first:stop, start:end] += 1
        pairs.append(int(made[:, seen].sum()) - before)
    assert (made[:, seen] == 1).all()
    assert pairs == patchwork.pairs(n)
    homes = [np.concatenate([np.arange(*span) for span in home.spans]) for home in patchwork.homes(n)]
    assert sorted(np.concatenate(homes).tolist()) == list(range(n))
    assert {len(each) for each in homes} <= {n // patchwork.devices, -(-n // patchwork.devices)}


@pytest.mark.parametrize("index", range(len(tables())))
def test_tables_that_are_kept_share_work_evenly_and_send_no_less_than_the_bound(index: int) -> None:
    table = tables()[index]
    # tables for as many heads and devices are many: one of four forms each
    direction, group = (("forward", 1), ("backward", 4), ("backward", 1), ("forward", 8))[index % 4]
    workload = Workload(
        n=2**17, d=128, heads=group * table.heads, kv_heads=table.heads, mask="causal", direction=direction
    )
    plan = plan_patches(workload, table)
    assert plan.imbalance < 1.02
    assert plan.words_per_device * table.devices >= plan.total_words
    assert plan.gap is not None and plan.gap >= 1


@pytest.mark.parametrize(("heads", "devices", "direction"), [(16, 16, "backward"), (16, 64, "forward")])
def test_late_rows_in_clusters_are_within_12_percent_of_the_bound(heads: int, devices: int, direction: str) -> None:
    workload = Workload(n=2**20, d=128, heads=heads, kv_heads=1, mask="causal", direction=direction)
    plan = best_patches(workload, devices)
    assert plan is not None and plan.gap is not None and plan.gap < 1.12
    assert plan.words_per_device * devices < 1.002 * plan.total_words


@pytest.mark.parametrize(("devices", "direction"), [(16, "backward"), (32, "forward"), (32, "backward")])
def test_eight_heads_with_keys_of_their_own_are_within_12_percent_of_the_bound(devices: int, direction: str) -> None:
    plan = best_patches(Workload(n=2**20, d=128, heads=8, mask="causal", direction=direction), devices)
    assert plan is not None and plan.gap is not None and plan.gap < 1.12
    assert plan.words_per_device * devices < 1.002 * plan.total_words and float(plan.imbalance) < 1.0001


@pytest.mark.parametrize("direction", ["forward", "training"])
def test_the_best_is_the_best_of_all_tables_and_none_sends_less_than_its_mean(direction: str) -> None:
    workload = Workload(n=4096, d=16, heads=16, kv_heads=8, mask="causal", direction=direction)
    known = [each for each in tables() if each.devices == 8 and 8 % each.heads == 0 and each.blocks <= 256]
    sent = [plan_patches(workload, each).words_per_device for each in known]
    assert len(known) > 1 and best_patches(workload, 8).words_per_device == min(sent)
    for table, words in zip(known, sent, strict=True):
        least = least_words_per_device(workload, table)
        assert least == -(-plan_patches(workload, table).total_words // 8) <= words


def test_pairs_of_own_tokens_at_home_save_what_head_groups_send_for_the_first_rows_and_the_last_keys() -> None:
    for devices in (3, 4, 8):
        n, d = 64 * devices, 16
        workload = Workload(n=n, d=d, heads=devices, mask="causal")
        plan = plan_patches(workload, at_home(devices))
        # rows and keys of P - 1 blocks for each head, its own blocks and the first rows or the last keys left out
        blocks = devices * (2 * (devices - 2)) + 2
        row_of_lse = devices * (devices - 2) + 1
        assert plan.total_words == blocks * 64 * 2 * d + row_of_lse * 64
        assert plan.imbalance < 1.05


def at_home(ranks: int) -> Patchwork:
    """Pairs of own tokens at home in all heads, and the rest of a head on a rank."""
    makers = [[i if i == j else head for i in range(ranks) for j in range(i + 1)] for head in range(ranks)]
    return Patchwork(owners=tuple(range(ranks)), makers=tuple(map(tuple, makers)))


def test_patches_are_for_causal_work_and_for_the_heads_of_their_tables() -> None:
    assert best_patches(Workload(n=4096, d=8, heads=8), 8) is None
    assert best_patches(Workload(n=4096, d=8, heads=7, mask="causal"), 7) is None
    assert best_patches(Workload(n=64, d=8, heads=8, mask="causal"), 8) is None
    with pytest.raises(InvalidInput, match="patches are for a causal mask with as many queries as keys"):
        plan_patches(Workload(n=64, d=4, heads=2), at_home(2))
    with pytest.raises(InvalidInput, match="patches of 2 head groups do not cut 3 KV heads evenly; use a divisor"):
        plan_patches(Workload(n=64, d=4, heads=3, mask="causal"), at_home(2))
    with pytest.raises(InvalidInput, match="3 tokens are too few for 4 blocks; use more tokens"):
        plan_patches(Workload(n=3, d=4, heads=4, mask="causal"), at_home(4))
    with pytest.raises(InvalidInput, match="3 blocks are owned by 2 ranks unevenly"):
        Patchwork(owners=(0, 1, 1), makers=((0,) * 6,))
    with pytest.raises(InvalidInput, match="a table of 2 blocks has 3 pairs of blocks a head"):
        Patchwork(owners=(0, 1), makers=((0, 1),))
