from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning.plan import Dataflow

from ..laws import GRADIENT_TILES, QUICK, counted, obeys_its_closed_form, planned, some_tiles, workloads
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


@QUICK
@given(workloads())
def test_probabilities_are_never_written(workload):
    plan = planned(workload.towards("backward"), Dataflow.FUSED_VALUES, GRADIENT_TILES[Dataflow.FUSED_VALUES], 10**6)
    trace = execute(plan).trace
    assert "P" not in trace.stores
    assert trace.stores["dS"] == workload.scores * workload.accumulator_words
