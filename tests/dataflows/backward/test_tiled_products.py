from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import SlidingWindow
from attenio.planning import SweepGrid, best_plan_for, sweep
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems
from attenio.workload import Workload

from ..laws import QUICK, counted, obeys_its_closed_form, sizes, some_tiles, whole_tiles_read, workloads


def products(problem, tiles, names):
    """Words and peak of the gradients named, each from stored scores."""
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    moved, peak = 0, w + 2
    for name, width in zip(names, (dv, d, d)[-len(names) :], strict=True):
        rows, most = (tiles["query_rows"], n) if name == "query" else (tiles[f"{name}_keys"], m)
        p, c = min(rows, most), min(tiles[f"{name}_columns"], width)
        met = problem.key_loads(p) if name == "query" else problem.row_visits(p)
        moved += g * (problem.scores * -(-width // c) * w + met * width) + (g * n if name == "query" else m) * width
        peak = max(peak, p * c * w + p * w + 1)
    return moved + g * problem.touched_rows * (2 * dv + w), peak


def closed_form(problem, tiles):
    d, dv, w, scores = problem.dk, problem.dv, problem.w, problem.scores
    kind = "gradient" if "gradient_keys" in tiles else "score"
    resident = "resident_rows" in tiles
    a = min(tiles["resident_rows" if resident else f"{kind}_rows"], problem.n)
    b = min(tiles[f"{kind}_keys"], problem.m)
    visits = problem.tile_rows(a, b)
    met = visits + problem.key_loads(a)
    statistics = (problem.live_rows(a) if resident else visits) * w
    made = 0 if kind == "gradient" else met * d + statistics + scores * w
    moved, peak = products(problem, tiles, ("value", "key", "query"))
    moved += problem.g * (made + met * dv + statistics + 2 * scores * w)
    return moved, max(peak, a * b * w + (a * w if resident else 0) + a + 2 * w - 1)


@QUICK
@given(workloads(), st.data())
def test_tiled_products_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    tiles = some_tiles(data.draw, workload, Dataflow.TILED_PRODUCTS)
    if data.draw(st.booleans()):
        tiles = Tiles.of(**{name.replace("score", "gradient"): size for name, size in tiles.items()})
    if data.draw(st.booleans()):
        names = {"score_rows": "resident_rows", "gradient_rows": "resident_rows"}
        tiles = Tiles.of(**{names.get(name, name): size for name, size in tiles.items()})
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.TILED_PRODUCTS, tiles, problems, closed_form)


def whole_rows(problem, tiles):
    d, dv, w, scores = problem.dk, problem.dv, problem.w, problem.scores
    a, b = min(tiles["query_tile"], problem.n), min(tiles["key_tile"], problem.m)
    moved, peak = products(problem, tiles, ("value", "key", "query"))
    moved += problem.g * ((problem.live_rows(a) + problem.key_loads(a)) * (d + dv) + 2 * problem.live_rows(a) * w)
    return moved + 3 * problem.g * scores * w, max(peak, a * max(d, dv) + a * b * w + a * w + w + 1)


@QUICK
@given(workloads(), st.data())
def test_tiled_products_of_whole_rows_move_and_hold_what_their_closed_form_says(workload, data):
    tiles = some_tiles(data.draw, workload, Dataflow.TILED_PRODUCTS)
    names = {"score_rows": "query_tile", "score_keys": "key_tile"}
    tiles = Tiles.of(**{names.get(name, name): size for name, size in tiles.items()})
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.TILED_PRODUCTS, tiles, problems, whole_rows)


def values_that_stay(problem, tiles):
    n, m, d, dv, w, scores = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.scores
    a, b = min(tiles["query_tile"], n), min(tiles["key_tile"], m)
    r, c = min(tiles["passing_queries"], n), min(tiles["stationary_keys"], m)
    moved, peak = products(problem, tiles, ("key", "query"))
    moved += problem.g * (problem.live_rows(a) * (d + w) + problem.key_loads(a) * d + scores * w)
    moved += problem.g * (problem.row_visits(c) * (dv + w) + 2 * scores * w) + problem.touched_keys * dv + m * dv
    made, used = a * d + a * b * w + a * w + 1, c * dv * (1 + w) + 2 * r * c * w + r * w + 1
    return moved, max(peak, made, used)


