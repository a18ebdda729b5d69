"""Strips and patchworks on counted memories: words, memory and results are those that were predicted."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.cluster.bounds import balanced_exchange
from attenio.cluster.counted import execute_layout
from attenio.cluster.counted.run import inputs_of
from attenio.cluster.layout_memory import layout_memory
from attenio.cluster.layouts import layout_words
from attenio.cluster.patches import Patchwork, plan_patches
from attenio.cluster.strips import Strips, plan_strips
from attenio.errors import MemoryOverflow
from attenio.workload import Workload
from cluster.counted.definition import assert_results_are_defined
from cluster.patches.strategies import problems as patches_and_work
from cluster.strips.test_strips import problems as strips_and_work

laws = settings(max_examples=22, deadline=None, derandomize=True)


def layouts_and_work() -> st.SearchStrategy[tuple[Workload, Strips | Patchwork]]:
    return st.one_of(strips_and_work(), patches_and_work())


@laws
@given(layouts_and_work())
def test_layouts_send_and_hold_what_was_predicted_and_compute_the_definition(
    problem: tuple[Workload, Strips | Patchwork],
) -> None:
    workload, layout = problem
    inputs = inputs_of(workload)
    needed = layout_memory(workload, layout)
    run = execute_layout(workload, layout, inputs, memory_words=int(needed.max()))
    nothing, sent, received = np.zeros((layout.devices,) * 2, dtype=int), Counter[str](), Counter[str]()
    for each in layout_words(workload, layout):
        sent[each.stage] += each.sent
        received[each.stage] += each.received
    for stage in sent:
        counted = run.network.words.get(stage, nothing)
        assert counted.sum(axis=1).tolist() == sent[stage].tolist(), stage
        assert counted.sum(axis=0).tolist() == received[stage].tolist(), stage
    assert run.network.words.keys() <= set(sent)
    assert list(run.peak_words) == needed.tolist()
    assert_results_are_defined(run.results, inputs, workload)


def test_one_word_less_of_memory_overflows() -> None:
    workload, layout = Workload(n=60, d=3, heads=2, mask="causal", direction="training"), Strips(heads=2, counts=(2, 1))
    needed = int(layout_memory(workload, layout).max())
    with pytest.raises(MemoryOverflow, match="cannot hold"):
        execute_layout(workload, layout, inputs_of(workload), memory_words=needed - 1)


@laws
@given(layouts_and_work())
def test_no_layout_sends_less_than_the_bound_for_its_balance(problem: tuple[Workload, Strips | Patchwork]) -> None:
    workload, layout = problem
    plan = (plan_strips if isinstance(layout, Strips) else plan_patches)(workload, layout)  # type: ignore[arg-type]
    bound = balanced_exchange(workload, layout.devices, imbalance=plan.imbalance)
    assert bound.words <= plan.total_words
