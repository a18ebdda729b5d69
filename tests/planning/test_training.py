from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.planning import (
    Dataflow,
    Saved,
    best_plan_for,
    cost,
    nested_plan,
    training_candidates,
    training_candidates_for,
    training_plan,
    training_plan_for,
)
from attenio.planning.words.dataflows import tile_names
from attenio.workload import Direction, Workload

from .strategies import all_tiles, costs, workloads

QUICK = settings(max_examples=14, deadline=None, derandomize=True)
MANY = settings(max_examples=20, deadline=None, derandomize=True)


def touched_rows(workload: Workload) -> int:
    return workload.batch * workload.heads * sum(p.touched_rows * count for p, count in workload.separate_patterns)


@MANY
@given(workload=workloads(longest=20, widest=6), fast_words=st.integers(1, 400))
def test_a_step_is_made_of_the_best_passes_and_what_is_saved_between_them(workload: Workload, fast_words: int) -> None:
    for candidate in training_candidates_for(workload, fast_words):
        plan = candidate.plan
        if plan is None:
            assert candidate.reason
            continue
        statistics = touched_rows(workload) * workload.accumulator_words
        if plan.saved is Saved.OUTPUTS and plan.kept_keys == workload.keys:
            statistics = 0  # rows make them again
        kept = plan.kept_outputs * workload.value_dim
        keys = plan.kept_keys * workload.d + plan.kept_values * workload.value_dim
        kept += plan.kept_queries * workload.d
        assert plan.kept_values == plan.kept_keys or plan.first_tile
        extra = 0 if plan.saved is Saved.PROBABILITIES else statistics - kept - keys
        if plan.saved is Saved.NOTHING:
            extra += plan.forward.moved_words
        assert plan.extra_words == extra
        assert plan.moved_words == plan.forward.moved_words + plan.backward.moved_words + extra
        passes = max(plan.forward.peak_words, plan.backward.peak_words)
        assert passes <= plan.peak_words == (plan.peak_words if plan.first_tile else passes + kept) <= fast_words
        assert kept + keys == 0 or plan.saved is Saved.OUTPUTS
        assert plan.moved_words >= plan.workload.compulsory_words
        assert plan.workload.direction is Direction.TRAINING
        for one in (plan.forward, plan.backward):
            found = cost(one.workload, one.dataflow, one.tiles)
            assert (found.moved_words, found.peak_words) == (one.moved_words, one.peak_words)
        if plan.saved not in (Saved.PROBABILITIES, Saved.OUTPUTS):
            assert plan.forward == best_plan_for(workload, fast_words)
            assert plan.backward == best_plan_for(workload.towards("backward"), fast_words)


@settings(QUICK, max_examples=6)
@given(workload=workloads(longest=4, widest=2), data=st.data())
def test_no_tiles_that_read_saved_probabilities_move_less_than_the_best(
    workload: Workload, data: st.DataObject
) -> None:
    backward, dataflow = workload.towards("backward"), Dataflow.TILED_PRODUCTS
    every = [tiles for tiles in all_tiles(backward, dataflow, reading=True) if "gradient_keys" in tiles]
    assert {tuple(tiles) for tiles in every} == set(tile_names(Dataflow.TILED_PRODUCTS)[-2:])
    counted = costs(backward, dataflow, every)
    for fast_words in data.draw(st.lists(st.integers(3, 80), min_size=1, max_size=4)):
        fits = [found.moved_words for found in counted if found.peak_words <= fast_words]
        try:
            plan = training_plan_for(workload, fast_words, saved="probabilities").backward
        except DoesNotFit:
            assert not fits
            continue
        assert plan.moved_words == min(fits)


@MANY
@given(workload=workloads(longest=30, widest=6), fast_words=st.integers(6, 400), more=st.integers(1, 100))
def test_the_best_step_moves_least_of_all_choices_and_no_more_with_more_memory(
    workload: Workload, fast_words: int, more: int
) -> None:
    found = [candidate.plan for candidate in training_candidates_for(workload, fast_words)]
    words = [plan.moved_words for plan in found if plan is not None]
    if not words:
        with pytest.raises(DoesNotFit):
            training_plan_for(workload, fast_words)
        return
    best = training_plan_for(workload, fast_words)
    assert best.moved_words == min(words)
    assert best in found
    assert training_plan_for(workload, fast_words + more).moved_words <= best.moved_words


