"""A ring of rows, whose sums begin when the gradient of their first key has left."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Causal, SlidingWindow
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form


def shared(problem, apart):
    """The most rows that need a key and the one so far behind it."""
    required = problem.required
    return max((int((a & b).sum()) for a, b in zip(required.T, required.T[apart:], strict=False)), default=0)


def words_and_room(problem, tiles):
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    slots, three = min(tiles["ring_rows"], n), shared(problem, 2)
    in_hand = max(shared(problem, 1) - three, 1)
    moved = g * (problem.touched_rows * (d + 2 * dv + w) + n * d) + (problem.touched_keys + m) * (d + dv)
    held = g * (slots * (d + dv + 2 * w) + three * d * w) + d + dv + 2 * w + 1
    return moved, held + max((d + dv) * w, g * in_hand * d * w)


@QUICK
@given(grouped_workloads(), st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    keys = max(workload.keys, 2)
    window = SlidingWindow(width=data.draw(st.integers(1, keys)), causal=data.draw(st.booleans()))
    some = replace(
        workload, queries=max(workload.queries, 2), keys=keys, mask=data.draw(st.sampled_from([Causal(), window]))
    )
    problems = counted(some, by_group=True, heads_as_rows=True)
    (problem, _), *_ = problems
    if problem.required[0, -1]:  # rows and keys do not move on
        return
    tiles = Tiles.of(ring_rows=max(1, shared(problem, 1)) + data.draw(st.integers(0, 2)))
    obeys_its_closed_form(some.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, words_and_room)


@pytest.mark.parametrize(("mask", "slots"), [("window:32", 31), ("window:5", 4)])
def test_a_row_less_than_a_key_needs_is_enough_to_move_inputs_and_gradients_once(mask, slots):
    n, d = 128, 8
    workload = Workload(n=n, d=d, mask=mask, direction="backward")
    held = slots * (2 * d + 2) + (slots - 1) * d + 2 * d + 2 * d + 3
    plan = best_plan_for(workload, held)
    assert plan.tiles == Tiles.of(ring_rows=slots)
    statistics = n * (d + 1)  # outputs, for D, and log-sum-exps
    assert plan.moved_words == execute(plan).moved_words == workload.compulsory_words + statistics
    assert best_plan_for(workload, held - 1).moved_words > plan.moved_words


@pytest.mark.parametrize(
    ("mask", "ring", "complaint"),
    [
        ("dense", 4, "a ring of rows is for one causal or window mask"),
        ("documents:1,3", 4, "a ring of rows is for one causal or window mask"),
        ("causal", 2, "ring_rows is 2, and 3 rows need a key and the next one"),
    ],
)
def test_a_ring_of_rows_holds_what_two_keys_share_of_one_mask(mask, ring, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        cost(Workload(n=4, d=2, mask=mask, direction="backward"), "kept-row-gradients", Tiles.of(ring_rows=ring))
