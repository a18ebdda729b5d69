from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attenio.dataflows import execute, random_gradient, random_inputs
from attenio.errors import DoesNotFit, MemoryOverflow
from attenio.planning import Saved, best_plan_for, training_candidates_for, training_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

from .laws import QUICK, QUICK_EACH, is_right, some_tiles, workloads


@QUICK
@given(workloads(), st.integers(3, 400))
def test_a_step_moves_and_holds_what_its_plan_says_and_computes_outputs_and_gradients(workload, fast_words):
    for candidate in training_candidates_for(workload, fast_words):
        if candidate.plan is None:
            continue
        run = execute(candidate.plan)
        assert (run.moved_words, run.peak_words) == (candidate.plan.moved_words, candidate.plan.peak_words)
        assert (candidate.plan.kept_outputs + candidate.plan.kept_keys > 0) <= (candidate.saved is Saved.OUTPUTS)
        assert run.moved_words == sum(one.moved_words for one in run.runs)
        assert len(run.runs) == (3 if candidate.saved is Saved.NOTHING else 2)
        is_right(run.forward)
        is_right(run.backward)


@QUICK
@given(
    n=st.integers(2, 12),
    d=st.integers(1, 6),
    value_dim=st.integers(1, 6),
    dtype=st.sampled_from(("fp32", "fp16")),
    share=st.floats(0, 1),
)
def test_what_stays_of_a_first_tile_is_read_where_the_forward_pass_left_it(n, d, value_dim, dtype, share):
    workload = Workload(n=n, d=d, value_dim=value_dim, mask="causal", dtype=dtype)
    once = training_plan_for(workload, 10**6, saved="outputs")
    room = max(once.forward.peak_words, once.backward.peak_words)
    try:
        plan = training_plan_for(workload, room - 1 - int(share * (room // 3)), saved="outputs")
    except DoesNotFit:
        assume(False)
    assert plan.first_tile
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    is_right(run.forward)
    is_right(run.backward)
    alone = execute(replace(plan.forward, fast_words=10**6))
    assert run.forward.moved_words - alone.moved_words == n * workload.accumulator_words
    read = {name: execute(replace(plan.backward, fast_words=10**6)).trace.loads[name] for name in "KVQO"}
    stayed = plan.kept_keys * d, plan.kept_values * value_dim, plan.kept_queries * d, plan.kept_outputs * value_dim
    assert tuple(read[name] - run.backward.trace.loads[name] for name in "KVQO") == stayed


@pytest.mark.parametrize("dataflow", Dataflow.towards("forward"), ids=lambda dataflow: dataflow.value)
@QUICK_EACH
@given(workload=workloads(), data=st.data())
def test_every_forward_dataflow_stores_the_log_sum_exp_of_each_row_once_in_the_same_memory(dataflow, workload, data):
    try:
        step = training_plan_for(workload, 500)
    except DoesNotFit:
        assume(False)
    tiles = some_tiles(data.draw, workload, dataflow)
    alone = execute(replace(step.forward, dataflow=dataflow, tiles=tiles, fast_words=10**6))
    forward = replace(alone.plan, fast_words=alone.peak_words)
    run = execute(replace(step, forward=forward, saved=Saved.STATISTICS))
    touched = workload.batch * workload.heads * sum(p.touched_rows * n for p, n in workload.separate_patterns)
    assert run.forward.moved_words - alone.moved_words == touched * workload.accumulator_words
    assert run.forward.trace.stores["L"] == touched * workload.accumulator_words
    assert run.forward.peak_words == alone.peak_words
    assert (run.output == alone.output).all()
    is_right(run.backward)


def test_the_backward_pass_works_on_what_the_forward_pass_left():
    workload = Workload(n=12, d=4, heads=2, kv_heads=1, mask="causal")
    inputs = (*random_inputs(workload, 7), random_gradient(workload, 7))
    plan = training_plan_for(workload, 200)
    run = execute(plan, inputs=inputs)
    assert run.backward.output is run.forward.output
    assert (run.output == execute(plan.forward, inputs=inputs[:3]).output).all()
    assert run.gradients is run.backward.gradients
    assert run.max_abs_error == max(run.forward.max_abs_error, run.backward.max_abs_error) < 1e-2


def test_a_step_refuses_to_overflow_in_either_pass():
    plan = training_plan_for(Workload(n=12, d=4), 200)
    for name in ("forward", "backward"):
        tight = replace(getattr(plan, name), fast_words=getattr(plan, name).peak_words - 1)
        with pytest.raises(MemoryOverflow):
            execute(replace(plan, **{name: tight}))


def test_progress_grows_to_its_total_over_all_passes():
    for saved in Saved:
        calls = []
        plan = training_plan_for(Workload(n=12, d=4, heads=2, kv_heads=1), 500, saved=saved)
        execute(plan, progress=lambda done, total, calls=calls: calls.append((done, total)))
        done, totals = zip(*calls, strict=True)
        assert list(done) == sorted(done)
        assert done[-1] == totals[-1]
        assert len(set(totals)) == 1


def test_events_are_recorded_for_every_pass():
    run = execute(training_plan_for(Workload(n=4, d=2), 100, saved="nothing"), record=True)
    assert all(one.trace.events for one in run.runs)
    assert best_plan_for(Workload(n=4, d=2), 100) == run.plan.forward
    assert np.isfinite(run.max_abs_error)
