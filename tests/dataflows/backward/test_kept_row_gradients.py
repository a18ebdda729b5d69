from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.masks import Dense
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

from ..laws import QUICK, counted, obeys_its_closed_form, sizes, workloads
from ..test_kept_keys import kept


def closed_form(is_band):
    def words(problem, tiles):
        b, slots = min(tiles["key_tile"], problem.m), min(tiles["kept_rows"], problem.n)
        n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
        arrivals = problem.row_visits(b) - kept(problem.required.T, b, slots, is_band=is_band)
        state = 2 * (d + 1) * w
        moved = (problem.touched_keys + m) * (d + dv)
        moved += g * (arrivals * (d + dv + w + state) - problem.touched_rows * (state - dv) + n * d)
        return moved, b * (d + dv) * (1 + w) + slots * g * (d + dv + (d + 2) * w) + 2 * w + 1

    return words


@QUICK
@given(workloads(), st.data())
def test_kept_rows_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    tiles = sizes(data.draw, key_tile=workload.keys + 1, kept_rows=workload.queries + 1)
    is_band = not hasattr(workload.mask, "query_block")
    problems = counted(workload, by_group=True, heads_as_rows=True)
    backward = workload.towards("backward")
    obeys_its_closed_form(backward, Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, closed_form(is_band))


def apart(is_band):
    def words(problem, tiles):
        moved, _ = closed_form(is_band)(problem, tiles)
        d, dv, w, g = problem.dk, problem.dv, problem.w, problem.g
        b, slots = min(tiles["key_tile"], problem.m), min(tiles["kept_rows"], problem.n)
        e, t, c = min(tiles["value_keys"], problem.m), min(tiles["value_rows"], problem.n), tiles["value_columns"]
        groups, c = -(-dv // c), min(c, dv)
        arrivals = problem.row_visits(e) - kept(problem.required.T, e, t, is_band=is_band)
        moved += groups * problem.touched_keys * d + g * arrivals * (groups * (d + w) + dv)
        first = b * (d + dv + d * w) + slots * g * (d + dv + (d + 2) * w) + 2 * w + 1
        return moved, max(first, e * (d + c * w) + t * g * (d + c + w) + w)

    return words


@QUICK
@given(workloads(), st.data())
def test_gradients_of_values_that_are_made_apart_move_and_hold_what_their_closed_form_says(workload, data):
    keys, rows = workload.keys + 1, workload.queries + 1
    tiles = sizes(
        data.draw,
        key_tile=keys,
        kept_rows=rows,
        value_keys=keys,
        value_rows=rows,
        value_columns=workload.value_dim + 1,
    )
    is_band = not hasattr(workload.mask, "query_block")
    backward, problems = workload.towards("backward"), counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(backward, Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, apart(is_band))


def test_gradients_of_wide_values_apart_move_a_third_less_than_all_together():
    workload, fast_words = Workload(n=8192, d=16, value_dim=256, direction="backward"), 2**17
    plan = best_plan_for(workload, fast_words)
    assert plan.dataflow is Dataflow.KEPT_ROW_GRADIENTS and plan.tiles["value_columns"] < 256
    together = best_plan_for(workload, fast_words, dataflow="key-stationary")
    assert 3 * plan.moved_words < 2.1 * together.moved_words


def test_a_ring_of_rows_under_a_window_reads_and_writes_everything_once():
    n, d, window = 256, 8, 32
    workload = Workload(n=n, d=d, mask=f"window:{window}", direction="backward", dtype="fp32")
    plan = best_plan_for(workload, window * (3 * d + 2) + 4 * d + 3)
    assert plan.moved_words == best_plan_for(workload, plan.fast_words, dataflow="kept-row-gradients").moved_words
    assert plan.moved_words == workload.compulsory_words + n * (d + 1)  # what it reads besides: O and L


def with_all_keys(problem, tiles):
    t, s = min(tiles["waiting_keys"], problem.m), min(tiles["kept_rows"], problem.n)
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    moved = g * n * (2 * d + dv) + 2 * m * (d + dv) + (g * (n - s) * (d + dv + 3 * w) if t else 0)
    first = (m - t) * (d + dv) * (1 + w) + g * d * w
    return moved, t * (d + dv) + s * g * (d + dv + 2 * w) + 2 * w + max(first, t * (d + dv) * w)


@QUICK
@given(workloads(), st.data())
def test_keys_that_wait_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    dense = replace(workload, mask=Dense())
    tiles = sizes(data.draw, waiting_keys=(0, workload.keys + 1), kept_rows=workload.queries + 1)
    problems = counted(dense, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(dense.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, with_all_keys)


def test_heads_that_share_keys_which_nearly_fit_with_their_gradients_let_two_thirds_of_these_wait():
    n, d, heads = 256, 32, 4
    workload = Workload(n=n, d=d, heads=heads, kv_heads=1, direction="backward")
    for share in (2.9, 3.3, 3.7):
        plan = best_plan_for(workload, int(share * n * d))
        assert plan.dataflow is Dataflow.KEPT_ROW_GRADIENTS
        assert plan.tiles["waiting_keys"] == pytest.approx(2 / 3 * n, rel=0.02)
        again = (heads * n - plan.tiles["kept_rows"]) * (2 * d + 3)
        assert plan.moved_words == heads * n * 3 * d + 4 * n * d + again
        assert 1.2 * plan.moved_words < best_plan_for(workload, int(share * n * d), dataflow="two-pass").moved_words
