"""Gradients of rows that need the keys up to their own: the steps of that proof of single stays."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.single_stays import single_stays, words_again, words_again_of_band
from attenio.errors import DoesNotFit
from attenio.masks.patterns import Band
from attenio.pebbling.row_games import GradientGame
from attenio.planning import best_plan_for
from attenio.workload import Direction, Workload

from .random_gradients import RandomGradient

laws = settings(max_examples=40, deadline=None, derandomize=True)
BACKWARD = Direction.BACKWARD


class Moment:
    """A time of a run: single entries that have left or are still to come, and open pairs."""

    def __init__(self, run: RandomGradient, at: int, single: dict) -> None:
        self.run, self.at = run, at
        self.left, self.late = {}, {}
        for name, load in single.items():
            if not self.before(load):
                self.late.setdefault(name[:2], set()).add(name[2])
            elif name not in run.held[at]:
                self.left.setdefault(name[:2], set()).add(name[2])
        self.open = {w.name[1:3] for w, made, until in run.words if self.before(made) and not self.before(until)}

    def before(self, step: int) -> bool:
        return step < self.at or (step == self.at and self.run.steps[step][0] != "load")

    def met(self, name, *, earlier: bool) -> bool:
        """Whether an entry of an input is in at some time before, or after."""
        part = self.run.held[: self.at + 1] if earlier else self.run.held[self.at :]
        return any(name in names for names in part)

    def all_met(self, kind: str, place: int, which: int, *, earlier: bool) -> bool:
        width = self.run.dv if which else self.run.d
        return all(self.met((kind, place, which, c), earlier=earlier) for c in range(width))

    def all_made(self, i: int, j: int, which: int, *, earlier: bool) -> bool:
        return all(self.before(self.run.made[i, j, which, c]) == earlier for c in range(self.run.d))


@pytest.mark.parametrize("half", [0, 1])
def test_what_departed_and_late_rows_and_keys_need_is_there_before_and_after(half: int) -> None:
    counted: Counter[str] = Counter()
    for seed in range(half, 120, 2):
        random = np.random.default_rng(seed)
        n, d, dv = (int(random.integers(low, high)) for low, high in [(2, 4), (1, 3), (1, 5)])
        fast_words = int(random.integers(7, 7 + n * (d + dv)))
        run = RandomGradient(
            n, n, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.5, 1.0, 1.0])), causal=bool(seed % 3)
        ).play()
        loads = Counter(word.name for done, word in run.steps if done == "load" and word.name[0] in "qk")
        single = {w.name: s for s, (done, w) in enumerate(run.steps) if done == "load" and loads[w.name] == 1}
        for at in random.integers(0, len(run.steps), 24):
            moment = Moment(run, int(at), single)
            for i, j in {place[:2] for place in run.made}:
                row, key, is_open = ("q", i), ("k", j), (i, j) in moment.open
                if row in moment.left:
                    assert moment.all_met("k", j, 0, earlier=True)
                    if not is_open:
                        assert moment.all_met("k", j, 1, earlier=True) and moment.all_made(i, j, 1, earlier=True)
                    if key in moment.late:
                        assert moment.left[row] == {1} and moment.late[key] == {1} and is_open
                        counted["row left, key late"] += 1
                if row in moment.late:
                    assert moment.all_met("k", j, 0, earlier=False) and moment.all_made(i, j, 1, earlier=False)
                    assert is_open or moment.all_met("k", j, 1, earlier=False)
                    if key in moment.left:
                        assert moment.left[key] == {1} and is_open
                        counted["key left, row late"] += 1
                if key in moment.left and not is_open:
                    assert all(moment.all_met("q", i, which, earlier=True) for which in (0, 1))
                    assert moment.all_made(i, j, 0, earlier=True)
                if key in moment.late:
                    assert moment.all_met("q", i, 0, earlier=False) and moment.all_made(i, j, 0, earlier=False)
                    assert is_open or moment.all_met("q", i, 1, earlier=False)
                counted["left"] += row in moment.left
                counted["late"] += key in moment.late
    assert min(counted.values()) > 20 and len(counted) == 4


@pytest.mark.parametrize("half", [0, 1])
def test_the_same_of_pairs_that_are_neither_open_nor_brought_along_in_the_second_part_of_a_step(half: int) -> None:
    counted: Counter[str] = Counter()
    for seed in range(half, 160, 2):
        random = np.random.default_rng(seed)
        n, d, dv = (int(random.integers(low, high)) for low, high in [(2, 4), (1, 4), (1, 5)])
        fast_words = int(random.integers(7, 7 + n * (d + dv)))
        keep = float(random.choice([0.0, 0.5, 1.0, 1.0]))
        run = RandomGradient(n, n, d, dv, fast_words, random, keep=keep, causal=bool(seed % 3))
        begin = list(run.begin_with(float(random.choice([0.2, 0.6, 1.0]))).fast)
        run.play()
        stays = Counter(word.name for word in begin if word.name[0] in "qk")
        stays += Counter(word.name for done, word in run.steps if done == "load" and word.name[0] in "qk")
        arrived = {w.name: s for s, (done, w) in enumerate(run.steps) if done == "load"}
        single = {name: arrived.get(name, -1) for name, times in stays.items() if times == 1}
        brought = {word.name[1:3] for word, made, _ in run.words if made < 0}
        loaded = {word.name[1:3] for done, word in run.steps if done == "load" and word.name[0] == "s"}
        there = {word.name[1:3] for word in begin if word.name[0] == "s"}
        for at in random.integers(0, len(run.steps), 24):
            moment = Moment(run, int(at), single)
            now = {name[1:3] for name in run.held[at] if name[0] == "s"}
            assert moment.open | brought <= now | there | loaded
            for i, j in {place[:2] for place in run.made}:
                row, key, is_open = ("q", i), ("k", j), (i, j) in moment.open
                if not is_open:  # all that the one needs of the other has been in, or will be
                    for one, other, which in ((row, key, 1), (key, row, 0)):
                        if one in moment.left:
                            assert moment.all_made(i, j, which, earlier=True)
                            assert all(moment.all_met(*other, side, earlier=True) for side in (0, 1))
                            counted[f"{one[0]} left"] += 1
                        if one in moment.late and (i, j) not in brought:
                            assert moment.all_made(i, j, which, earlier=False)
                            assert all(moment.all_met(*other, side, earlier=False) for side in (0, 1))
                            counted[f"{one[0]} late"] += 1
                for one, other in ((row, key), (key, row)):
                    if one in moment.left and other in moment.late:
                        assert is_open
                        counted["left and late", (i, j) in brought] += 1
    assert min(counted.values()) > 20 and len(counted) == 6


@pytest.mark.parametrize(("n", "d", "dv"), [(2, 3, 3), (2, 2, 4), (2, 4, 1), (3, 4, 1)])
def test_no_solved_game_of_whole_rows_moves_less_even_without_what_is_lost_on_the_way(n: int, d: int, dv: int) -> None:
    needed = tuple((1 << i + 1) - 1 for i in range(n))
    for fast_words in range(3 * (d + dv), (n + 2) * 2 * (d + dv), 3 if n == 2 else 9):
        optimum = GradientGame(needed=needed, fast_words=fast_words, d=d, value_dim=dv).optimum()
        if optimum is not None:
            assert optimum >= n * (4 * d + 3 * dv) + max(n * (d + dv) - fast_words, 0)


@laws
@given(st.integers(8, 400), st.integers(1, 3), st.integers(1, 3), st.floats(0.2, 2.2))
def test_no_plan_moves_less(n: int, d: int, dv: int, share: float) -> None:
    workload = Workload(n=n, d=d, value_dim=dv, mask="causal", direction="backward")
    fast_words = int(share * n * (d + dv)) + 3
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    assert single_stays(workload, fast_words, direction=BACKWARD).words <= plan.moved_words


@laws
@given(st.integers(1, 4000), st.integers(1, 9), st.integers(1, 9), st.integers(3, 10**5), st.integers(1, 3))
def test_words_that_come_again_are_those_of_the_theorem(n: int, d: int, dv: int, fast_words: int, heads: int) -> None:
    own = d + dv
    again = n * own - fast_words - 2 * max(own * (own - 1), 2 * own * dv - own - dv)

    def counted(band: Band, group: int = 1, *, saved: bool = False) -> int:
        return int(words_again_of_band(band, group, (d, dv), fast_words, BACKWARD, saved=saved))

    causal = Band.causal(n, n)
    rows, keys = n - n // 2, n // 2
    assert counted(causal) == max(again, 0, counted(Band.dense(rows, keys)), counted(Band.dense(keys + 1, rows)))
    given = n * own - fast_words - 4 * own * (own + d - 1)
    parts = (counted(band, saved=True) for band in (Band.dense(rows, keys), Band.dense(keys + 1, rows)))
    assert counted(causal, saved=True) == max(given, 0, *parts) <= counted(causal)
    assert heads == 1 or counted(causal, heads) == words_again(
        (heads * (n - (n + 1) // 2 + 1), (n + 1) // 2, d, dv), fast_words, BACKWARD
    )
    arrays = Band.causal(np.array([n, n]), np.array([n, n + 1]))
    assert words_again_of_band(arrays, np.array([1, 1]), (d, dv), fast_words, BACKWARD).tolist() == [
        counted(Band.causal(n, n)),
        counted(Band.causal(n, n + 1)),
    ]


def test_a_causal_gradient_that_moves_each_word_once_has_room_for_all_queries_and_their_gradients_of_outputs():
    n, d = 65_536, 64
    workload = Workload(n=n, d=d, mask="causal", direction="backward")
    for share, most in ((1.5, 1.31), (1.75, 1.23), (1.95, 1.21)):
        fast_words = int(share * n * d)
        bound = single_stays(workload, fast_words, direction=BACKWARD).words
        assert workload.compulsory_words < bound <= best_plan_for(workload, fast_words).moved_words <= most * bound
        assert bound == 9 * n * d - fast_words - 8 * d * d + 4 * d
    enough = 2 * n * (d + 1) + 10 * d
    assert best_plan_for(workload, enough).moved_words == workload.compulsory_words
