from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.row_passes import loads, loads_of_all_pairs, row_passes
from attenio.pebbling.row_games import AttentionGame
from attenio.planning.costs import cost
from attenio.planning.plan import Tiles
from attenio.workload import Workload


def in_slots(slots, rows, keys, d, dv):
    """The game of the theorem, in which a row takes no more words than a key."""
    return under_a_mask(slots, ((1 << keys) - 1,) * rows, d, dv)


def under_a_mask(slots, needed, d, dv):
    """The same where rows need some keys only: for each row those whose bits are set."""
    return AttentionGame(needed=needed, fast_words=slots * (d + dv), d=d, value_dim=dv, statistics=0)


def with_keys_of_their_own(needed, keys):
    """The most rows that can be given different keys, each one that it needs."""
    given_keys = permutations(range(max(keys, len(needed))), len(needed))
    return max(sum(mask >> j & 1 for mask, j in zip(needed, chosen, strict=True)) for chosen in given_keys)


def loads_by_turns(rows, keys, slots, random):
    """Loads until all rows have met all keys, one at random replaced by one of those that meet most or by any."""
    met, here, count = set(), [], 0
    everything = [*(("row", i) for i in range(rows)), *(("key", j) for j in range(keys))]

    def meeting(one, others):
        other_kind = [number for kind, number in others if kind != one[0]]
        pairs = ((one[1], number) if one[0] == "row" else (number, one[1]) for number in other_kind)
        return set(pairs) - met

    while len(met) < rows * keys:
        leaving = [random.choice(here)] if len(here) == slots else []
        staying = [each for each in here if each not in leaving]
        absent = [each for each in everything if each not in staying]
        most = max(len(meeting(each, staying)) for each in absent)
        best = [each for each in absent if len(meeting(each, staying)) == most]
        arriving = random.choice(best if random.random() < 0.9 else absent)
        met |= meeting(arriving, staying)
        here, count = [*staying, arriving], count + 1
    return count


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


@pytest.mark.parametrize(("rows", "keys"), [(2, 3), (3, 3), (2, 5), (4, 3)])
def test_no_game_in_which_rows_need_all_keys_loads_fewer_of_them_than_is_proven(rows, keys):
    for slots in range(2, rows + keys + 2):
        proven = loads_of_all_pairs(rows, keys, slots)
        assert 2 * proven <= in_slots(slots, rows, keys, 1, 1).optimum()
        assert proven >= loads(rows * keys, min(rows, keys), slots)


@given(needed=st.lists(st.integers(1, 15), min_size=1, max_size=3), slots=st.integers(2, 6))
def test_no_game_under_a_mask_loads_fewer_rows_and_keys_than_is_proven(needed, slots):
    pairs, own = sum(mask.bit_count() for mask in needed), with_keys_of_their_own(needed, 4)
    assert 2 * loads(pairs, own, slots) <= under_a_mask(slots, tuple(needed), 1, 1).optimum()


@given(
    rows=st.integers(1, 12), keys=st.integers(1, 12), slots=st.integers(2, 9), random=st.randoms(use_true_random=False)
)
def test_no_order_of_rows_and_keys_loads_fewer_of_them_than_is_proven(rows, keys, slots, random):
    assert loads_of_all_pairs(rows, keys, slots) <= loads_by_turns(rows, keys, slots, random)


def test_of_what_tiles_of_rows_load_besides_the_leading_term_nearly_three_quarters_are_proven():
    n, slots = 10_000, 1001
    tiles = n + n * (n // (slots - 1))
    besides, proven = tiles - n * n / slots, loads_of_all_pairs(n, n, slots) - n * n / slots
    assert 0.74 * besides < proven < 0.75 * besides


def test_two_passes_that_keep_keys_over_the_turn_attain_the_bound():
    game = in_slots(2, 2, 3, 1, 1)
    assert game.optimum() == row_passes(Workload(queries=2, keys=3, d=1), 2 * 2).words == 10 + 4
    workload = Workload(n=1024, d=64)
    for share in (1.1, 1.3, 1.5):
        fast_words = int(share * 1024 * 64)
        slots = (fast_words - 512 * (2 * 64 + 2) - 2) // (2 * 64)
        passes = cost(workload, "kept-keys", Tiles.of(query_tile=512, kept_keys=slots, value_columns=64))
        assert passes.peak_words <= fast_words
        bound = row_passes(workload, fast_words)
        assert bound.words <= passes.moved_words <= 1.01 * bound.words


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
