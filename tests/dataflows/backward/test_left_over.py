"""Two passes of which either leaves what a last, small tile would hold to the other."""

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

from ..laws import QUICK, counted, grouped_workloads, obeys_its_closed_form


def words_and_room(problem, tiles):
    """Counted visit by visit: every tile of the first pass meets all keys, or if its rows are late the late ones."""
    n, m, d, dv, w = problem.g * problem.n, problem.m, problem.dk, problem.dv, problem.w
    a, b = min(tiles["stacked_rows"], n), min(tiles["stationary_keys"], m)
    f, h = min(tiles["late_rows"], n), min(tiles["late_keys"], m)
    first = [*range(0, n - f, a), *range(n - f, n, a)]
    second = range(0, m - h, b)
    moved = n * (d + 2 * dv + 2 * w) + n * d + m * (d + dv)
    moved += sum((m if start < n - f else h) * (d + dv) for start in first) + (m - h) * (d + dv)
    moved += h * (d + dv) * w * 2 * (len(first) - 1)
    moved += len(second) * (n * (d + dv + 2 * w) + 2 * f * d * w)
    rows = a * (d + dv + (d + 2) * w) + (d + dv) * (1 + w) + 2 * w + 1
    return moved, max(rows, b * (d + dv) * (1 + w) + d + dv + (d + 4) * w)


@QUICK
@given(grouped_workloads(), st.data())
def test_it_moves_and_holds_what_its_closed_form_says_and_computes_the_gradient(workload, data):
    rows = workload.group * workload.queries
    tiles = Tiles.of(
        stacked_rows=data.draw(st.integers(1, rows + 1)),
        late_rows=data.draw(st.integers(0, rows + 1)),
        stationary_keys=data.draw(st.integers(1, workload.keys + 1)),
        late_keys=data.draw(st.integers(0, workload.keys + 1)),
    )
    problems = counted(replace(workload, mask=Dense()), by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.TWO_PASS, tiles, problems, words_and_room)


@pytest.mark.parametrize(("n", "d", "squares", "less"), [(512, 8, 16, 0.985), (512, 8, 32, 0.96), (768, 16, 16, 0.98)])
def test_a_small_last_tile_is_better_left_to_the_other_pass(n, d, squares, less):
    workload = Workload(n=n, d=d, direction="backward")
    plan = best_plan_for(workload, squares * d * d)
    assert "late_rows" in plan.tiles
    assert plan.moved_words == execute(plan).moved_words
    assert plan.moved_words < less * best_without(workload, plan.fast_words)


def best_without(workload, fast_words):
    """Two passes with slots, whose last tiles are as they are: words of either pass grow alone."""
    n, d = workload.queries, workload.d
    found = []
    for of_rows in (True, False):
        per_tile, per_slot = (3 * d + 2, 2 * d) if of_rows else (4 * d, 2 * d + 2)
        beside = 3 if of_rows else 2
        words = []
        for tile in range(1, n + 1):
            slots = (fast_words - beside - tile * per_tile) // per_slot
            if slots >= 1:
                mine = {"query_tile": tile, "kept_keys": min(slots, n)} if of_rows else {}
                yours = {} if of_rows else {"stationary_keys": tile, "kept_rows": min(slots, n)}
                other = {"stationary_keys": 1, "kept_rows": 1} if of_rows else {"query_tile": 1, "kept_keys": 1}
                words.append(cost(workload, Dataflow.TWO_PASS, Tiles.of(**mine, **other, **yours)).moved_words)
        found.append(min(words))
    one = Tiles.of(query_tile=1, kept_keys=1, stationary_keys=1, kept_rows=1)
    return sum(found) - cost(workload, Dataflow.TWO_PASS, one).moved_words


def test_what_is_left_over_is_for_problems_where_every_row_needs_every_key():
    tiles = Tiles.of(stacked_rows=2, late_rows=1, stationary_keys=2, late_keys=0)
    with pytest.raises(InvalidInput, match="stacks rows where every row needs every key"):
        cost(Workload(n=4, d=2, mask="causal", direction="backward"), "two-pass", tiles)