@QUICK
@given(workloads(), st.data())
def test_tiled_products_beside_values_that_stay_move_and_hold_what_their_closed_form_says(workload, data):
    rows, keys, d = workload.queries, workload.keys, workload.d
    tile = sizes(data.draw, query_tile=rows + 1, key_tile=keys + 1, stationary_keys=keys + 1, passing_queries=rows + 1)
    others = sizes(data.draw, key_keys=keys, key_columns=d, query_rows=rows, query_columns=d)
    problems = counted(workload, by_group=True, heads_as_rows=True)
    tiles = Tiles.of(**tile, **others)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.TILED_PRODUCTS, tiles, problems, values_that_stay)


def test_values_that_stay_save_a_twelfth_at_d_squared():
    workload, fast_words = Workload(n=8192, d=128, direction="backward"), 128**2
    plan = best_plan_for(workload, fast_words)
    assert plan.dataflow is Dataflow.TILED_PRODUCTS and "stationary_keys" in plan.tiles
    others = "key_keys", "key_columns", "query_rows", "query_columns"
    products = {name: plan.tiles[name] for name in others} | {"value_keys": 126, "value_columns": 128}
    apart = cost(workload, Dataflow.TILED_PRODUCTS, Tiles.of(query_tile=126, key_tile=1, **products))
    assert apart.peak_words <= fast_words and plan.moved_words < 11 / 12 * apart.moved_words


def test_whole_rows_move_an_eighth_less_than_tiles_of_scores_at_seven_tenths_of_d_squared():
    workload, fast_words = Workload(n=8192, d=128, direction="backward"), 7 * 128**2 // 10
    plan = best_plan_for(workload, fast_words)
    assert plan.dataflow is Dataflow.TILED_PRODUCTS
    assert "query_tile" in plan.tiles
    others = "key_keys", "key_columns", "query_rows", "query_columns"
    products = {name: plan.tiles[name] for name in others} | {"value_keys": 88, "value_columns": 128}
    side = int(fast_words**0.5) - 2
    tiled = cost(workload, Dataflow.TILED_PRODUCTS, Tiles.of(score_rows=side, score_keys=side, **products))
    whole = cost(workload, Dataflow.TILED_PRODUCTS, Tiles.of(query_tile=88, key_tile=1, **products))
    assert max(tiled.peak_words, whole.peak_words) <= fast_words
    assert plan.moved_words < whole.moved_words < 0.89 * tiled.moved_words


def test_three_words_are_enough_for_the_gradient_and_statistics_take_none_beside_a_tile():
    workload = Workload(n=6, d=2, direction="backward")
    run = execute(best_plan_for(workload, 3))
    assert run.peak_words == 3
    sixteen = best_plan_for(Workload(n=256, d=16, direction="backward"), 16)
    assert (sixteen.tiles["score_rows"], sixteen.tiles["score_keys"]) == (3, 4)
    assert sixteen.peak_words == 16


@pytest.mark.parametrize(
    ("n", "mask", "fast_words", "moved_words"),
    [
        (1024, "dense", 2048, 34_606_080),
        (1024, "dense", 4096, 25_431_040),
        (1218, "dense", 4096, 35_649_642),
        (1448, "dense", 2048, 68_349_944),
        (1448, "causal", 2048, 35_250_280),
        (1722, "dense", 4096, 70_555_506),
        (1722, "window:1024", 4096, 31_162_030),
    ],
)
def test_statistics_stay_where_a_key_less_in_the_tile_makes_no_more_visits(n, mask, fast_words, moved_words):
    """A tenth of a percent less than with statistics that pass."""
    workload = Workload(n=n, d=128, mask=mask, direction="backward")
    plan = best_plan_for(workload, fast_words)
    assert "resident_rows" in plan.tiles
    assert plan.moved_words <= moved_words
    found = sweep(SweepGrid(n=[n], d=[128], masks=[mask], direction="backward", fast_bytes=[2 * fast_words]))
    assert found.columns["moved_words"].tolist() == [plan.moved_words]


