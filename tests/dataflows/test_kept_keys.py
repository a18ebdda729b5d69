import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.masks import BlockSparse
from attenio.planning import best_plan_for
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .laws import QUICK, counted, is_as_one_by_one, is_right, obeys_its_closed_form, planned, sizes, workloads


def kept(required, tile, slots, *, is_band):
    """What tiles find in their slots, from the keys that each needs."""
    needed = [set(np.flatnonzero(required[top : top + tile].any(axis=0))) for top in range(0, len(required), tile)]
    every_key = not is_band and slots >= required.any(axis=0).sum()
    keeping = slots if every_key or (is_band and (slots > 1 or required.all())) else slots - 1
    return sum(min(keeping, len(here & there)) for here, there in itertools.pairwise(needed))


def closed_form(is_band):
    def words(problem, tiles):
        a, slots = min(tiles["query_tile"], problem.n), min(tiles["kept_keys"], problem.m)
        c = min(tiles["value_columns"], problem.dv)
        n, dk, dv, w = problem.n, problem.dk, problem.dv, problem.w
        groups = -(-dv // c)
        read = problem.key_loads(a) - kept(problem.required, a, slots, is_band=is_band)
        moved = groups * problem.live_rows(a) * dk + n * dv + read * (groups * dk + dv)
        return moved, a * (dk + (c + 2) * w) + slots * (dk + c) + 2 * w

    return words


@QUICK
@given(workloads(), st.data())
def test_kept_keys_move_and_hold_what_their_closed_form_says_and_compute_attention(workload, data):
    tiles = sizes(
        data.draw, query_tile=workload.queries + 1, kept_keys=workload.keys + 1, value_columns=workload.value_dim + 1
    )
    is_band = not hasattr(workload.mask, "query_block")
    obeys_its_closed_form(workload, Dataflow.KEPT_KEYS, tiles, counted(workload), closed_form(is_band))


def test_a_slot_for_every_key_that_blocks_need_keeps_them_all():
    layout = np.array([[True, True, False], [True, True, False], [False, True, False]])
    workload = Workload(n=3, d=1, mask=BlockSparse.from_array(layout, query_block=1, key_block=1))
    for slots, words in ((1, 16), (2, 10)):
        tiles = Tiles.of(query_tile=1, kept_keys=slots, value_columns=1)
        run = execute(planned(workload, Dataflow.KEPT_KEYS, tiles, 100))
        assert run.moved_words == cost(workload, Dataflow.KEPT_KEYS, tiles).moved_words == words


def test_a_ring_reads_nothing_twice_once_it_holds_the_window():
    workload = Workload(n=256, d=8, mask="window:32")
    plan = best_plan_for(workload, 532)
    assert (plan.dataflow, plan.moved_words) == (Dataflow.KEPT_KEYS, workload.compulsory_words)
    assert execute(plan).moved_words == 8192


def test_keys_kept_over_the_turn_save_words_of_every_pass():
    workload = Workload(n=128, d=16)
    plan = best_plan_for(workload, 4163)
    assert plan.dataflow is Dataflow.KEPT_KEYS
    assert plan.moved_words == execute(plan).moved_words < 10_464 + 1
    assert best_plan_for(workload, 4163, dataflow="attenio").moved_words == 12_288


def test_values_in_groups_of_columns_move_less_where_they_are_wider_than_keys():
    workload = Workload(n=64, d=4, value_dim=64)
    plan = best_plan_for(workload, 300)
    whole = planned(workload, Dataflow.KEPT_KEYS, Tiles.of(query_tile=2, kept_keys=1, value_columns=64), 300)
    assert plan.dataflow is Dataflow.KEPT_KEYS and plan.tiles["value_columns"] < 64
    assert 2 * execute(plan).moved_words < execute(whole).moved_words


def test_fewer_groups_than_keys_fit_into_a_value_move_a_seventh_less_where_rows_come_in_few_tiles():
    workload, fast_words = Workload(n=1024, d=16, value_dim=256), 16 * 1024
    sixteen, nine = (
        cost(workload, "kept-keys", Tiles.of(query_tile=rows, kept_keys=slots, value_columns=-(-256 // groups)))
        for rows, slots, groups in ((fast_words // 34 - 1, 1, 16), (342, 6, 9))
    )
    assert max(sixteen.peak_words, nine.peak_words) <= fast_words and nine.moved_words < 6 / 7 * sixteen.moved_words
    # groups inside a tile of rows, which then loads its queries once, move a tenth less again
    best = best_plan_for(workload, fast_words)
    assert best.tiles["stacked_rows"] == 512 and best.moved_words < 9 / 10 * nine.moved_words


@pytest.mark.parametrize(("mask", "fast_words"), [("dense", 300), ("causal", 300), ("window:9", 420)])
def test_keys_taken_in_together_move_the_words_and_give_the_outputs_of_those_taken_in_one_by_one(
    mask: str, fast_words: int
) -> None:
    workload = Workload(queries=37, keys=41, d=5, value_dim=7, mask=mask, dtype="fp32")
    plan = best_plan_for(workload, fast_words, dataflow="kept-keys")
    is_as_one_by_one(plan)


@pytest.mark.parametrize(("keys", "mask"), [(7, "window:6"), (6, "window:5:both")])
def test_keys_that_pass_out_of_order_are_the_keys_that_are_read(keys: int, mask: str) -> None:
    """The first key passes and leaves; then those that the next row needs too, the last ones first."""
    workload = Workload(queries=2, keys=keys, d=3, mask=mask, dtype="fp32")
    run = execute(planned(workload, Dataflow.KEPT_KEYS, Tiles.of(query_tile=1, kept_keys=2, value_columns=3), 100))
    is_right(run)
