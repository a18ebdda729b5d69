import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue import machine_named
from attenio.cluster import Grid
from attenio.cluster.events import arrivals, simulate
from attenio.cluster.loads import Flows, flows_of, stage_loads
from attenio.cluster.placement import placements
from attenio.cluster.plan import Cluster, plan_grid
from attenio.cluster.topology import Topology, dgx_h100, ethernet, tpu_torus
from attenio.cluster.words import stages_of
from attenio.errors import InvalidInput
from attenio.workload import Workload
from cluster.strategies import problems

laws = settings(max_examples=14, deadline=None, derandomize=True)


def topologies(devices: int) -> list[Topology]:
    return [ethernet(devices), dgx_h100(nodes=-(-devices // 2), gpus=2), tpu_torus((2, -(-devices // 2)))]


@laws
@given(problems(most_devices=12), st.randoms())
def test_no_stage_is_through_before_its_busiest_port_or_link_could_be(
    problem: tuple[Workload, Grid], random: st.DataObject
) -> None:
    workload, grid = problem
    placement = random.choice(list(placements(grid)))  # type: ignore[attr-defined]
    for topology in topologies(grid.devices):
        for stage in stages_of(workload.direction):
            flows = flows_of(workload, grid, stage)
            last = arrivals(flows, placement.devices(grid), topology, element_bytes=2).max(initial=0.0)
            for link, load in zip(topology.links, stage_loads(workload, grid, stage, placement, topology), strict=True):
                assert last >= load.busiest_words * 2 / link.bandwidth_bytes_per_s * (1 - 1e-9)


@pytest.mark.parametrize("direction", ["forward", "backward", "training"])
@pytest.mark.parametrize("machine", [None, "h100"])
def test_even_shares_between_switches_take_the_time_of_the_plan(direction: str, machine: str | None) -> None:
    workload = Workload(n=2**16, d=64, heads=8, direction=direction, dtype="bf16")
    cluster = Cluster(
        devices=32, topology=dgx_h100(nodes=4, gpus=8), machine=None if machine is None else machine_named(machine)
    )
    plan = plan_grid(workload, Grid(heads=8, queries=4), cluster)
    simulated = simulate(plan)
    for timed, each in zip(plan.stages, simulated.stages, strict=True):
        assert each.seconds == pytest.approx(timed.seconds, rel=1e-9)
    assert plan.seconds is not None
    # a lot of keys that arrives last is still to be worked on
    assert plan.seconds * (1 - 1e-9) <= simulated.seconds <= plan.seconds + (plan.compute_seconds or 0.0) / 4


def test_messages_to_one_port_wait_for_each_other_and_ports_of_two_levels_do_not() -> None:
    topology = dgx_h100(nodes=2, gpus=2)
    words = np.array([450_000, 50_000])  # as long on either level, but for latencies
    near_and_far = Flows(np.array([0, 0]), np.array([1, 2]), words)
    times = arrivals(near_and_far, np.arange(4), topology, element_bytes=2)
    assert times.tolist() == pytest.approx([4e-6, 7e-6])
    both_to_one = Flows(np.array([0, 1]), np.array([2, 2]), np.array([50_000, 50_000]))
    assert arrivals(both_to_one, np.arange(4), topology, element_bytes=2).tolist() == pytest.approx([7e-6, 14e-6])


def test_a_piece_in_a_torus_follows_the_one_before_it() -> None:
    flows = Flows(np.array([0]), np.array([2]), np.array([400_000]))
    (time,) = arrivals(flows, np.arange(5), tpu_torus((5,)), element_bytes=2)
    pieces = 400_000 * 2 / 8 / 50e9
    assert time == pytest.approx(9 * pieces + 2 * 1e-6)


def test_links_are_simulated_on_a_topology() -> None:
    with pytest.raises(InvalidInput, match="links are simulated on a topology"):
        simulate(plan_grid(Workload(n=64, d=4), Grid(queries=2), Cluster(devices=2)))
    large = plan_grid(Workload(n=4096, d=4), Grid(queries=1024), Cluster(devices=1024, topology=ethernet(1024)))
    with pytest.raises(InvalidInput, match="gather-keys has 1,047,552 messages; at most 400,000 are simulated"):
        simulate(large)