def test_running_the_forward_pass_again_never_pays() -> None:
    for fast_bytes in (64, 1024, 65536, 2**24):
        workload, machine = Workload(n=512, d=32, mask="causal"), Machine.with_fast_bytes(fast_bytes)
        found = {candidate.saved: candidate.plan for candidate in training_candidates(workload, machine)}
        again, statistics = found[Saved.NOTHING], found[Saved.STATISTICS]
        assert again is not None
        assert statistics is not None
        assert again.moved_words - statistics.moved_words == statistics.forward.moved_words
        assert training_plan(workload, machine).saved is not Saved.NOTHING


def test_saving_probabilities_pays_in_the_smallest_memories() -> None:
    assert training_plan_for(Workload(n=64, d=16), 12).saved is Saved.PROBABILITIES
    assert training_plan_for(Workload(n=64, d=16), 2000).saved is Saved.STATISTICS


def test_under_a_causal_mask_keys_stay_too_and_rows_take_their_places() -> None:
    n, d = 128, 16
    workload, room = Workload(n=n, d=d, mask="causal"), n * (2 * d + 2) + 4 * d + 3
    once = 9 * n * d  # of both passes: the second one finds keys, and makes outputs and log-sum-exps again
    for rows in (0, 1, 100, n, n + 9):
        plan = training_plan_for(workload, room + rows * d)
        assert (plan.saved, plan.kept_keys, plan.kept_outputs) == (Saved.OUTPUTS, n, 0)
        assert plan.kept_queries == min(rows, n)
        assert plan.moved_words == once - min(rows, n) * d
    assert training_plan_for(workload, room - 1).moved_words > once
    for other in (replace(workload, heads=2, kv_heads=1), replace(workload, keys=n + 1)):
        assert training_plan_for(other, 16 * n * d, saved="outputs").kept_keys == 0


def test_where_not_all_keys_fit_those_of_the_first_causal_tile_stay_with_the_last_rows() -> None:
    n, d = 1024, 64
    workload = Workload(n=n, d=d, mask="causal")
    for share, most in ((1.625, 0.75), (1.75, 0.95), (2, 1.3)):
        room = int(share * n * d)
        plan, without = (training_plan_for(workload, room, saved=saved) for saved in (None, "statistics"))
        assert (plan.saved, plan.first_tile) == (Saved.OUTPUTS, True)
        assert plan.kept_outputs == plan.kept_queries > 0 < plan.kept_values <= plan.kept_keys < n
        assert most * n * d <= without.moved_words - plan.moved_words <= room
        assert plan.forward.moved_words == 4 * n * d
    assert training_plan_for(workload, 3 * n * d // 2).saved is Saved.STATISTICS
    for other in (replace(workload, heads=2), replace(workload, queries=n - 1), replace(workload, mask="window:8")):
        assert not any(one.plan.first_tile for one in training_candidates_for(other, 2 * n * d) if one.plan)


def test_a_step_that_does_not_fit_says_what_would() -> None:
    for saved in (None, *Saved):
        with pytest.raises(DoesNotFit, match=r"needs at least [\d,]+ words of fast memory"):
            training_plan_for(Workload(n=64, d=16), 2, saved=saved)
    with pytest.raises(
        InvalidInput, match="unknown choice of what to save 'all'; choose one of statistics, outputs, prob"
    ):
        training_plan_for(Workload(n=64, d=16), 1000, saved="all")


def test_outputs_that_stay_in_what_both_passes_leave_are_not_read_again() -> None:
    workload, room = Workload(n=512, d=16, mask="window:64"), 64 * 50 + 64 + 3
    compulsory = 12 * 512 * 16 + 2 * 512  # of both passes, with the log-sum-exp written and read
    assert training_plan_for(workload, room).moved_words == compulsory
    for rows in (1, 100, 512, 600):
        plan = training_plan_for(workload, room + 16 * rows, saved="outputs")
        assert (plan.saved, plan.kept_outputs) == (Saved.OUTPUTS, min(rows, 512))
        assert plan.moved_words == compulsory - 16 * min(rows, 512)
    assert training_plan_for(workload, room + 16).saved is Saved.OUTPUTS
    # once a ring of keys fits, with their gradients, neither outputs nor the log-sum-exp are read again
    assert training_plan_for(workload, 64 * 64 + 3 * 16 + 4).moved_words == 11 * 512 * 16 + 512
    assert training_plan_for(Workload(n=512, d=16, heads=2, mask="window:64"), 8 * room).kept_outputs == 0
    with pytest.raises(InvalidInput, match="outputs stay in fast memory for one KV head of one sequence"):
        training_plan_for(Workload(n=512, d=16, heads=2), 8 * room, saved="outputs")


def test_nested_plans_are_of_the_forward_pass() -> None:
    with pytest.raises(InvalidInput, match="nested plans are of the forward pass, and the workload asks about back"):
        nested_plan(Workload(n=64, d=16, direction="backward"), Machine.with_fast_bytes(65536))