def whole_windows(problem, tiles):
    n, m, d, dv, w, g, scores = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g, problem.scores
    a, b = min(tiles["whole_rows"], n), min(tiles["whole_keys"], m)
    longest, tallest = (max(1, int(problem.required.sum(axis=axis).max())) for axis in (1, 0))
    visits, live_keys = whole_tiles_read(problem.required.T, b, g * w, w)
    read, live_rows = whole_tiles_read(problem.required, a, w, w if "summed_keys" in tiles else 1 + w)
    moved = live_keys * d + g * visits * (d + dv + w) + m * (d + dv)
    moved += g * (live_rows * dv + read * (d + dv) + n * d + 2 * scores * w)
    of_keys, of_rows = (b * (g * tallest + 1) * w + 1, a * (longest + 1) * w + longest * w + 1)
    if "summed_keys" in tiles:
        c = min(tiles["summed_keys"], m)
        moved += g * whole_tiles_read(problem.required.T, c, g * w, w)[0] * d + 2 * g * scores * w
        return moved, max(of_keys, of_rows, c * (g * tallest + 1) * w + 1)
    moved += g * live_rows * d + 2 * w * d * (g * read - problem.touched_keys)
    return moved, max(of_keys, of_rows + a + w)


@QUICK
@given(workloads(), st.data())
def test_whole_windows_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    window = SlidingWindow(width=data.draw(st.integers(1, workload.keys)), causal=data.draw(st.booleans()))
    workload = replace(workload, mask=window)
    assume(Problems.separate(workload).counts.kind.keys_roll)
    tiles = sizes(data.draw, whole_rows=workload.queries + 1, whole_keys=workload.keys + 1)
    if data.draw(st.booleans()):
        tiles = Tiles.of(**dict(tiles), summed_keys=data.draw(st.integers(1, workload.keys + 1)))
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.TILED_PRODUCTS, tiles, problems, whole_windows)


@QUICK
@given(st.integers(2, 6), st.integers(0, 16), st.integers(1, 2), st.data())
def test_the_first_rows_and_the_last_keys_of_a_window_are_more_in_a_tile(width, more, heads, data):
    n = width + 1 + more
    workload = Workload(n=n, d=2, value_dim=3, heads=heads, kv_heads=1, mask=SlidingWindow(width=width))
    tiles = {name: data.draw(st.integers(1, n)) for name in ("whole_rows", "whole_keys")}
    if data.draw(st.booleans()):
        tiles["summed_keys"] = data.draw(st.integers(1, n))
    problems = counted(workload, by_group=True, heads_as_rows=True)
    backward = workload.towards("backward")
    obeys_its_closed_form(backward, Dataflow.TILED_PRODUCTS, Tiles.of(**tiles), problems, whole_windows)


@pytest.mark.parametrize("mask", ["dense", "causal"])
def test_whole_windows_are_for_windows_alone(mask):
    with pytest.raises(InvalidInput, match="whole_rows under a window alone"):
        cost(
            Workload(n=4, d=2, mask=mask, direction="backward"), "tiled-products", Tiles.of(whole_rows=2, whole_keys=2)
        )


@pytest.mark.parametrize(("d", "fast_words", "more"), [(128, 3277, 1.32), (128, 8192, 1.31), (64, 4096, 1.13)])
def test_under_a_short_window_scores_that_stay_while_they_are_used_take_up_to_a_quarter_off_the_words(
    d, fast_words, more
):
    workload = Workload(n=1024, d=d, mask="window:64", direction="backward")
    plan = best_plan_for(workload, fast_words)
    assert plan.dataflow is Dataflow.TILED_PRODUCTS and "whole_rows" in plan.tiles
    assert ("summed_keys" in plan.tiles) == (fast_words < 64 * d // 2)
    others = "key_keys", "key_columns", "query_rows", "query_columns"
    products = dict.fromkeys(others, 1) | {"key_columns": d // 2, "query_columns": d // 2}
    room = (fast_words - 1) // (d // 2 + 1)
    products |= {"key_keys": room, "query_rows": room, "value_keys": room, "value_columns": d // 2}
    side = int(fast_words**0.5) - 2
    tiles = [
        Tiles.of(score_rows=side, score_keys=side, **products),
        Tiles.of(query_tile=fast_words // (d + 8), key_tile=4, **products),
    ]
    made = [cost(workload, Dataflow.TILED_PRODUCTS, each) for each in tiles]
    least = min(each.moved_words for each in made if each.peak_words <= fast_words)
    assert more * plan.moved_words < least
    masks = ["window:64", "window:40"]
    found = sweep(SweepGrid(n=[1024], d=[d], masks=masks, direction="backward", fast_bytes=[2 * fast_words]))
    plans = [best_plan_for(Workload(n=1024, d=d, mask=mask, direction="backward"), fast_words) for mask in masks]
    assert found.columns["moved_words"].tolist() == [each.moved_words for each in plans]
