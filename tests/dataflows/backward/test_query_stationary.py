from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from ..laws import QUICK, counted, obeys_its_closed_form, sizes, workloads
from ..test_kept_keys import kept


def closed_form(problem, tiles):
    a, b = min(tiles["query_tile"], problem.n), min(tiles["key_tile"], problem.m)
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    loads = g * problem.key_loads(a)
    moved = g * (problem.live_rows(a) * (d + 2 * dv + w) + n * d)
    moved += (loads + 2 * w * (loads - problem.touched_keys) + m) * (d + dv)
    return moved, a * (d + dv) + a * d * w + 3 * a * w + a * b * w + b * (d + dv) * (1 + w) + 1


@QUICK
@given(workloads(), st.data())
def test_query_stationary_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, key_tile=workload.keys + 1)
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.QUERY_STATIONARY, tiles, problems, closed_form)


def with_slots(is_band):
    def words(problem, tiles):
        a, slots = min(tiles["query_tile"], problem.n), min(tiles["kept_keys"], problem.m)
        n, m, d, dv, w, g = sizes_of(problem)
        loads = g * (problem.key_loads(a) - kept(problem.required, a, slots, is_band=is_band))
        moved = g * (problem.live_rows(a) * (d + 2 * dv + w) + n * d)
        moved += (loads + 2 * w * (loads - problem.touched_keys) + m) * (d + dv)
        return moved, a * (d + dv + d * w + 2 * w) + slots * (d + dv) * (1 + w) + 2 * w + 1

    return words


@QUICK
@given(workloads(), st.data())
def test_slots_for_keys_and_their_gradients_move_and_hold_what_their_closed_form_says(workload, data):
    tiles = sizes(data.draw, query_tile=workload.queries + 1, kept_keys=workload.keys + 1)
    problems, is_band = counted(workload, by_group=True, heads_as_rows=True), not hasattr(workload.mask, "query_block")
    obeys_its_closed_form(workload.towards("backward"), Dataflow.QUERY_STATIONARY, tiles, problems, with_slots(is_band))


def test_from_three_halves_to_twice_nd_gradients_of_keys_that_stay_save_a_turn_of_four_words_for_two():
    n, d = 256, 16
    for share in (1.75, 1.95):
        workload = Workload(n=n, d=d, direction="backward")
        plan = best_plan_for(workload, int(share * n * d), dataflow="query-stationary")
        assert plan.tiles["stacked_rows"] == n // 2
        saved = 2 * d + plan.tiles["key_sums"] * 4 * d
        assert plan.moved_words == execute(plan).moved_words == n * (14 * d + 1) - saved


def test_under_a_causal_mask_slots_keep_keys_with_their_gradients():
    workload = Workload(n=256, d=16, mask="causal", direction="backward")
    plan = best_plan_for(workload, int(1.75 * 256 * 16), dataflow="query-stationary")
    assert set(plan.tiles) == {"query_tile", "kept_keys"}
    assert plan.moved_words == execute(plan).moved_words


def with_all_rows(problem, tiles):
    t, s = min(tiles["waiting_rows"], problem.n), min(tiles["kept_keys"], problem.m)
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    again = 0 if t == 0 else m - s if t < n else max(0, m - 2 * s)
    moved = g * n * (2 * d + 2 * dv + w) + (2 * m + again) * (d + dv)
    first = g * (n - t) * (d + dv + 2 * w + d * w) + (d + dv) * w
    return moved, g * t * (d + dv + 2 * w) + s * (d + dv) + 2 * w + 1 + max(first, g * t * d * w)


@QUICK
@given(workloads(), st.data())
def test_rows_that_wait_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    dense = replace(workload, mask=Dense())
    tiles = sizes(data.draw, waiting_rows=(0, workload.queries + 1), kept_keys=workload.keys + 1)
    problems = counted(dense, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(dense.towards("backward"), Dataflow.QUERY_STATIONARY, tiles, problems, with_all_rows)


def with_a_ring(problem, tiles):
    r, (n, m, d, dv, w, g) = min(tiles["ring_keys"], problem.m), (*sizes_of(problem),)
    moved = g * (problem.touched_rows * (d + dv) + n * d) + (problem.touched_keys + m) * (d + dv)
    return moved, r * (d + dv) * (1 + w) + d + dv + d * w + 4 * w


def sizes_of(problem):
    return problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g


@QUICK
@given(workloads(), st.data())
def test_a_ring_of_keys_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    window = SlidingWindow(width=data.draw(st.integers(1, workload.keys)), causal=data.draw(st.booleans()))
    mask = data.draw(st.sampled_from([Dense(), Causal(), window, window]))
    some = replace(workload, mask=mask)
    problems = counted(some, by_group=True, heads_as_rows=True)
    longest = max(1, int(problems[0][0].required.sum(axis=1).max()))
    tiles = Tiles.of(ring_keys=longest + data.draw(st.integers(0, 2)))
    obeys_its_closed_form(some.towards("backward"), Dataflow.QUERY_STATIONARY, tiles, problems, with_a_ring)


@pytest.mark.parametrize(("heads", "mask", "ring"), [(1, "window:32", 32), (4, "window:32", 32), (2, "causal", 128)])
def test_with_a_ring_the_gradient_moves_inputs_and_gradients_once_and_nothing_else(heads, mask, ring):
    n, d = 128, 8
    workload = Workload(n=n, d=d, heads=heads, kv_heads=1, mask=mask, direction="backward")
    plan = best_plan_for(workload, ring * 4 * d + 3 * d + 4)
    assert plan.tiles == Tiles.of(ring_keys=ring)
    assert plan.moved_words == execute(plan).moved_words == workload.compulsory_words == (3 * heads + 4) * n * d


def test_a_ring_holds_what_a_row_needs_of_one_mask():
    for mask, complaint in (
        ("causal", "ring_keys is 3, and a row needs 4 keys"),
        ("documents:1,3", "a ring of keys is for"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            cost(Workload(n=4, d=2, mask=mask, direction="backward"), "query-stationary", Tiles.of(ring_keys=3))


def test_between_nine_quarters_and_eight_thirds_of_nd_a_second_pass_for_three_quarters_of_the_rows_moves_least():
    n, d = 512, 32
    workload = Workload(n=n, d=d, direction="backward")
    for share in (2.4, 2.5, 2.65):
        plan = best_plan_for(workload, int(share * n * d))
        assert plan.dataflow is Dataflow.QUERY_STATIONARY
        assert plan.tiles["waiting_rows"] == pytest.approx(0.75 * n, rel=0.02)
        others = best_plan_for(workload, int(share * n * d), dataflow="two-pass")
        assert 1.1 * plan.moved_words < others.moved_words
        # inputs, outputs, gradients and keys a second time, less the keys that are kept
        assert plan.moved_words == n * (10 * d + 1) - plan.tiles["kept_keys"] * 2 * d


def test_rows_wait_where_every_row_needs_every_key():
    with pytest.raises(InvalidInput, match="gradients wait where every row needs every key, and the mask is causal"):
        cost(
            Workload(n=4, d=2, mask="causal", direction="backward"),
            "query-stationary",
            Tiles.of(waiting_rows=1, kept_keys=1),
        )
