import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster import Grid, stage_words
from attenio.cluster.loads import Flows, flows_of, loads_of_flows, stage_loads
from attenio.cluster.placement import Placement, placements
from attenio.cluster.topology import Topology, dgx_h100, ethernet, tpu_torus
from attenio.cluster.words import Shares, stages_of
from attenio.workload import Workload
from cluster.messages import stage_messages
from cluster.strategies import problems

laws = settings(max_examples=17, deadline=None, derandomize=True)


def switches(devices: int) -> list[Topology]:
    return [ethernet(devices), dgx_h100(nodes=-(-devices // 2), gpus=2), dgx_h100(nodes=-(-devices // 3), gpus=3)]


@laws
@given(problems(most_devices=16), st.randoms())
def test_words_of_all_levels_are_those_of_the_stage_and_of_its_messages_one_by_one(
    problem: tuple[Workload, Grid], random: st.DataObject
) -> None:
    workload, grid = problem
    shares = Shares.of(workload, grid)
    placement = random.choice(list(placements(grid)))  # type: ignore[attr-defined]
    devices = placement.devices(grid)
    assert sorted(devices.tolist()) == list(range(grid.devices))
    for topology in switches(grid.devices):
        for each in stage_words(workload, grid):
            loads = stage_loads(workload, grid, each.stage, placement, topology)
            assert np.sum([load.words for load in loads], axis=0).tolist() == each.sent.tolist()
            sent = np.zeros((len(loads), grid.devices), dtype=int)
            received = np.zeros_like(sent)
            for message in stage_messages(workload, grid, each.stage, shares):
                ends = devices[message.source], devices[message.target]
                level = next(k for k, size in enumerate(topology.group_sizes) if ends[0] // size == ends[1] // size)
                sent[level, message.source] += message.words
                received[level, message.target] += message.words
            assert [load.words.tolist() for load in loads] == sent.tolist()
            assert [load.busiest_words for load in loads] == np.maximum(sent, received).max(axis=1).tolist()


@laws
@given(problems(most_devices=16))
def test_flows_are_the_messages_of_a_stage(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    for stage in stages_of(workload.direction):
        flows = flows_of(workload, grid, stage)
        listed = sorted(tuple(map(int, each)) for each in zip(*flows, strict=True))
        assert listed == sorted(stage_messages(workload, grid, stage, Shares.of(workload, grid)))


@laws
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_messages_in_a_torus_take_as_many_links_as_their_ends_are_apart(axes: list[int], data: st.DataObject) -> None:
    topology = tpu_torus(tuple(axes))
    places = st.integers(0, topology.devices - 1)
    ends = data.draw(st.lists(st.tuples(places, places, st.integers(1, 9)), min_size=1, max_size=20))
    flows = Flows(*(np.array(each, dtype=np.int64) for each in zip(*ends, strict=True)))
    loads = loads_of_flows(flows, np.arange(topology.devices), topology)
    stride = 1
    for size, load in zip(axes, loads, strict=True):
        apart = [abs(s // stride % size - t // stride % size) for s, t, _ in ends]
        hops = [min(each, size - each) for each in apart]
        expected = sum(words * hop for (_, _, words), hop in zip(ends, hops, strict=True))
        assert int(load.words.sum()) == expected
        assert load.busiest_words <= expected <= load.busiest_words * 2 * topology.devices
        stride *= size


def test_many_messages_in_a_torus_load_all_links_alike() -> None:
    workload, topology = Workload(n=512, d=4), tpu_torus((16, 16))
    from attenio.cluster.words import Stage

    (first, second) = stage_loads(workload, Grid(queries=256), Stage.GATHER_KEYS, Placement(), topology)
    exact = loads_of_flows(flows_of(workload, Grid(queries=256), Stage.GATHER_KEYS), np.arange(256), topology)
    assert [load.words.tolist() for load in (first, second)] == [load.words.tolist() for load in exact]
    assert all(mean.busiest_words == each.busiest_words for mean, each in zip((first, second), exact, strict=True))
