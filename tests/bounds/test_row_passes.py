import pytest

from attenio.bounds import bounds_for
from attenio.bounds.row_passes import row_passes
from attenio.pebbling.row_games import AttentionGame
from attenio.planning import best_plan_for
from attenio.workload import Workload


def in_slots(slots, rows, keys, d, dv):
    """The game of the theorem, in which a row takes no more words than a key."""
    words = {"fast_words": slots * (d + dv), "d": d, "value_dim": dv, "statistics": 0}
    return AttentionGame(needed=((1 << keys) - 1,) * rows, **words)


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (4, 1)])
@pytest.mark.parametrize(("rows", "keys"), [(2, 2), (2, 4), (3, 3), (4, 2), (3, 4)])
def test_no_game_of_whole_rows_and_keys_that_is_solved_exactly_moves_less_than_the_bound(rows, keys, d, dv):
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv)
    for slots in range(2, min(rows, keys) + 2):
        game = in_slots(slots, rows, keys, d, dv)
        bound = row_passes(workload, slots * (d + dv))
        assert workload.compulsory_words <= bound.words <= game.optimum()
        if slots > min(rows, keys):
            assert game.optimum() == workload.compulsory_words == bound.words


def test_two_passes_that_keep_keys_over_the_turn_attain_the_bound():
    game = in_slots(2, 2, 3, 1, 1)
    assert game.optimum() == row_passes(Workload(queries=2, keys=3, d=1), 2 * 2).words == 10 + 4
    workload = Workload(n=1024, d=64)
    for share in (1.1, 1.3, 1.5):
        fast_words = int(share * 1024 * 64)
        plan, bound = best_plan_for(workload, fast_words), row_passes(workload, fast_words)
        assert bound.words <= plan.moved_words <= 1.01 * bound.words


def test_the_bound_is_told_of_dense_problems_in_one_fast_memory_only():
    def told(workload, units=1):
        return "row-passes" in {bound.theorem for bound in bounds_for(workload, 4096, units=units)}

    assert told(Workload(n=64, d=16, heads=4, kv_heads=2, batch=3))
    assert not told(Workload(n=64, d=16, mask="causal"))
    assert not told(Workload(n=64, d=16), units=2)


def test_heads_that_share_keys_are_rows_of_one_game_and_other_heads_are_games_of_their_own():
    one = row_passes(Workload(queries=40, keys=20, d=8), 200).words
    shared = Workload(queries=10, keys=20, d=8, heads=8, kv_heads=2, batch=3)
    assert row_passes(shared, 200).words == 6 * one
