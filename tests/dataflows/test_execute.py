from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.dataflows import execute, random_inputs
from attenio.elements import ElementType
from attenio.errors import InvalidInput, MemoryOverflow
from attenio.machine import Machine
from attenio.masks import BlockSparse, SharedPrefix
from attenio.memory import EventKind, Step
from attenio.planning import best_plan
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .laws import GRADIENT_TILES, QUICK, SMALL_TILES, planned, required_matrix, some_tiles, tolerance, workloads

FEW = settings(QUICK, max_examples=12)
ROOMY = 10**6

SPILLING = Tiles.of(query_tile=1, resident_keys=2)
EVERY_WAY = [*SMALL_TILES.items(), (Dataflow.FLAT, SPILLING)]
every_way = pytest.mark.parametrize(
    ("dataflow", "tiles"), EVERY_WAY, ids=[flow.value + (" spilling" if t is SPILLING else "") for flow, t in EVERY_WAY]
)


@every_way
@pytest.mark.parametrize("size", [1e4, 1e15, 1e30])
def test_equal_scores_of_any_size_weigh_all_values_the_same(dataflow, tiles, size):
    workload = Workload(queries=5, keys=7, d=4, value_dim=3, heads=2, kv_heads=1, dtype="fp32")
    q, k, v = random_inputs(workload)
    root = np.float32(np.sqrt(size / 2))
    run = execute(planned(workload, dataflow, tiles, ROOMY), inputs=(np.full_like(q, root), np.full_like(k, root), v))
    assert run.max_abs_error <= 8 * 2.0**-23 * np.abs(v).max()


@every_way
@pytest.mark.parametrize("size", [1e2, 1e5, 1e12])
def test_a_score_far_above_the_others_takes_all_the_weight(dataflow, tiles, size):
    workload = Workload(n=6, d=4, heads=2, kv_heads=1, mask="causal", dtype="bf16")
    q, k, v = random_inputs(workload)
    inputs = (size * np.sign(q), np.sign(k), v)
    run = execute(planned(workload, dataflow, tiles, ROOMY), inputs=inputs)
    assert np.isfinite(run.output).all()
    assert run.max_abs_error <= 2.0**-6 * np.abs(v).max()


@every_way
def test_scores_beyond_single_precision_saturate_instead_of_turning_into_nan(dataflow, tiles):
    workload = Workload(n=5, d=3, dtype="fp32")
    q, k, v = random_inputs(workload)
    run = execute(planned(workload, dataflow, tiles, ROOMY), inputs=(q * 1e30, k * 1e30, v * 1e38))
    assert np.isfinite(run.output).all()


@every_way
def test_fully_masked_rows_are_zero(dataflow, tiles):
    layout = BlockSparse.from_array(
        np.array([[0.0, -np.inf], [-np.inf, -np.inf], [0.0, 0.0]]), query_block=2, key_block=3
    )
    workload = Workload(queries=6, keys=6, d=2, heads=2, kv_heads=1, mask=layout)
    run = execute(planned(workload, dataflow, tiles, ROOMY))
    assert (run.output[:, :, 2:4] == 0).all()
    assert (run.output[:, :, :2] != 0).any()
    causal = Workload(queries=6, keys=2, d=2, mask="causal")
    assert (execute(planned(causal, dataflow, tiles, ROOMY)).output[:, :, :4] == 0).all()


@every_way
@pytest.mark.parametrize("dtype", list(ElementType))
def test_outputs_are_values_of_the_element_type(dataflow, tiles, dtype):
    workload = Workload(queries=3, keys=8, d=3, dtype=dtype, heads=2, kv_heads=1)
    run = execute(planned(workload, dataflow, tiles, ROOMY))
    assert (dtype.rounded(run.output) == run.output).all()
    assert run.max_abs_error <= tolerance(workload, random_inputs(workload))


@every_way
def test_decoding_reads_a_long_cache_with_one_query(dataflow, tiles):
    workload = Workload(queries=1, keys=50, d=4, heads=4, kv_heads=2, batch=2, mask="causal")
    run = execute(planned(workload, dataflow, tiles, ROOMY))
    assert run.max_abs_error <= tolerance(workload, random_inputs(workload))


@FEW
@given(workloads(), st.sampled_from(Dataflow.towards("forward")), st.data())
def test_every_required_score_and_product_is_computed_exactly_once(workload, dataflow, data):
    tiles = some_tiles(data.draw, workload, dataflow)
    run = execute(planned(workload, dataflow, tiles, ROOMY), record=True)
    scores, outputs, stored = Counter(), Counter(), Counter()
    for event in run.trace.events:
        if event.kind is EventKind.STORE and event.operand == "O":
            stored.update((event.problem, i, c) for i in event.rows for c in event.columns)
        elif event.step is Step.SCORES:
            scores.update((event.problem, i, j, t) for i in event.rows for j in event.columns for t in event.inner)
        elif event.step in (Step.OUTPUT, Step.RESCALED_OUTPUT):
            outputs.update((event.problem, i, c, j) for i in event.rows for c in event.columns for j in event.inner)
    rows = workload.batch * workload.heads * workload.queries
    assert len(stored) == rows * workload.value_dim
    required = workload.scores
    assert len(scores) >= required * workload.d
    assert len(outputs) >= required * workload.value_dim
    assert {*scores.values(), *outputs.values(), *stored.values()} <= {1}


