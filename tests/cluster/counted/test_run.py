"""Laws of a grid on counted memories: what it sends and holds is what was predicted, and it computes attention."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster import Grid, sent_words, stage_words
from attenio.cluster.counted import execute_grid
from attenio.cluster.counted.run import inputs_of
from attenio.cluster.memory import memory_words, pass_columns
from attenio.cluster.placement import Placement
from attenio.cluster.plan import REPEATED, Cluster, plan_grid
from attenio.cluster.topology import dgx_h100
from attenio.errors import MemoryOverflow
from attenio.reference import attention
from attenio.workload import Workload
from cluster.counted.definition import assert_results_are_defined
from cluster.strategies import problems

PASSES = ("forward", "backward", "training")
laws = settings(max_examples=20, deadline=None, derandomize=True)


@laws
@given(problems(longest=24, directions=PASSES, most_devices=12), st.integers(1, 4))
def test_a_grid_sends_and_holds_what_was_predicted_and_computes_the_definition(
    problem: tuple[Workload, Grid], passes: int
) -> None:
    workload, grid = problem
    inputs, passes = inputs_of(workload), len(pass_columns(grid, min(passes, grid.keys)))
    run = execute_grid(workload, grid, inputs, passes=passes)
    nothing = np.zeros((grid.devices, grid.devices), dtype=int)
    stages = stage_words(workload, grid)
    for stage in {each.stage for each in stages}:
        counted, times = run.network.words.get(stage, nothing), passes if stage in REPEATED else 1
        here = [each for each in stages if each.stage is stage]
        assert counted.sum(axis=1).tolist() == sum(each.sent * times for each in here).tolist(), stage
        assert counted.sum(axis=0).tolist() == sum(each.received * times for each in here).tolist(), stage
    assert run.network.sent.sum() == sum(each.sum() for each in run.network.words.values())
    assert list(run.peak_words) == memory_words(workload, grid, passes=passes).tolist()
    assert_results_are_defined(run.results, inputs, workload)


@settings(laws, max_examples=14)
@given(problems(longest=16, directions=PASSES, most_devices=8))
def test_one_word_less_of_memory_overflows(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    needed, inputs = int(memory_words(workload, grid).max()), inputs_of(workload)
    assert max(execute_grid(workload, grid, inputs, memory_words=needed).peak_words) == needed
    with pytest.raises(MemoryOverflow, match="cannot hold"):
        execute_grid(workload, grid, inputs, memory_words=needed - 1)


@settings(laws, max_examples=12)
@given(problems(longest=16, directions=PASSES, most_devices=9))
def test_words_of_every_link_level_are_those_of_the_plan(problem: tuple[Workload, Grid]) -> None:
    workload, grid = problem
    topology, placement = dgx_h100(nodes=-(-grid.devices // 3), gpus=3), Placement()
    plan = plan_grid(workload, grid, Cluster(devices=grid.devices, topology=topology), placement=placement)
    run = execute_grid(workload, grid, inputs_of(workload))
    counted = run.network.level_words(grid, placement, topology)
    assert [int(load.words.sum()) for load in counted] == [level.total_words for level in plan.levels]
    assert [int(load.words.max()) for load in counted] == [level.words_per_device for level in plan.levels]


def test_values_that_are_part_of_keys_travel_once() -> None:
    workload = Workload(queries=3, keys=20, d=6, value_dim=4, heads=4, kv_heads=1, values_in_keys=True)
    inputs = inputs_of(workload)
    inputs["V"] = inputs["K"][..., :4]
    grid = Grid(queries=2, keys=3)
    run = execute_grid(workload, grid, inputs)
    right = attention(inputs["Q"], inputs["K"], inputs["V"], workload)
    np.testing.assert_allclose(run.results["O"], right, atol=5e-5)
    assert run.network.sent.tolist() == sent_words(workload, grid).tolist()
