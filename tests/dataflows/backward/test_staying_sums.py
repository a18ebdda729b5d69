"""Partial gradients that stay in fast memory while rows, or keys, leave and come again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import Dense
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form, sizes


def compulsory(problem):
    """Queries, keys, their gradients, outputs and log-sum-exps."""
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    return g * n * (2 * d + 2 * dv + w) + 2 * m * (d + dv)


def of_rows(problem, tiles):
    n, m, d, dv, w = problem.g * problem.n, problem.m, problem.dk, problem.dv, problem.w
    b, s = min(tiles["key_tile"], m), min(tiles["row_sums"], n)
    passes = -(-m // b)
    again = (n - 1) * (d + dv + 2 * w) + (n - s) * 2 * d * w
    # the last of two passes finds one row that has not left, and one row alone never leaves
    deltas = 0 if passes == 1 or n == 1 else n - 1 if passes == 2 else n
    moved = compulsory(problem) + (passes - 1) * again + deltas * w
    return moved, b * (d + dv) * (1 + w) + s * d * w + d + dv + 4 * w + 1


def of_keys(problem, tiles):
    n, m, d, dv, w = problem.g * problem.n, problem.m, problem.dk, problem.dv, problem.w
    a, s = min(tiles["stacked_rows"], n), min(tiles["key_sums"], m)
    again = (m - 1) * (d + dv) + (m - s) * 2 * (d + dv) * w
    moved = compulsory(problem) + (-(-n // a) - 1) * again
    return moved, a * (d + dv + (d + 2) * w) + s * (d + dv) * w + d + dv + 2 * w + 1


@QUICK
@given(grouped_workloads(), st.data())
def test_sums_of_rows_that_stay_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    tiles = sizes(data.draw, row_sums=workload.group * workload.queries + 1, key_tile=workload.keys + 1)
    problems = counted(replace(workload, mask=Dense()), by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.KEPT_ROW_GRADIENTS, tiles, problems, of_rows)


@QUICK
@given(grouped_workloads(), st.data())
def test_sums_of_keys_that_stay_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    tiles = sizes(data.draw, stacked_rows=workload.group * workload.queries + 1, key_sums=workload.keys + 1)
    problems = counted(replace(workload, mask=Dense()), by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.QUERY_STATIONARY, tiles, problems, of_keys)


@pytest.mark.parametrize(
    ("share", "tile", "less"), [(0.43, "row_sums", 0.99), (0.48, "row_sums", 0.99), (1.7, "key_sums", 0.996)]
)
def test_sums_that_stay_move_less_than_rows_or_keys_that_do_where_a_tile_leaves_room(share, tile, less):
    n, d = 256, 16
    workload = Workload(n=n, d=d, direction="backward")
    plan = best_plan_for(workload, int(share * n * d))
    assert tile in plan.tiles
    assert plan.moved_words == execute(plan).moved_words
    kept = best_with_slots(workload, plan.fast_words)
    assert plan.moved_words < less * kept


def best_with_slots(workload, fast_words):
    """The best tiles that keep whole rows, or keys with their sums."""
    d, found = workload.d, []
    for tile in range(1, workload.queries + 1):
        for dataflow, names, per_tile, per_slot in (
            (Dataflow.KEPT_ROW_GRADIENTS, ("key_tile", "kept_rows"), 4 * d, 3 * d + 2),
            (Dataflow.QUERY_STATIONARY, ("query_tile", "kept_keys"), 3 * d + 2, 4 * d),
        ):
            slots = (fast_words - 3 - tile * per_tile) // per_slot
            if slots >= 1:
                tiles = Tiles.of(**dict(zip(names, (tile, min(slots, workload.queries)), strict=True)))
                found.append(cost(workload, dataflow, tiles).moved_words)
    return min(found)


@pytest.mark.parametrize(
    ("dataflow", "tiles"),
    [
        ("kept-row-gradients", Tiles.of(row_sums=2, key_tile=2)),
        ("query-stationary", Tiles.of(stacked_rows=2, key_sums=2)),
    ],
)
def test_sums_stay_where_every_row_needs_every_key(dataflow, tiles):
    with pytest.raises(InvalidInput, match="stacks rows where every row needs every key"):
        cost(Workload(n=4, d=2, mask="causal", direction="backward"), dataflow, tiles)