@FEW
@given(workloads(), st.sampled_from(Dataflow.towards("training")), st.data())
def test_recorded_events_add_up_to_the_totals_and_the_peak(workload, dataflow, data):
    workload = workload.towards(dataflow.direction)
    tiles = some_tiles(data.draw, workload, dataflow)
    run = execute(planned(workload, dataflow, tiles, ROOMY), record=True)
    moved, in_use, peak = Counter(), 0, 0
    for event in run.trace.events:
        if event.kind in (EventKind.LOAD, EventKind.STORE):
            moved[event.kind, event.operand] += event.words
            values = event.rows.size * event.columns.size if event.cells is None else int(event.cells.sum())
            assert event.words in (values, values * workload.accumulator_words)
        elif event.kind is EventKind.RESERVE:
            in_use += event.words
            peak = max(peak, in_use)
        elif event.kind is EventKind.RELEASE:
            in_use -= event.words
    totals = {(EventKind.LOAD, name): words for name, words in run.trace.loads.items()}
    totals |= {(EventKind.STORE, name): words for name, words in run.trace.stores.items()}
    assert dict(moved) == totals
    assert (sum(moved.values()), in_use, peak) == (run.moved_words, 0, run.peak_words)


def test_nothing_is_recorded_unless_asked_for():
    workload = Workload(n=4, d=2)
    assert execute(planned(workload, Dataflow.ATTENIO, SMALL_TILES[Dataflow.ATTENIO], ROOMY)).trace.events == []


@FEW
@given(workloads(), st.sampled_from(Dataflow.towards("training")), st.data())
def test_progress_grows_to_its_total(workload, dataflow, data):
    calls = []
    workload = workload.towards(dataflow.direction)
    tiles = some_tiles(data.draw, workload, dataflow)
    execute(planned(workload, dataflow, tiles, ROOMY), progress=lambda done, total: calls.append((done, total)))
    done, totals = zip(*calls, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == totals[-1]
    assert len(set(totals)) == 1


def test_the_same_seed_gives_the_same_run():
    plan = planned(Workload(n=6, d=2), Dataflow.ATTENIO, SMALL_TILES[Dataflow.ATTENIO], ROOMY)
    assert (execute(plan, seed=3).output == execute(plan, seed=3).output).all()
    assert (execute(plan, seed=3).output != execute(plan, seed=4).output).any()


def test_masked_values_never_reach_the_output():
    workload = Workload(n=6, d=2, mask="causal", dtype="fp32")
    q, k, v = random_inputs(workload)
    hidden = v.copy()
    hidden[:, :, 3:] = 1e30
    assert not required_matrix(workload)[:3, 3:].any()
    for dataflow, tiles in EVERY_WAY:
        plan = planned(workload, dataflow, tiles, ROOMY)
        clean, dirty = execute(plan, inputs=(q, k, v)), execute(plan, inputs=(q, k, hidden))
        assert (clean.output[:, :, :3] == dirty.output[:, :, :3]).all()


def test_a_plan_that_does_not_fit_says_what_it_could_not_hold():
    plan = planned(Workload(n=8, d=4), Dataflow.ATTENIO, Tiles.of(query_tile=8, key_tile=8), 100)
    message = r"cannot hold 64 words of S: 88 of 100 in use; use a smaller tile"
    with pytest.raises(MemoryOverflow, match=message):
        execute(plan)


def test_a_plan_without_its_tiles_is_refused():
    with pytest.raises(InvalidInput, match="attenio needs a size for key_tile; the plan has query_tile=2"):
        execute(planned(Workload(n=8, d=4), Dataflow.ATTENIO, Tiles.of(query_tile=2), ROOMY))
    with pytest.raises(InvalidInput, match="key_tile is 0; it must be at least 1"):
        execute(planned(Workload(n=8, d=4), Dataflow.ATTENIO, Tiles.of(query_tile=2, key_tile=0), ROOMY))


def test_a_plan_of_the_other_direction_is_refused():
    for dataflow, direction in ((Dataflow.ATTENIO, "backward"), (Dataflow.TWO_PASS, "forward")):
        tiles = (SMALL_TILES | GRADIENT_TILES)[dataflow]
        with pytest.raises(InvalidInput, match=f"{dataflow.value} is for the {dataflow.direction.value} pass"):
            execute(planned(Workload(n=8, d=4, direction=direction), dataflow, tiles, ROOMY))


def test_a_shared_prefix_is_read_once_for_a_tile_that_spans_requests():
    workload = Workload(queries=1, keys=9, d=2, batch=4, mask=SharedPrefix(length=8))
    run = execute(planned(workload, Dataflow.STACKED_GROUPS, Tiles.of(query_tile=4, head_tile=1, key_tile=1), ROOMY))
    assert run.trace.loads["K"] == (8 + 4) * 2
    assert run.max_abs_error <= tolerance(workload, random_inputs(workload))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("scale", [1e308, -1e200, 1e38])
def test_a_scale_that_takes_scores_out_of_range_is_refused(direction, scale):
    workload, machine = Workload(n=32, d=4, scale=scale, direction=direction), Machine.with_fast_bytes(4096)
    with pytest.raises(InvalidInput, match="makes scores overflow; use a size of at most 1") as refusal:
        execute(best_plan(workload, machine))
    most = float(str(refusal.value).rsplit(" ", 1)[1])
    done = execute(best_plan(replace(workload, scale=most), machine))
    assert np.isfinite(done.max_abs_error)


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_seed_that_is_no_count_is_refused(direction, seed):
    plan = best_plan(Workload(n=32, d=4, direction=direction), Machine.with_fast_bytes(4096))
    with pytest.raises(InvalidInput, match="seed is"):
        execute(plan, seed=seed)
