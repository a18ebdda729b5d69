from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

from ..laws import GRADIENT_TILES, QUICK, counted, obeys_its_closed_form, planned, sizes, some_tiles, workloads
from ..test_kept_keys import kept
from .test_tiled_products import products


def closed_form(problem, tiles):
    m, d, dv, w, g = problem.m, problem.dk, problem.dv, problem.w, problem.g
    a, b = min(tiles["score_rows"], problem.n), min(tiles["score_keys"], m)
    loads = problem.key_loads(a)
    each = (problem.tile_rows(a, b) + loads) * (d + dv) + 2 * problem.live_rows(a) * w + problem.scores * w
    moved, peak = products(problem, tiles, ("key", "query"))
    moved += g * each + 2 * w * dv * (g * loads - problem.touched_keys) + m * dv
    return moved, max(peak, 2 * a * b * w + a + 1 + 2 * a * w + w)


@QUICK
@given(workloads(), st.data())
def test_fused_values_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    tiles = some_tiles(data.draw, workload, Dataflow.FUSED_VALUES)
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.FUSED_VALUES, tiles, problems, closed_form)


def held(is_band):
    def words(problem, tiles):
        d, dv, w, g = problem.dk, problem.dv, problem.w, problem.g
        a, b = min(tiles["query_tile"], problem.n), min(tiles["key_tile"], problem.m)
        e, t, c = min(tiles["value_keys"], problem.m), min(tiles["value_rows"], problem.n), tiles["value_columns"]
        groups, c = -(-dv // c), min(c, dv)
        loads, rows, keys = problem.key_loads(a), problem.touched_rows, problem.touched_keys
        each = problem.tile_rows(a, b) * dv + loads * (d + dv) + problem.live_rows(a) * (d + w) + problem.n * d
        moved = g * (rows * (2 * dv + 2 * w) + each) + 2 * w * d * (g * loads - keys) + problem.m * (d + dv)
        arrivals = problem.row_visits(e) - kept(problem.required.T, e, t, is_band=is_band)
        moved += groups * keys * d + g * arrivals * (groups * (d + w) + dv)
        tile = a * b * w + a * (d + 1 + (d + 2) * w) + d + 2 * w + 1
        return moved, max(w + 2, tile, e * (d + c * w) + t * g * (d + c + w) + w)

    return words


@QUICK
@given(workloads(), st.data())
def test_held_scores_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    keys, rows = workload.keys + 1, workload.queries + 1
    tiles = sizes(
        data.draw,
        query_tile=rows,
        key_tile=keys,
        value_keys=keys,
        value_rows=rows,
        value_columns=workload.value_dim + 1,
    )
    is_band = not hasattr(workload.mask, "query_block")
    backward, problems = workload.towards("backward"), counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(backward, Dataflow.FUSED_VALUES, tiles, problems, held(is_band))


def test_held_scores_move_a_quarter_less_than_all_others_where_values_are_wide():
    workload, fast_words = Workload(n=8192, d=64, value_dim=1024, direction="backward"), 20 * 64**2
    plan = best_plan_for(workload, fast_words)
    assert plan.dataflow is Dataflow.FUSED_VALUES and plan.tiles["value_columns"] < 1024
    others = [each for each in Dataflow.towards("backward") if each is not plan.dataflow and not each.is_approximate]
    for other in others:
        assert 4 * plan.moved_words < 3 * best_plan_for(workload, fast_words, dataflow=other).moved_words


@QUICK
@given(workloads())
def test_probabilities_are_never_written(workload):
    plan = planned(workload.towards("backward"), Dataflow.FUSED_VALUES, GRADIENT_TILES[Dataflow.FUSED_VALUES], 10**6)
    trace = execute(plan).trace
    assert "P" not in trace.stores
    assert trace.stores["dS"] == workload.scores * workload.accumulator_words
