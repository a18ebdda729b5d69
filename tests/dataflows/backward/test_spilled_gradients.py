from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning.plan import Dataflow, Tiles

from ..laws import LEAN_TILES, QUICK, counted, obeys_its_closed_form, planned, sizes, some_tiles, workloads


def closed_form(problem, tiles):
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    a, b = min(tiles["query_tile"], n), min(tiles["key_tile"], m)
    p, c = min(tiles["query_rows"], n), min(tiles["query_columns"], d)
    rows = problem.row_visits(b) * (d + dv + 2 * w) + problem.touched_rows * dv + problem.scores * w + n * d
    moved = (problem.touched_keys + m) * (d + dv) + g * rows
    moved += g * (problem.scores * -(-d // c) * w + problem.key_loads(p) * d)
    first = b * (d + dv) * (1 + w) + a * (d + dv) + 3 * a * w + a * b * w + 1
    peak = p * c * w + p * w + 1
    if "key_keys" in tiles:
        q, e = min(tiles["key_keys"], m), min(tiles["key_columns"], d)
        moved += g * (problem.scores * -(-d // e) * w + problem.row_visits(q) * d)
        first -= b * d * w
        peak = max(peak, q * e * w + q * w + 1)
    return moved, max(first, peak)


@QUICK
@given(workloads(), st.data())
def test_spilled_gradients_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    tiles = some_tiles(data.draw, workload, Dataflow.SPILLED_GRADIENTS)
    if data.draw(st.booleans()):
        tiles = Tiles.of(**tiles, **sizes(data.draw, key_keys=workload.keys, key_columns=workload.d))
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.SPILLED_GRADIENTS, tiles, problems, closed_form)


@QUICK
@given(workloads())
def test_only_score_gradients_and_row_sums_travel(workload):
    run = execute(planned(workload.towards("backward"), Dataflow.SPILLED_GRADIENTS, LEAN_TILES, 10**6))
    assert set(run.trace.stores) <= {"D", "dS", "dQ", "dK", "dV"}
    assert run.trace.stores["dS"] == workload.scores * workload.accumulator_words
