from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from attenio.catalogue import machine_named
from attenio.cluster import Grid, sent_words
from attenio.cluster.balance import imbalance, share_of_tokens
from attenio.cluster.memory import memory_words
from attenio.cluster.partition import Sharding, sharding_for
from attenio.cluster.plan import Cluster, plan_grid
from attenio.cluster.schemes import Scheme, best_cluster_plan, every_grid, scheme_plans
from attenio.cluster.topology import dgx_h100, topology_named
from attenio.errors import DoesNotFit, InvalidInput
from attenio.workload import Workload
from cluster.bounds.test_balanced import counted_imbalance
from cluster.strategies import problems

laws = settings(max_examples=17, deadline=None, derandomize=True)


@laws
@given(problems())
def test_the_balance_of_a_grid_is_that_of_its_pairs_one_by_one(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    found = imbalance(workload, grid, sharding_for(workload.mask))
    assert found == counted_imbalance(workload, grid)


@pytest.mark.parametrize("sharding", [Sharding.CONTIGUOUS, Sharding.STRIPED])
@pytest.mark.parametrize("shape", [(2, 4, 3), (1, 3, 5), (1, 4, 2), (2, 2, 2)])
def test_no_place_of_a_grid_has_more_pairs_than_its_balance_says(
    shape: tuple[int, int, int], sharding: Sharding
) -> None:
    grid = Grid(heads=shape[0], queries=shape[1], keys=shape[2])
    for n in (grid.devices, 2 * grid.devices + 3, 16 * grid.devices - 1):
        share = share_of_tokens(n, grid.devices, sharding) // grid.heads
        rows, columns = (
            np.eye(count)[each] for count, each in zip(shape[1:], (share // grid.keys, share % grid.keys), strict=True)
        )
        pairs = rows.T @ np.tri(n) @ columns
        found = imbalance(Workload(n=n, d=2, heads=shape[0], mask="causal"), grid, sharding)
        assert pairs.max() * pairs.size <= float(found) * pairs.sum() * (1 + 1e-12)


@laws
@given(problems(directions=("forward", "backward", "training")))
def test_the_best_grid_sends_no_more_than_any_other_and_no_less_than_the_bound(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    plan = best_cluster_plan(workload, Cluster(devices=grid.devices))
    assert plan.words_per_device == min(
        int(sent_words(workload, each).max()) for each in every_grid(workload, grid.devices)
    )
    assert plan.words_per_device <= int(sent_words(workload, grid).max())
    assert plan.bound_words_per_device <= plan.words_per_device
    assert plan.gap is None or plan.gap >= 1
    assert plan.total_words == int(sent_words(workload, plan.grid).sum())


def test_a_named_scheme_is_a_grid_and_none_sends_less_than_the_best() -> None:
    workload = Workload(n=2**16, d=64, heads=8, mask="causal")
    cluster = Cluster(devices=16, topology=dgx_h100(nodes=2, gpus=8), machine=machine_named("h100"))
    best = best_cluster_plan(workload, cluster)
    plans = {each.scheme: each for each in scheme_plans(workload, cluster)}
    assert list(plans) == list(Scheme)
    assert plans[Scheme.ULYSSES].plan is None and plans[Scheme.ULYSSES].reason == "8 KV heads"
    for each in plans.values():
        assert each.plan is None or each.plan.words_per_device >= best.words_per_device
    ring, zigzag, tree = (plans[each].plan for each in (Scheme.RING, Scheme.ZIGZAG, Scheme.TREE))
    assert ring is not None and zigzag is not None and tree is not None
    assert ring.words_per_device == zigzag.words_per_device and ring.imbalance > 1.9 and zigzag.imbalance == 1
    assert ring.compute_seconds == pytest.approx(float(ring.imbalance) * (zigzag.compute_seconds or 0.0))
    assert str(tree.grid) == "1 x 1 x 16"


def test_words_of_levels_add_up_and_time_follows_rate_and_latency() -> None:
    workload = Workload(n=2**14, d=64, heads=8, direction="training")
    topology = dgx_h100(nodes=4, gpus=4)
    plan = plan_grid(workload, Grid(heads=4, queries=2, keys=2), Cluster(devices=16, topology=topology))
    assert sum(level.total_words for level in plan.levels) == plan.total_words
    heads_inside, rest_outside = plan.levels
    stages = [stage.seconds for stage in plan.stages]
    assert sum(s for s in stages if s is not None) == pytest.approx(heads_inside.seconds + rest_outside.seconds)
    moving = rest_outside.words_per_device * 2 / 50e9
    messages = sum(stage.words_per_device > 0 for stage in plan.stages) - 4  # one peer each, but for exchanges of heads
    assert rest_outside.seconds == pytest.approx(moving + messages * 5e-6, rel=1e-3)
    assert plan.seconds == plan.exchange_seconds


def test_little_memory_takes_several_passes_over_the_keys_and_less_is_refused() -> None:
    workload, grid = Workload(n=4096, d=64), Grid(queries=4, keys=4)
    once = plan_grid(workload, grid, Cluster(devices=16))
    assert once.passes == 1 and once.memory_words == int(memory_words(workload, grid).max())
    tight = Cluster(devices=16, memory_bytes=2 * once.memory_words - 2)
    plan = plan_grid(workload, grid, tight)
    assert plan.passes == 2 and plan.memory_words <= once.memory_words - 1
    keys = int(np.max([stage.words_per_device for stage in once.stages if stage.overlaps_compute]))
    assert plan.words_per_device == once.words_per_device + keys
    needed = int(memory_words(workload, grid, passes=4).max())
    assert plan_grid(workload, grid, Cluster(devices=16, memory_bytes=2 * needed)).passes == 4
    with pytest.raises(DoesNotFit, match=r"a grid of 1 x 4 x 4 needs .* a device and there are .*; use more devices"):
        plan_grid(workload, grid, Cluster(devices=16, memory_bytes=2 * needed - 1))


@laws
@given(problems(directions=("forward", "backward")))
def test_more_passes_hold_no_more(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    held = [int(memory_words(workload, grid, passes=passes).max()) for passes in range(1, grid.keys + 1)]
    assert held == sorted(held, reverse=True)


def test_a_cluster_has_devices_and_a_topology_that_joins_them() -> None:
    with pytest.raises(InvalidInput, match="joins 64 devices and 65 are asked for; use a larger topology"):
        Cluster(devices=65, topology=topology_named("dgx-h100:8x8"))
    with pytest.raises(InvalidInput, match="devices is 0"):
        Cluster(devices=0)
    assert plan_grid(Workload(n=8, d=4), Grid(), Cluster(devices=1)).gap == 1.0
    assert best_cluster_plan(Workload(n=9, d=4, mask="causal"), Cluster(devices=2)).imbalance >= Fraction(1)
