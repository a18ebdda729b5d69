from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from ..laws import GRADIENT_TILES, QUICK, counted, obeys_its_closed_form, planned, sizes, workloads
from ..test_kept_keys import kept
from ..test_rolling import causal_or_windows, reads, windows


def closed_form(problem, tiles):
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    p, h, b = min(tiles["query_tile"], n), min(tiles["head_tile"], g), min(tiles["key_tile"], m)
    c, r = min(tiles["stationary_keys"], m), min(tiles["passing_queries"], n)
    queries = g * (problem.live_rows(p) * (d + 2 * dv + 2 * w) + n * d) + -(-g // h) * problem.key_loads(p) * (d + dv)
    keys = problem.touched_keys * (d + dv) + g * problem.row_visits(c) * (d + dv + 2 * w) + m * (d + dv)
    first = h * p * (d + dv + d * w + 3 * w + b * w) + b * (d + dv) + 1
    second = c * (d + dv) * (1 + w) + r * (d + dv) + 3 * r * w + r * c * w
    return queries + keys, max(first, second)


@QUICK
@given(workloads(), st.data())
def test_two_passes_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    rows, keys = workload.queries + 1, workload.keys + 1
    limits = {"query_tile": rows, "head_tile": workload.group + 1, "key_tile": keys}
    tiles = sizes(data.draw, **limits, stationary_keys=keys, passing_queries=rows)
    problems = counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(workload.towards("backward"), Dataflow.TWO_PASS, tiles, problems, closed_form)


def with_slots(is_band):
    def words(problem, tiles):
        n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
        p, s = min(tiles["query_tile"], n), min(tiles["kept_keys"], m)
        c, t = min(tiles["stationary_keys"], m), min(tiles["kept_rows"], n)
        read = problem.key_loads(p) - kept(problem.required, p, s, is_band=is_band)
        arrivals = problem.row_visits(c) - kept(problem.required.T, c, t, is_band=is_band)
        queries = g * (problem.live_rows(p) * (d + 2 * dv + 2 * w) + n * d + read * (d + dv))
        keys = (problem.touched_keys + m) * (d + dv) + g * arrivals * (d + dv + 2 * w)
        first = p * (d + dv + d * w + 2 * w) + s * (d + dv) + 2 * w + 1
        return queries + keys, max(first, c * (d + dv) * (1 + w) + t * g * (d + dv + 2 * w) + 2 * w)

    return words


@QUICK
@given(workloads(), st.data())
def test_two_passes_with_slots_move_and_hold_what_their_closed_form_says_and_compute_the_gradient(workload, data):
    rows, keys = workload.queries + 1, workload.keys + 1
    tiles = sizes(data.draw, query_tile=rows, kept_keys=keys, stationary_keys=keys, kept_rows=rows)
    is_band = not hasattr(workload.mask, "query_block")
    backward, problems = workload.towards("backward"), counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(backward, Dataflow.TWO_PASS, tiles, problems, with_slots(is_band))


def rolling(problem, tiles):
    """As with slots, with reads counted row by row, or key by key."""
    n, m, d, dv, w, g = problem.n, problem.m, problem.dk, problem.dv, problem.w, problem.g
    a, s, t = min(tiles["rolling_rows"], n), min(tiles["kept_keys"], m), min(tiles["kept_rows"], n)
    if "rolling_keys" in tiles:
        c = min(tiles["rolling_keys"], m)
        arrivals = reads(problem.required.T, c, t)
    else:
        c = min(tiles["stationary_keys"], m)
        arrivals = problem.row_visits(c) - kept(problem.required.T, c, t, is_band=True)
    queries = g * (problem.touched_rows * (d + 2 * dv + 2 * w) + n * d + reads(problem.required, a, s) * (d + dv))
    keys = (problem.touched_keys + m) * (d + dv) + g * arrivals * (d + dv + 2 * w)
    first = a * (d + dv + d * w + 2 * w) + s * (d + dv) + 2 * w + 1
    return queries + keys, max(first, c * (d + dv) * (1 + w) + t * g * (d + dv + 2 * w) + 2 * w)


@QUICK
@given(causal_or_windows(), st.data())
def test_two_passes_with_rolling_rows_move_and_hold_what_their_closed_form_says(workload, data):
    rows, keys = workload.queries + 1, workload.keys + 1
    tiles = sizes(data.draw, rolling_rows=rows, kept_keys=keys, stationary_keys=keys, kept_rows=rows)
    backward, problems = workload.towards("backward"), counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(backward, Dataflow.TWO_PASS, tiles, problems, rolling)


@QUICK
@given(windows(), st.data())
def test_two_passes_that_both_roll_move_and_hold_what_their_closed_form_says(workload, data):
    rows, keys = workload.queries + 1, workload.keys + 1
    tiles = sizes(data.draw, rolling_rows=rows, kept_keys=keys, rolling_keys=keys, kept_rows=rows)
    backward, problems = workload.towards("backward"), counted(workload, by_group=True, heads_as_rows=True)
    obeys_its_closed_form(backward, Dataflow.TWO_PASS, tiles, problems, rolling)


def test_under_a_window_rows_and_keys_that_roll_read_each_other_a_whole_number_of_times():
    n, d, window, rows, keys = 400, 8, 160, 20, 16
    workload = Workload(n=n, d=d, mask=f"window:{window}", direction="backward")
    plan = best_plan_for(workload, rows * (3 * d + 2) + 2 * d + 3)
    assert plan.dataflow is Dataflow.TWO_PASS
    assert plan.tiles == Tiles.of(rolling_rows=rows, kept_keys=1, rolling_keys=keys, kept_rows=1)
    keys_read = sum(-(-min(window, n - j) // rows) for j in range(n))
    rows_read = sum(-(-min(window, i + 1) // keys) for i in range(n))
    words = n * (8 * d + 2) + keys_read * 2 * d + rows_read * (2 * d + 2)
    assert execute(plan).moved_words == plan.moved_words == words


@QUICK
@given(workloads())
def test_nothing_partial_travels(workload):
    plan = planned(workload.towards("backward"), Dataflow.TWO_PASS, GRADIENT_TILES[Dataflow.TWO_PASS], 10**6)
    trace = execute(plan).trace
    assert set(trace.stores) <= {"D", "dQ", "dK", "dV"}
    assert set(trace.loads) <= {"Q", "K", "V", "O", "dO", "L", "D"}
