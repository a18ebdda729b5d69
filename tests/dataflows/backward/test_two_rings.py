"""Two passes with rings: all keys that a row needs, then all rows that two keys share."""

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


def shared(problem):
    """The most rows that need a key and the next one; of a single key, all that need it."""
    required = problem.required
    if problem.m == 1:
        return max(1, int(required.sum()))
    return max(1, max(int((a & b).sum()) for a, b in zip(required.T, required.T[1:], strict=False)))


def words_and_room(problem, tiles):
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    keys, slots = min(tiles["ring_keys"], m), min(tiles["ring_rows"], n)
    moved = g * (problem.touched_rows * (2 * d + 2 * dv + 3 * w) + n * d) + (2 * problem.touched_keys + m) * (d + dv)
    first = keys * (d + dv) + d + dv + d * w + 4 * w
    return moved, max(first, g * slots * (d + dv + 2 * w) + (d + dv) * (1 + w) + 2 * w)


@QUICK
@given(grouped_workloads(), st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    window = SlidingWindow(width=data.draw(st.integers(1, workload.keys)), causal=data.draw(st.booleans()))
    some = replace(workload, mask=data.draw(st.sampled_from([None, Causal(), window])) or Workload(n=1, d=1).mask)
    problems = counted(some, by_group=True, heads_as_rows=True)
    (problem, _), *_ = problems
    if problem.required[0, -1] and not problem.required.all():  # rows and keys do not move on
        return
    longest = max(1, int(problem.required.sum(axis=1).max()))
    tiles = Tiles.of(
        ring_keys=longest + data.draw(st.integers(0, 2)), ring_rows=shared(problem) + data.draw(st.integers(0, 2))
    )
    obeys_its_closed_form(some.towards("backward"), Dataflow.TWO_PASS, tiles, problems, words_and_room)


@pytest.mark.parametrize(("mask", "slots", "keys"), [("dense", 160, 160), ("window:32", 31, 32)])
def test_fast_memory_for_all_keys_and_then_all_rows_that_meet_does_without_outputs(mask, slots, keys):
    n, d = 160, 16
    workload = Workload(n=n, d=d, mask=mask, direction="backward")
    held = max(keys * 2 * d + 3 * d + 4, slots * (2 * d + 2) + 4 * d + 2)
    plan = best_plan_for(workload, held)
    assert plan.dataflow is Dataflow.TWO_PASS and plan.tiles == Tiles.of(ring_keys=keys, ring_rows=slots)
    again = 4 * n * d + 3 * n  # Q, K, V and dO a second time; D out and in, and log-sum-exps in
    assert plan.moved_words == execute(plan).moved_words == workload.compulsory_words + again
    assert best_plan_for(workload, held - 1).moved_words > plan.moved_words


@pytest.mark.parametrize(
    ("mask", "keys", "rows", "complaint"),
    [
        ("documents:1,3", 4, 4, "a ring of keys is for one dense, causal or window mask"),
        ("causal", 3, 4, "ring_keys is 3, and a row needs 4 keys"),
        ("causal", 4, 2, "ring_rows is 2, and 3 rows need a key and the next one"),
        ("dense", 4, 3, "ring_rows is 3, and 4 rows need a key and the next one"),
    ],
)
def test_rings_hold_what_passes_needs(mask, keys, rows, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        cost(Workload(n=4, d=2, mask=mask, direction="backward"), "two-pass", Tiles.of(ring_keys=keys, ring_rows=rows))
