from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.masks import SlidingWindow
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems
from attenio.workload import Workload

from .laws import QUICK, counted, obeys_its_closed_form, sizes, whole_tiles_read, workloads


def closed_form(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["query_tile"], n), min(tiles["key_tile"], problem.m)
    runs = problem.tile_rows(a, b)
    moved = runs * dk + problem.key_loads(a) * (dk + dv) + 2 * w * dv * (runs - problem.live_rows(a)) + n * dv
    return moved, a * b * w + 3 * a * w + max(a + 1, a * w + 1)


def resident_rows(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, b = min(tiles["resident_rows"], n), min(tiles["key_tile"], problem.m)
    moved = problem.live_rows(a) * dk + problem.key_loads(a) * (dk + dv) + n * dv
    return moved, a * (dk + (dv + 2) * w) + a * b * w + 1


@QUICK
@given(workloads(), st.data())
def test_with_resident_rows_it_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, resident_rows=workload.queries + 1, key_tile=workload.keys + 1)
    obeys_its_closed_form(
        workload, Dataflow.SCORE_STATIONARY, tiles, counted(workload, heads_as_rows=True), resident_rows
    )


@QUICK
@given(workloads(), st.data())
def test_score_stationary_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, key_tile=workload.keys + 1)
    obeys_its_closed_form(
        workload, Dataflow.SCORE_STATIONARY, tiles, counted(workload, heads_as_rows=True), closed_form
    )


def whole_rows(problem, tiles):
    n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
    a, longest = min(tiles["whole_rows"], n), max(1, int(problem.required.sum(axis=1).max()))
    read, live = whole_tiles_read(problem.required, a, w, w)
    return live * dk + read * (dk + dv) + n * dv, a * longest * w + a * w + 2 * w + 1


@QUICK
@given(workloads(), st.data())
def test_with_whole_rows_it_moves_and_holds_what_its_closed_form_says_and_computes_attention(workload, data):
    window = SlidingWindow(width=data.draw(st.integers(1, workload.keys)), causal=data.draw(st.booleans()))
    workload = replace(workload, mask=window)
    assume(Problems.separate(workload).counts.kind.keys_roll)
    tiles = sizes(data.draw, whole_rows=workload.queries + 1)
    obeys_its_closed_form(workload, Dataflow.SCORE_STATIONARY, tiles, counted(workload, heads_as_rows=True), whole_rows)


@QUICK
@given(st.integers(2, 6), st.integers(0, 20), st.data())
def test_the_first_rows_of_a_window_are_more_in_a_tile_since_they_need_few_keys(width, more, data):
    n = width + 1 + more
    workload = Workload(n=n, d=2, value_dim=3, mask=SlidingWindow(width=width))
    tiles = Tiles.of(whole_rows=data.draw(st.integers(1, n)))
    obeys_its_closed_form(workload, Dataflow.SCORE_STATIONARY, tiles, counted(workload, heads_as_rows=True), whole_rows)


def test_where_the_first_tile_has_more_rows_there_may_be_a_tile_fewer():
    n, d, window, a = 255, 16, 16, 31
    more = window * (window - 1) // (2 * (window + 1))
    workload = Workload(n=n, d=d, mask=f"window:{window}")
    plan = best_plan_for(workload, a * (window + 1) + 3, dataflow="score-stationary")
    assert plan.tiles == Tiles.of(whole_rows=a) and -(-n // a) == 1 + -(-(n - more) // a)
    boundaries = -(-(n - more) // a) - 1
    assert plan.moved_words == 4 * n * d + boundaries * (window - 1) * 2 * d


@pytest.mark.parametrize("mask", ["dense", "causal"])
def test_whole_rows_are_for_windows_alone(mask):
    with pytest.raises(InvalidInput, match="whole_rows under a window alone"):
        cost(Workload(n=4, d=2, mask=mask), "score-stationary", Tiles.of(whole_rows=2))


def test_under_a_short_window_all_scores_of_rows_stay_and_no_output_is_partial():
    n, d, window = 1024, 64, 64
    workload = Workload(n=n, d=d, mask=f"window:{window}")
    plan = best_plan_for(workload, d * d)
    assert (plan.dataflow, plan.tiles) == (Dataflow.SCORE_STATIONARY, Tiles.of(whole_rows=61))
    assert plan.moved_words < 4 * n * d + 2 * n * d * window / 61
    rectangle = cost(workload, "score-stationary", Tiles.of(query_tile=38, key_tile=103))
    assert rectangle.peak_words <= d * d and 1.19 * plan.moved_words < rectangle.moved_words
