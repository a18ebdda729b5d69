"""Keys in fewer bits, sinks and capped scores: what a run counts is what the closed form says, and it is right."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_absolute, largest_ordinary
from attenio.catalogue import machine_named
from attenio.dataflows import execute, random_inputs
from attenio.dataflows.inputs import random_sinks
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning import nested_plan
from attenio.planning.best import best_plan_for
from attenio.planning.costs import cost, reads_keys_of
from attenio.planning.nested import nested_plan_with
from attenio.planning.plan import Dataflow, Tiles
from attenio.reference import attention
from attenio.workload import Workload

from .laws import is_right, planned, some_tiles, tolerance, workloads
from .test_against_the_planner import nested_levels

LAW = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FORWARD = Dataflow.towards("forward")


@st.composite
def forms(draw: st.DrawFn, plain: st.SearchStrategy[Workload] | None = None) -> Workload:
    """Workloads with some of them; widths are whole words."""
    workload = draw(workloads() if plain is None else plain)
    word = 8 * workload.dtype.bytes
    bits = draw(st.sampled_from([None, *(bits for bits in (2, 4, 8, 16) if bits <= word)]))
    shared = 1 if bits is None else word // bits
    d, value_dim = shared * draw(st.integers(1, 3)), shared * draw(st.integers(1, 3))
    return replace(
        workload,
        d=d,
        value_dim=value_dim,
        kv_bits=bits,
        sinks=draw(st.booleans()),
        softcap=draw(st.sampled_from([None, 0.5, 30.0])),
        values_in_keys=value_dim <= d and draw(st.booleans()),
    )


def tiles_of(draw: st.DrawFn, workload: Workload, dataflow: Dataflow) -> Tiles:
    """Tiles of which columns of values are whole words."""
    tiles = some_tiles(draw, workload, dataflow)
    if "value_columns" not in tiles:
        return tiles
    shared = workload.entries_per_word
    return Tiles.of(**{**tiles, "value_columns": -(-tiles["value_columns"] // shared) * shared})


@pytest.mark.parametrize("dataflow", FORWARD, ids=lambda dataflow: dataflow.value)
@LAW
@given(workload=forms(), data=st.data())
def test_a_run_moves_and_holds_exactly_what_its_closed_form_says(
    dataflow: Dataflow, workload: Workload, data: st.DataObject
) -> None:
    if not reads_keys_of(workload, dataflow):
        with pytest.raises(InvalidInput, match=f"^{dataflow.value} reads single entries of keys, and with kv_bits="):
            best_plan_for(workload, 10**6, dataflow=dataflow)
        workload = replace(workload, kv_bits=None)
    tiles = tiles_of(data.draw, workload, dataflow)
    predicted = cost(workload, dataflow, tiles)
    run = execute(planned(workload, dataflow, tiles, predicted.peak_words))
    assert (run.moved_words, run.peak_words) == (predicted.moved_words, predicted.peak_words)
    is_right(run)
    assert run.trace.loads["sinks"] == (workload.heads if workload.sinks else 0)


@LAW
@given(workload=forms(), data=st.data())
def test_each_level_of_a_nested_run_moves_what_its_closed_form_says(workload: Workload, data: st.DataObject) -> None:
    head_tile, tiles = data.draw(st.integers(1, workload.group)), data.draw(nested_levels(workload))
    plan = nested_plan_with(workload, (10**6,) * len(tiles), head_tile, tiles)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    assert run.max_abs_error <= tolerance(workload, random_inputs(workload))


@settings(LAW, max_examples=17)
@given(workload=forms(), fast_words=st.integers(1, 300))
def test_the_best_plan_is_the_best_of_all_dataflows_and_beats_no_bound(workload: Workload, fast_words: int) -> None:
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        assume(False)
    run = execute(plan)
    assert (run.moved_words, run.peak_words) == (plan.moved_words, plan.peak_words)
    assert plan.peak_words <= fast_words
    bounds = bounds_for(workload, fast_words)
    assert plan.moved_words >= largest_ordinary(bounds).words >= largest_absolute(bounds).words
    readers = [each for each in FORWARD if reads_keys_of(workload, each)]
    assert plan.moved_words == min(_least(workload, fast_words, each) for each in readers)


def _least(workload: Workload, fast_words: int, dataflow: Dataflow) -> float:
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow).moved_words
    except DoesNotFit:
        return float("inf")


@settings(LAW, max_examples=14)
@given(workload=workloads(), fast_words=st.integers(1, 300))
def test_keys_of_whole_words_without_sinks_are_planned_as_ever(workload: Workload, fast_words: int) -> None:
    whole = replace(workload, kv_bits=8 * workload.dtype.bytes, softcap=1.5)
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit as problem:
        with pytest.raises(DoesNotFit) as refused:
            best_plan_for(whole, fast_words)
        assert str(refused.value) == str(problem)
        return
    same = best_plan_for(whole, fast_words)
    assert replace(same, workload=workload) == plan
    for one, other in zip(bounds_for(whole, fast_words), bounds_for(workload, fast_words), strict=True):
        assert one == other


@settings(LAW, max_examples=14)
@given(workload=forms(), fast_words=st.integers(50, 400))
def test_sinks_cost_a_word_a_head_and_the_room_of_a_group(workload: Workload, fast_words: int) -> None:
    without, with_sinks = (replace(workload, sinks=sinks) for sinks in (False, True))
    try:
        plan = best_plan_for(without, fast_words)
    except DoesNotFit:
        assume(False)
    other = best_plan_for(with_sinks, fast_words + workload.group)
    assert other.moved_words == plan.moved_words + workload.heads
    assert other.peak_words == plan.peak_words + workload.group


@settings(LAW, max_examples=14)
@given(workload=forms(), fast_words=st.integers(50, 400))
def test_fewer_bits_never_move_more_beyond_their_scales(workload: Workload, fast_words: int) -> None:
    whole = replace(workload, kv_bits=None)
    scales = workload.held_words - whole.held_words
    try:
        plan = best_plan_for(replace(whole, sinks=workload.sinks), fast_words, dataflow="attenio")
    except DoesNotFit:
        assume(False)
    fewer = best_plan_for(workload, fast_words + scales, dataflow="attenio")
    assert fewer.moved_words <= plan.moved_words + workload.kv_heads * scales


def test_halved_keys_halve_what_a_long_decode_moves() -> None:
    decode = Workload(queries=1, keys=65536, d=128, heads=8, kv_heads=8, dtype="bf16")
    whole, half = (best_plan_for(replace(decode, kv_bits=bits), 10**6) for bits in (16, 8))
    keys = 8 * 65536 * 256
    assert whole.moved_words - half.moved_words == keys // 2 - 8 * 4  # four words of scales a KV head
    assert half.moved_words == largest_absolute(bounds_for(half.workload, 10**6)).words


def test_the_definition_has_a_sink_as_a_score_without_a_value_and_caps_scores() -> None:
    workload = Workload(n=5, d=4, heads=2, sinks=True, softcap=2.0, mask="causal")
    q, k, v = random_inputs(workload, 3)
    sinks = random_sinks(workload, 3)
    scores = 2.0 * np.tanh(np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64) * 0.5 / 2.0)
    scores[..., ~np.tri(5, dtype=bool)] = -np.inf
    beside = np.concatenate([scores, np.broadcast_to(sinks[None, :, None, None], (1, 2, 5, 1))], axis=-1)
    weights = np.exp(beside)
    right = (weights / weights.sum(-1, keepdims=True))[..., :-1] @ v
    np.testing.assert_allclose(attention(q, k, v, workload, sinks=sinks), right, rtol=1e-12)


def test_keys_of_fewer_bits_are_whole_numbers_times_the_scale_of_their_head() -> None:
    workload = Workload(n=6, d=8, value_dim=4, heads=4, kv_heads=2, batch=3, kv_bits=4)
    q, k, v = random_inputs(workload)
    for array in (k, v):
        for kv_head in range(2):
            scale = np.abs(array[:, kv_head]).max() / 7
            np.testing.assert_allclose(array[:, kv_head] / scale, np.rint(array[:, kv_head] / scale), atol=1e-5)
    given_again = execute(best_plan_for(workload, 200), inputs=(q, k, v))
    assert given_again.max_abs_error < 1e-2


REFUSED = [
    ({"kv_bits": 3}, "kv_bits is 3; give a divisor of 16, the bits of a word of fp16"),
    ({"kv_bits": 1}, "kv_bits is 1; it must be at least 2"),
    ({"kv_bits": 32}, "kv_bits is 32; give a divisor of 16, the bits of a word of fp16"),
    ({"kv_bits": 4, "value_dim": 6}, "value_dim is 6, and 4 entries of 4 bits share a word; give a multiple of 4"),
    ({"kv_bits": 8, "direction": "training"}, "kv_bits is 8, below a word, and this is training: what was rounded has"),
    ({"sinks": True, "tolerance": 0.1, "entry_bound": 1.0}, "sinks: planned for exact attention only"),
    ({"sinks": 1}, "sinks is 1; give True or False"),
    ({"softcap": 0.0}, "softcap is 0.0; give a finite number above 0, such as 50"),
    ({"softcap": 5.0, "tolerance": 0.1, "entry_bound": 1.0}, "a softcap: planned for exact attention only"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED, ids=[said.split(";")[0] for _, said in REFUSED])
def test_what_is_no_such_workload_is_refused_in_one_line(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Workload(n=8, d=8, **options)
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)


def test_sinks_that_are_missing_or_too_many_are_refused() -> None:
    workload = Workload(n=4, d=4, heads=2, sinks=True)
    plan = best_plan_for(workload, 1000)
    q, k, v = random_inputs(workload)
    with pytest.raises(InvalidInput, match="inputs are 3 arrays; with sinks give four"):
        execute(plan, inputs=(q, k, v))
    with pytest.raises(InvalidInput, match="sinks has shape"):
        execute(plan, inputs=(q, k, v, np.zeros(3)))
    with pytest.raises(InvalidInput, match="value_columns is 1, and 2 entries share a word"):
        cost(replace(workload, kv_bits=8), "kept-keys", Tiles.of(query_tile=1, kept_keys=1, value_columns=1))


def test_a_nested_plan_on_a_machine_keeps_scales_and_sinks_at_every_level() -> None:
    workload = Workload(n=64, d=16, heads=4, kv_heads=2, kv_bits=8, sinks=True)
    run = execute(nested_plan(workload, machine_named("a100")))
    assert run.moved_words == run.plan.moved_words
    assert [trace.loads["sinks"] for trace in run.traces] == [4] * len(run.traces)
    assert [trace.loads["scales"] for trace in run.traces] == [2 * 2 * 2] * len(run.traces)
