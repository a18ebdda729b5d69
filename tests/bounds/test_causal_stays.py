"""Rows that need the keys up to their own: the steps of that proof of single stays."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.single_stays import single_stays, words_again_of_band
from attenio.errors import DoesNotFit
from attenio.masks.patterns import Band
from attenio.pebbling.row_games import AttentionGame
from attenio.planning import best_plan_for
from attenio.workload import Direction, Workload

from .test_columns_beside import passing
from .test_single_stays import Moment, WatchedRun, singles

laws = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.mark.parametrize("half", [0, 1])
def test_beside_departed_and_late_rows_and_keys_outputs_or_values_of_every_column_are_there(half: int) -> None:
    counted = 0
    for seed in range(half, 160, 2):
        random = np.random.default_rng(seed)
        n, d, dv = (int(random.integers(low, high)) for low, high in [(4, 9), (1, 3), (1, 3)])
        fast_words = int(random.integers(6, max(8, n * (2 * d + dv))))
        keep = float(random.choice([0.0, 0.5, 1.0]))
        run = WatchedRun(n, n, d, dv, fast_words, random, keep=keep, causal=True).seen()
        loads = Counter(word.name for done, word in run.steps if done == "load")
        single, (outputs, values) = singles(run), passing(run)
        for at in random.integers(0, len(run.steps), 6):
            moment = Moment(run, int(at))
            (rows_left, rows_late), (keys_left, keys_late) = (moment.sides(single, kind) for kind in "qk")
            done = {"o": outputs.done(moment.at), "v": values.done(moment.at)}
            begun = {"o": outputs.begun(moment.at), "v": values.begun(moment.at)}
            for last, first, row_left, key_left in (
                (max(rows_left, default=-1), min(keys_late, default=n), True, False),
                (max(rows_late, default=-1), min(keys_left, default=n), False, True),
            ):
                if not 0 <= last < first < n:
                    continue
                keys, rows = range(last + 1), range(first, n)
                excused = {j for j in keys if row_left and (last, j) in moment.open}
                excused_rows = {i for i in rows if key_left and (i, first) in moment.open}
                for c in range(dv):
                    if row_left:
                        assert all((j, c) in begun["v"] for j in keys if j not in excused)
                        assert not any((i, c) in done["o"] for i in rows)
                    else:
                        assert all((i, c) in begun["o"] for i in rows if i not in excused_rows)
                        assert not any((j, c) in done["v"] for j in keys)
                    there = {
                        kind: sum(
                            (kind, place, 0, c) in moment.names or loads[kind, place, 0, c] > (kind == "v")
                            for place in places
                        )
                        for kind, places in (("v", keys), ("o", rows))
                    }
                    least = min(len(keys), len(rows)) - len(excused) - len(excused_rows)
                    assert max(there.values()) >= least
                    counted += least > 0
    assert counted > 40


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (4, 1)])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_no_solved_game_of_whole_rows_moves_less_even_without_what_is_lost_on_the_way(n: int, d: int, dv: int) -> None:
    needed = tuple((1 << i + 1) - 1 for i in range(n))
    for fast_words in range(2 * (d + dv), (n + 2) * (d + dv), 2):
        game = AttentionGame(needed=needed, fast_words=fast_words, d=d, value_dim=dv, statistics=0)
        optimum = game.optimum()
        assert optimum is not None
        assert optimum >= 2 * n * (d + dv) + max(n * d + n // 2 * min(d, dv) - fast_words, 0)


@laws
@given(st.integers(8, 400), st.integers(1, 3), st.integers(1, 3), st.floats(0.2, 1.8))
def test_no_plan_moves_less(n: int, d: int, dv: int, share: float) -> None:
    workload, fast_words = Workload(n=n, d=d, value_dim=dv, mask="causal"), int(share * n * d) + 3
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    assert single_stays(workload, fast_words, direction=Direction.FORWARD).words <= plan.moved_words


@laws
@given(st.integers(1, 4000), st.integers(1, 9), st.integers(1, 9), st.integers(3, 10**5), st.integers(1, 3))
def test_words_that_come_again_are_those_of_the_theorem(n: int, d: int, dv: int, fast_words: int, heads: int) -> None:
    lost = 2 * (d + dv + max(d, 2) - 2) * d
    again = n * d + n // 2 * min(d, dv) - fast_words - lost - max(lost, 2 * d * d, 4 * d * dv)

    def counted(band: Band, group: int = 1) -> int:
        return int(words_again_of_band(band, group, (d, dv), fast_words, Direction.FORWARD))

    assert counted(Band.causal(n, n)) >= again
    arrays = Band.causal(np.array([n, n]), np.array([n, n + 1]))
    assert words_again_of_band(arrays, np.array([1, 1]), (d, dv), fast_words, Direction.FORWARD).tolist() == [
        counted(Band.causal(n, n)),
        counted(Band.causal(n, n + 1)),
    ]
    window = Band(rows=n, keys=n, left=n // 2, right=0, shift=0)
    assert counted(window) == 0 or n < 2
    assert counted(Band.causal(n, n), heads) >= 0


def test_a_causal_head_that_moves_each_word_once_has_room_for_three_halves_of_its_queries_and_keys():
    n, d = 65_536, 64
    workload = Workload(n=n, d=d, mask="causal")
    for share in (1, 1.25, 1.4, 1.48):
        fast_words = int(share * n * d)
        bound = single_stays(workload, fast_words, direction=Direction.FORWARD).words
        assert workload.compulsory_words < bound <= best_plan_for(workload, fast_words).moved_words <= 1.06 * bound
        assert bound == 11 * n * d // 2 - fast_words - 12 * d * d + 8 * d
