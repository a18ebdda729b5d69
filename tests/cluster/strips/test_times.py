"""Messages of strips one by one: as many words as every rank sends and gets, and times that a simulation confirms."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from attenio.catalogue import machine_named
from attenio.cluster.plan import Cluster
from attenio.cluster.strips import Strips, best_strips, plan_strips, strips_words
from attenio.cluster.strips.flows import rounds
from attenio.cluster.strips.messages import Messages
from attenio.cluster.strips.times import simulate_strips, strips_times
from attenio.cluster.strips.words import traffic
from attenio.cluster.topology import topology_named
from attenio.errors import InvalidInput
from attenio.workload import Workload
from cluster.strips.test_strips import laws, problems


@laws
@given(problems())
def test_messages_add_up_to_what_every_rank_sends_and_gets_in_every_stage(problem: tuple[Workload, Strips]) -> None:
    workload, strips = problem
    sent, got = Counter[Any](), Counter[Any]()
    for each in strips_words(workload, strips):
        sent[each.stage] += each.sent
        got[each.stage] += each.received
    for one in rounds(workload, strips):
        assert (one.flows.sources != one.flows.targets).all() and (one.flows.words > 0).all()
        for total, ends in ((sent, one.flows.sources), (got, one.flows.targets)):
            total[one.stage] = total[one.stage] - np.bincount(ends, one.flows.words, strips.devices)
    assert all((left == 0).all() for total in (sent, got) for left in total.values())


def test_they_are_the_messages_that_ranks_send() -> None:
    workload, strips = (
        Workload(n=200, d=1, value_dim=1, heads=2, kv_heads=2, mask="causal"),
        Strips(heads=2, counts=(3, 2)),
    )
    messages = Messages(strips=strips, tokens=200, relays=traffic(workload, strips).relays)
    assert messages.relays
    queries, first, second, _ = rounds(workload, strips)
    for one, between in ((queries, messages.rows), (first, messages.keys_first), (second, messages.keys_second)):
        width = 1 if one is queries else 2
        found = {(s, t): w // width for s, t, w in zip(*(each.tolist() for each in one.flows), strict=True)}
        ranks = range(strips.devices)
        assert found == {(s, t): len(between(s, t)) for s in ranks for t in ranks if len(between(s, t))}


@pytest.mark.parametrize("links", ["dgx-h100:2x8", "tpu-torus:4x2x2", "ethernet"])
def test_times_are_those_of_the_busiest_port_and_a_simulation_takes_no_less(links: str) -> None:
    workload = Workload(n=2**14, d=64, heads=8, mask="causal", dtype="bf16", direction="training")
    cluster = Cluster(devices=16, topology=topology_named(links, devices=16), machine=machine_named("h100"))
    plan = best_strips(workload, 16)
    assert plan is not None
    times = strips_times(plan, cluster)
    assert times is not None and cluster.topology is not None and times.compute_seconds is not None
    if not cluster.topology.is_torus:
        assert sum(level.total_words for level in times.levels) == plan.total_words
    simulated = simulate_strips(plan, cluster)
    planned = [stage.seconds or 0.0 for stage in times.stages]
    assert [stage.stage for stage in simulated.stages] == [stage.stage for stage in times.stages]
    for one, other in zip(simulated.stages, planned, strict=True):
        assert 0.99 * other <= one.seconds <= 3 * other
    assert times.compute_seconds <= times.seconds <= times.compute_seconds + times.exchange_seconds


def test_there_is_no_time_without_links_and_their_simulation_is_refused() -> None:
    plan = plan_strips(Workload(n=64, d=4, mask="causal"), Strips(counts=(2, 1)))
    assert strips_times(plan, Cluster(devices=4)) is None
    with pytest.raises(InvalidInput, match="links are simulated on a topology"):
        simulate_strips(plan, Cluster(devices=4))
