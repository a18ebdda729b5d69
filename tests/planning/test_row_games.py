"""No schedule that moves whole rows and keys beats the best plan: small games solved over all of their positions."""

import random

import pytest

from attenio.pebbling.row_games import AttentionGame, GradientGame
from attenio.planning import best_plan_for
from attenio.workload import Workload

IN_HAND = 2  # a score and its maximum


def needed_keys(workload):
    (pattern, _), *_ = workload.separate_patterns
    return tuple(sum(1 << j for j in pattern.needed_keys(i, i + 1).tolist()) for i in range(pattern.rows))


def optimum_of(workload, fast_words):
    sizes = {"d": workload.d, "value_dim": workload.value_dim}
    needed = needed_keys(workload) * workload.group
    return AttentionGame(needed=needed, fast_words=fast_words - IN_HAND, **sizes).optimum()


def memories(rows, keys, d, dv, *, slots=1, points=7):
    """From a row and so many keys up to where everything stays."""
    row, key = d + dv + 2, d + dv
    least, most = row + slots * key + IN_HAND, rows * row + keys * key + IN_HAND
    return range(least, most, max(1, (most - least) // points))


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (5, 2)])
@pytest.mark.parametrize(("rows", "keys"), [(1, 4), (2, 3), (3, 2), (3, 3), (4, 2), (2, 5), (4, 3), (3, 4)])
def test_no_legal_row_granular_schedule_moves_less_than_the_best_plan(rows, keys, d, dv):
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv)
    for fast_words in memories(rows, keys, d, dv):
        assert best_plan_for(workload, fast_words).moved_words <= optimum_of(workload, fast_words)


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (8, 8)])
@pytest.mark.parametrize(("rows", "keys", "heads"), [(1, 3, 2), (1, 4, 2), (2, 3, 2), (1, 3, 3), (2, 2, 2), (1, 2, 4)])
def test_nor_where_heads_share_keys(rows, keys, heads, d, dv):
    """Where values are narrow, a row that leaves half done can save a word or two of fifty."""
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv, heads=heads, kv_heads=1)
    for fast_words in memories(heads * rows, keys, d, dv):
        assert best_plan_for(workload, fast_words).moved_words <= optimum_of(workload, fast_words)


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize(("n", "window"), [(4, 2), (5, 2), (4, 3), (5, 3)])
def test_nor_under_a_window(n, window, d, dv):
    workload = Workload(n=n, d=d, value_dim=dv, mask=f"window:{window}")
    for fast_words in memories(window, window, d, dv, points=4):
        assert best_plan_for(workload, fast_words).moved_words <= optimum_of(workload, fast_words)


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 5)])
@pytest.mark.parametrize(("rows", "keys"), [(3, 3), (4, 4), (2, 4), (3, 5)])
def test_nor_under_a_causal_mask_once_two_keys_fit_beside_a_row(rows, keys, d, dv):
    """With room for one key a walk back and forth would keep it over the turn; slots under a mask do not.

    Where values are narrow, a row that leaves half done can save a word or two of a hundred.
    """
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv, mask="causal")
    for fast_words in memories(rows, keys, d, dv, slots=2, points=5):
        assert best_plan_for(workload, fast_words).moved_words <= optimum_of(workload, fast_words)


def test_one_pass_less_would_be_found_by_the_search():
    d, row, key = 3, 8, 6
    for fast_words, loads in ((row + key, 7), (row + 2 * key, 5), (2 * row + key, 5), (row + 3 * key, 3)):
        game = AttentionGame(needed=(7, 7, 7), fast_words=fast_words, d=d, value_dim=d)
        assert game.optimum() == 3 * d + loads * key + 3 * d  # queries and outputs once, keys as often as said
    assert AttentionGame(needed=(7, 7, 7), fast_words=row + key - 1, d=d, value_dim=d).optimum() is None


