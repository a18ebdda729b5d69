"""Heads that share keys in one tile of kept keys: keys pass once for the rows of all of them at some positions."""

from hypothesis import assume, given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .games import is_a_legal_game
from .laws import QUICK, counted, obeys_its_closed_form, sizes, workloads
from .test_kept_keys import kept
from .test_rolling import causal_or_windows


def in_tiles(is_band):
    def words(problem, tiles):
        a, slots = min(tiles["group_positions"], problem.n), min(tiles["kept_keys"], problem.m)
        n, dk, dv, w, g = problem.n, problem.dk, problem.dv, problem.w, problem.g
        read = problem.key_loads(a) - kept(problem.required, a, slots, is_band=is_band)
        moved = g * (problem.live_rows(a) * dk + n * dv) + read * (dk + dv)
        return moved, g * a * (dk + (dv + 2) * w) + slots * (dk + dv) + 2 * w

    return words


@QUICK
@given(workloads(), st.data())
def test_tiles_of_heads_together_move_and_hold_what_their_closed_form_says_and_compute_attention(workload, data):
    tiles = sizes(data.draw, group_positions=workload.queries + 1, kept_keys=workload.keys + 1)
    problems, is_band = counted(workload, by_group=True), not hasattr(workload.mask, "query_block")
    obeys_its_closed_form(workload, Dataflow.KEPT_KEYS, tiles, problems, in_tiles(is_band))


@QUICK
@given(workload=causal_or_windows(), data=st.data())
def test_a_run_of_heads_together_is_a_legal_game_at_its_counted_words(workload, data):
    required = counted(workload)[0][0].required
    assume(required.any(axis=1).all() and workload.heads * workload.batch <= 3)
    tiles = sizes(data.draw, group_positions=4, kept_keys=4)
    is_a_legal_game(workload, Dataflow.KEPT_KEYS, tiles)


def test_a_ring_of_a_window_serves_all_heads_that_share_its_keys():
    n, d, window, heads = 256, 8, 32, 4
    workload = Workload(n=n, d=d, heads=heads, kv_heads=1, mask=f"window:{window}")
    plan = best_plan_for(workload, window * 2 * d + heads * (2 * d + 2) + 2)
    assert plan.tiles == Tiles.of(group_positions=1, kept_keys=window)
    assert plan.moved_words == execute(plan).moved_words == workload.compulsory_words
