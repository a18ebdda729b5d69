"""Messages of layouts one by one: as many words as every rank sends and gets, and times that a simulation confirms."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from attenio.catalogue import machine_named
from attenio.cluster.layout_plan import LayoutPlan
from attenio.cluster.layout_times import layout_times, rounds, simulate_layout
from attenio.cluster.layouts import messages_of
from attenio.cluster.loads import loads_of_flows
from attenio.cluster.patches import Patchwork, best_patches, plan_patches, tables
from attenio.cluster.plan import Cluster
from attenio.cluster.strips import Strips, best_strips, plan_strips
from attenio.cluster.topology import topology_named
from attenio.errors import InvalidInput
from attenio.workload import Workload
from cluster.counted.test_layouts import laws, layouts_and_work


def planned(workload: Workload, layout: Strips | Patchwork) -> LayoutPlan:
    return plan_strips(workload, layout) if isinstance(layout, Strips) else plan_patches(workload, layout)


@laws
@given(layouts_and_work())
def test_messages_add_up_to_what_every_rank_sends_and_gets_in_every_stage(
    problem: tuple[Workload, Strips | Patchwork],
) -> None:
    plan = planned(*problem)
    sent, got = Counter[Any](), Counter[Any]()
    for each in plan.words():
        sent[each.stage] += each.sent
        got[each.stage] += each.received
    for one in rounds(plan):
        assert (one.flows.sources != one.flows.targets).all() and (one.flows.words > 0).all()
        for total, ends in ((sent, one.flows.sources), (got, one.flows.targets)):
            total[one.stage] = total[one.stage] - np.bincount(ends, one.flows.words, plan.layout.devices)
    assert all((left == 0).all() for total in (sent, got) for left in total.values())


def test_they_are_the_messages_that_ranks_send() -> None:
    table = next(each for each in tables() if (each.devices, each.heads) == (8, 8))
    for heads, layout in ((2, Strips(heads=2, counts=(3, 2))), (8, table)):
        workload = Workload(n=200, d=1, value_dim=1, heads=heads, mask="causal")
        messages, ranks = messages_of(workload, layout), range(layout.devices)
        assert messages.is_passed_on
        queries, first, second, _ = rounds(planned(workload, layout))
        for one, between in (
            (queries, messages.rows_first),
            (first, messages.keys_first),
            (second, messages.keys_second),
        ):
            width = 1 if one is queries else 2
            found = {(s, t): w // width for s, t, w in zip(*(each.tolist() for each in one.flows), strict=True)}
            sizes = {(s, t): sum(len(each) for each in between(s, t)) for s in ranks for t in ranks}
            assert found == {ends: size for ends, size in sizes.items() if size}


@pytest.mark.parametrize("best", [best_strips, best_patches])
@pytest.mark.parametrize("links", ["dgx-h100:2x8", "tpu-torus:4x2x2", "ethernet"])
def test_times_are_those_of_the_busiest_port_and_a_simulation_takes_no_less(links: str, best: Any) -> None:
    workload = Workload(n=2**14, d=64, heads=8, mask="causal", dtype="bf16", direction="training")
    cluster = Cluster(devices=16, topology=topology_named(links, devices=16), machine=machine_named("h100"))
    plan = best(workload, 16)
    assert plan is not None
    times = layout_times(plan, cluster)
    assert times is not None and cluster.topology is not None and times.compute_seconds is not None
    if not cluster.topology.is_torus:
        assert sum(level.total_words for level in times.levels) == plan.total_words
    simulated = simulate_layout(plan, cluster)
    planned = [stage.seconds or 0.0 for stage in times.stages]
    assert [stage.stage for stage in simulated.stages] == [stage.stage for stage in times.stages]
    for one, other, messages in zip(simulated.stages, planned, rounds(plan), strict=True):
        # the port with the most words need not be that with the most messages, for each of which a plan counts latency
        loads = loads_of_flows(messages.flows, np.arange(16, dtype=np.int64), cluster.topology)
        both = zip(loads, cluster.topology.links, strict=True)
        moving = [2 * load.busiest_words / link.bandwidth_bytes_per_s for load, link in both]
        assert 0.99 * max(moving) <= one.seconds <= 3 * other
    assert times.compute_seconds <= times.seconds <= times.compute_seconds + times.exchange_seconds


def test_there_is_no_time_without_links_and_their_simulation_is_refused() -> None:
    plan = plan_strips(Workload(n=64, d=4, mask="causal"), Strips(counts=(2, 1)))
    assert layout_times(plan, Cluster(devices=4)) is None
    with pytest.raises(InvalidInput, match="links are simulated on a topology"):
        simulate_layout(plan, Cluster(devices=4))