@pytest.mark.parametrize(("d", "dv"), [(3, 2), (2, 3), (4, 4)])
@pytest.mark.parametrize("mask", ["dense", "causal"])
@pytest.mark.parametrize(("rows", "keys", "heads"), [(1, 3, 1), (3, 1, 1), (2, 2, 1), (2, 3, 1), (1, 2, 2), (1, 1, 3)])
def test_gradients_cost_what_is_compulsory_once_rows_and_one_key_stay_with_theirs(rows, keys, heads, mask, d, dv):
    sizes = {"queries": rows, "keys": keys, "d": d, "value_dim": dv, "heads": heads, "kv_heads": 1}
    if mask == "causal" and rows > keys:
        return
    workload = Workload(**sizes, mask=mask, direction="backward")
    enough = heads * rows * (2 * d + dv + 2) + 2 * (d + dv)
    game = GradientGame(needed=needed_keys(workload) * heads, fast_words=enough, d=d, value_dim=dv)
    statistics = heads * rows * (dv + 1)  # outputs, for D, and log-sum-exps
    assert game.optimum() == workload.compulsory_words + statistics
    if mask == "dense":  # a score, its gradient and a word of the output are in hand
        plan = best_plan_for(workload, enough + 3)
        # a ring of keys does without these statistics, which no game does
        assert plan.moved_words == game.optimum() - (statistics if "ring_keys" in plan.tiles else 0)


def gradient_optimum(workload, fast_words):
    sizes = {"d": workload.d, "value_dim": workload.value_dim}
    # a score, its gradient and a word of the output are in hand
    return GradientGame(needed=needed_keys(workload) * workload.group, fast_words=fast_words - 3, **sizes).optimum()


def memories_for_gradients(workload, points):
    """From a row, a key and the larger of their gradients up to where everything stays."""
    d, both, rows = workload.d, workload.d + workload.value_dim, workload.group * workload.queries
    least = 2 * both + 2 + max(d, both) + 3
    most = rows * (both + d + 2) + workload.keys * 2 * both + 3
    return range(least, most + 1, max(1, (most - least) // points))


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (5, 2)])
@pytest.mark.parametrize(
    ("rows", "keys", "heads"), [(1, 3, 1), (3, 1, 1), (1, 4, 1), (4, 1, 1), (2, 2, 1), (1, 2, 2), (2, 1, 2)]
)
def test_no_schedule_of_whole_rows_moves_less_than_the_best_plan_for_gradients(rows, keys, heads, d, dv):
    sizes = {"queries": rows, "keys": keys, "d": d, "value_dim": dv, "heads": heads, "kv_heads": 1}
    workload = Workload(**sizes, direction="backward")
    for fast_words in memories_for_gradients(workload, 8):
        assert best_plan_for(workload, fast_words).moved_words <= gradient_optimum(workload, fast_words)


@pytest.mark.parametrize(("d", "dv"), [(8, 8), (3, 3)])
@pytest.mark.parametrize(("rows", "keys", "heads"), [(1, 3, 3), (2, 2, 2), (1, 4, 2), (2, 1, 3)])
def test_nor_where_several_heads_share_keys_that_all_of_their_rows_need(rows, keys, heads, d, dv):
    """From a third of the memories on: below, a row or a key that walks back and forth saves up to 14 percent."""
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv, heads=heads, kv_heads=1, direction="backward")
    every = memories_for_gradients(workload, 10**9)
    for fast_words in every[len(every) // 3 :: len(every) // 4]:
        assert best_plan_for(workload, fast_words).moved_words <= gradient_optimum(workload, fast_words)


@pytest.mark.parametrize(("rows", "keys", "d", "dv"), [(2, 3, 5, 2), (3, 2, 2, 4)])
def test_nor_with_a_row_or_a_key_more(rows, keys, d, dv):
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv, direction="backward")
    for fast_words in memories_for_gradients(workload, 4):
        assert best_plan_for(workload, fast_words).moved_words <= gradient_optimum(workload, fast_words)


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (5, 2), (8, 8)])
@pytest.mark.parametrize(
    ("rows", "keys", "mask"),
    [(2, 2, "causal"), (2, 3, "causal"), (3, 3, "causal"), (3, 3, "window:2"), (4, 4, "window:2")],
)
def test_nor_for_gradients_under_a_causal_mask_or_a_narrow_window(rows, keys, mask, d, dv):
    """Where sums are narrow, or more keys come before the first row, a sum that travels can save some words."""
    workload = Workload(queries=rows, keys=keys, d=d, value_dim=dv, mask=mask, direction="backward")
    for fast_words in memories_for_gradients(workload, 6 if rows < 4 else 3):
        assert best_plan_for(workload, fast_words).moved_words <= gradient_optimum(workload, fast_words)


