"""Laws of strips: every causal pair is in one place, and no rank sends far more than the mean."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.partition import Sharding, positions
from attenio.cluster.strips import Owners, Strips, best_strips, plan_strips
from attenio.cluster.strips.layout import product_pairs
from attenio.errors import InvalidInput
from attenio.workload import Workload

laws = settings(max_examples=11, deadline=None, derandomize=True)


@st.composite
def problems(draw: st.DrawFn, *, most_heads: int = 2) -> tuple[Workload, Strips]:
    heads, more, group = draw(st.integers(1, most_heads)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    counts = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    owners = draw(st.sampled_from(Owners))
    strips = Strips(heads=heads, counts=counts, top=draw(st.integers(1, 2)), owners=owners)
    workload = Workload(
        n=draw(st.integers(4 * strips.devices + 8, 4 * strips.devices + 40)), d=draw(st.integers(1, 4)),
        value_dim=draw(st.integers(1, 4)), heads=heads * more * group, kv_heads=heads * more,
        batch=draw(st.integers(1, 2)), mask="causal", accumulator=draw(st.sampled_from([None, "fp32"])),
        direction=draw(st.sampled_from(["forward", "backward", "training"])),
    )  # fmt: skip
    return workload, strips


@laws
@given(problems())
def test_every_causal_pair_is_in_one_place_and_every_token_has_a_home(problem: tuple[Workload, Strips]) -> None:
    workload, strips = problem
    n, found = workload.keys, np.zeros((workload.keys, workload.keys), dtype=int)
    for product in strips.products(n):
        rows, keys = (
            np.concatenate([np.arange(*span) for span in each.spans]) for each in (product.rows, product.keys)
        )
        found[np.ix_(rows, keys)] += 1
        assert product_pairs(product) == int((keys[None] <= rows[:, None]).sum())
    assert (found[np.tril_indices(n)] == 1).all()
    homes = [np.concatenate([np.arange(*span) for span in home.spans]) for home in strips.homes(n)]
    shares = [positions(n, strips.devices, rank, Sharding.ZIGZAG) for rank in range(strips.devices)]
    assert sorted(np.concatenate(homes).tolist()) == list(range(n))
    assert [len(each) for each in homes] == [len(each) for each in shares]
    if strips.owners is Owners.ZIGZAG:
        assert all((home == share).all() for home, share in zip(homes, shares, strict=True))


@laws
@given(problems())
def test_ranks_that_own_tokens_of_their_rows_lack_none_that_they_could_own(problem: tuple[Workload, Strips]) -> None:
    workload, strips = problem
    strips = replace(strips, owners=Owners.ROWS)
    n, h = workload.keys, strips.heads
    homes, products = strips.homes(n), strips.products(n)
    first = strips.top
    for count in strips.counts:
        ranks = range(first * h, (first + count) * h)
        rows, owned = products[first].rows, sum(len(homes[rank]) for rank in ranks)
        # as many of the strip's rows as its ranks may own, but for what rounding leaves
        assert sum(homes[rank].common(rows) for rank in ranks) >= min(len(rows), owned) - len(ranks)
        first += count


@pytest.mark.parametrize(("heads", "kv_heads", "direction"), [(1, 1, "forward"), (32, 8, "backward")])
def test_strips_on_many_devices_are_within_12_percent_of_the_causal_bound(
    heads: int, kv_heads: int, direction: str
) -> None:
    devices = 256
    workload = Workload(n=2**20, d=128, heads=heads, kv_heads=kv_heads, mask="causal", direction=direction)
    plan = best_strips(workload, devices)
    assert plan is not None and plan.gap is not None and plan.gap <= 1.12
    assert plan.words_per_device <= 1.02 * plan.total_words / devices
    assert plan.imbalance < 1.001
    assert plan.strips.owners is Owners.ROWS
    zigzag = best_strips(workload, devices, owners=Owners.ZIGZAG)
    assert zigzag is not None and plan.words_per_device < zigzag.words_per_device


def test_strips_are_for_causal_work_on_several_devices() -> None:
    assert best_strips(Workload(n=4096, d=8), 8) is None
    assert best_strips(Workload(n=4096, d=8, mask="causal"), 1) is None
    assert best_strips(Workload(n=64, d=8, mask="causal"), 64) is None
    with pytest.raises(InvalidInput, match="strips are for a causal mask with as many queries as keys"):
        plan_strips(Workload(n=64, d=4), Strips(counts=(2, 1)))
    with pytest.raises(InvalidInput, match="strips of 2 head groups do not cut 3 KV heads evenly; use a divisor"):
        plan_strips(Workload(n=64, d=4, heads=3, mask="causal"), Strips(heads=2, counts=(2, 1)))
    with pytest.raises(InvalidInput, match="6 tokens are too few for strips on 4 devices; use more tokens"):
        plan_strips(Workload(n=6, d=4, mask="causal"), Strips(counts=(2, 1)))
    with pytest.raises(InvalidInput, match="top is 0"):
        Strips(counts=(2,), top=0)