@pytest.mark.parametrize(
    ("rows", "keys", "heads", "share", "games"),
    [(2, 2, 1, 0, 200), (3, 3, 1, 0, 25), (2, 3, 1, 0.3, 60), (2, 2, 2, 0.25, 40)],
)
def test_nor_do_drawn_causal_games(rows, keys, heads, share, games):
    """Of any widths and memories; with more keys than rows, or heads that share keys, from a share of these on."""
    drawn = random.Random(rows * keys * heads)
    for _ in range(games):
        d = drawn.randint(1, 9)
        sizes = {"queries": rows, "keys": keys, "d": d, "value_dim": drawn.choice((d, drawn.randint(1, 9)))}
        workload = Workload(**sizes, heads=heads, kv_heads=1, mask="causal", direction="backward")
        every = memories_for_gradients(workload, 10**9)
        fast_words = drawn.randint(every[int(share * (len(every) - 1))], every[-1])
        assert best_plan_for(workload, fast_words).moved_words <= gradient_optimum(workload, fast_words)


@pytest.mark.parametrize(("d", "fast_words"), [(1, 16), (5, 53), (6, 63), (8, 80)])
def test_nor_where_two_causal_rows_have_more_keys_and_sums_travel(d, fast_words):
    """In the lowest quarter of memories a game can be 5 percent ahead where widths differ, and 13 percent at d = 1."""
    workload = Workload(queries=2, keys=5, d=d, mask="causal", direction="backward")
    assert best_plan_for(workload, fast_words).moved_words == gradient_optimum(workload, fast_words)


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (8, 8)])
@pytest.mark.parametrize(("n", "mask", "ring"), [(2, "causal", 1), (3, "window:2", 1)])
def test_a_ring_of_rows_holds_no_more_than_games_need_to_move_everything_once(n, mask, ring, d, dv):
    workload = Workload(n=n, d=d, value_dim=dv, mask=mask, direction="backward")
    least = ring * (d + dv + 2) + 2 * (d + dv) + 3
    optimum = workload.compulsory_words + n * (dv + 1)  # outputs, for D, and log-sum-exps
    assert best_plan_for(workload, least).moved_words == gradient_optimum(workload, least) == optimum
    assert gradient_optimum(workload, least - 1) is None


def test_a_row_whose_gradient_waits_makes_room_for_the_gradient_of_a_key():
    """Both rows stay; the first key finishes its gradient before the rows begin theirs, the last one after."""
    d = 3
    game = GradientGame(needed=(3, 3), fast_words=2 * (2 * d + 2) + 2 * 2 * d, d=d, value_dim=d)
    assert game.optimum() == 2 * (3 * d + 1) + 2 * 2 * d + 2 * d + 2 * 2 * d


@pytest.mark.parametrize(("rows", "keys"), [(2, 2), (2, 3), (3, 2)])
def test_once_rows_and_their_gradients_stay_beside_a_key_no_game_beats_a_plan_for_gradients(rows, keys):
    """The first key finishes its gradient before the rows begin theirs, and the last one after them."""
    d = 4
    workload = Workload(queries=rows, keys=keys, d=d, direction="backward")
    least = rows * (3 * d + 2) + 2 * d
    for free in range(least, least + 2 * d + 1, d):
        game = GradientGame(needed=needed_keys(workload), fast_words=free, d=d, value_dim=d)
        assert best_plan_for(workload, free + 3).moved_words <= game.optimum()
