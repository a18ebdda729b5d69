"""Few words: no game sees more triangles, no random run does more in an epoch, no plan moves less."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.few_words import PRODUCTS_FOR_A_WORD, few_word_words, few_words
from attenio.bounds.fused_epochs import fused_epochs
from attenio.dataflows import execute
from attenio.planning import best_plan_for
from attenio.workload import Workload

from .random_runs import RandomRun, effective_products
from .triangle_games import Line, cost, sees_no_more, triangles

laws = settings(max_examples=26, deadline=None, derandomize=True)


@pytest.mark.parametrize("fast_words", [3, 4, 5])
def test_no_game_sees_more_triangles_for_a_word_and_one_sees_as_many(fast_words: int) -> None:
    share = PRODUCTS_FOR_A_WORD[fast_words]
    assert sees_no_more(fast_words, share)[0]
    assert not sees_no_more(fast_words, share * Fraction(99, 100))[0]


def test_no_game_in_six_words_sees_more_triangles_than_nine_tenths_of_its_cost() -> None:
    assert sees_no_more(6, PRODUCTS_FOR_A_WORD[6])[0]


@laws
@given(st.integers(0, 10**6), st.integers(3, 8), st.integers(2, 4))
def test_no_long_game_of_many_that_are_sought_uphill_sees_more(seed: int, fast_words: int, points: int) -> None:
    random = np.random.default_rng(seed)
    every = [(kind, *ends) for kind in range(3) for ends in product(range(points), repeat=2)]
    lines: frozenset[Line] = frozenset()
    seen: frozenset[tuple[int, int, int]] = frozenset()
    paid = 0
    for _ in range(60):
        gone = list(lines) if len(lines) == fast_words else [None]
        choices = [(lines - {goes} | {comes}, comes) for goes, comes in product(gone, sorted(set(every) - lines))]
        gains = np.array([len(triangles(after) - seen) for after, _ in choices])
        best = np.flatnonzero(gains == gains.max())
        lines, comes = choices[random.choice(best) if random.random() < 0.9 else random.integers(len(choices))]
        seen, paid = seen | triangles(lines), paid + cost((comes,))
        assert len(seen) <= PRODUCTS_FOR_A_WORD[fast_words] * paid


@pytest.mark.parametrize(("fast_words", "left", "right"), [(3, 1, 1), (4, 1, 2), (5, 1, 3), (7, 2, 2)])
def test_a_tile_of_sums_that_stays_sees_as_many(fast_words: int, left: int, right: int) -> None:
    assert left * right + left + 1 == fast_words
    assert PRODUCTS_FOR_A_WORD[fast_words] == Fraction(left * right, left + right)


class Watched(list):
    """Steps of a run, with the words that are in fast memory after each."""

    def __init__(self, run: RandomRun) -> None:
        self.run, self.fast = run, []

    def append(self, step) -> None:
        super().append(step)
        self.fast.append({*map(id, self.run.fast), id(step[1])})


def clock_of(run: RandomRun, steps: Watched) -> tuple[list[int], list[int]]:
    """The clock after every step, and the steps of effective products, those of scores for the column 0."""
    found, never = effective_products(run), len(steps)
    sums = []
    for chain in found.chains.values():
        ends = [*(step for step, _ in chain[1:]), never]
        sums.append(([(at, then, word) for (at, word), then in zip(chain, ends, strict=True)], never))
    sums += [pair for pair, ((_, _, c), _) in zip(found.carriers, found.outputs, strict=True) if c == 0]
    made = [step for _, step in found.outputs] + [step for (_, _, c), step in found.scores if c == 0]
    clock = np.cumsum([done != "make" for done, _ in steps])
    for carriers, consumed in sums:
        frozen = 0
        for now in range(never):
            if now < consumed:
                words = [word for at, then, word in carriers if at <= now < then]
                held = [word for word in words if id(word) in steps.fast[now]]
                dirty = any(not any(at <= now for at in word.slow) for word in words)
                frozen = dirty + len(words) - len(held) + bool(held)
            clock[now] += frozen
    return clock.tolist(), made


@laws
@given(st.integers(0, 10**6), st.integers(3, 8), st.floats(0.0, 1.0))
def test_no_random_run_does_more_for_its_clock(seed: int, fast_words: int, keep: float) -> None:
    random = np.random.default_rng(seed)
    n, m, dv = (int(random.integers(1, 4)) for _ in range(3))
    d = fast_words + 3 + int(random.integers(0, 3))
    run = RandomRun(n=n, m=m, d=d, dv=dv, fast_words=fast_words, random=random, keep=keep)
    run.steps = steps = Watched(run)
    clock, made = clock_of(run.play(), steps)
    moved = sum(done != "make" for done, _ in steps)
    assert all(now <= then for now, then in zip([0, *clock], clock, strict=False))
    assert clock[-1] <= moved + n * dv + 2 * n * m
    assert len(made) == n * m * (d + dv)
    assert len(made) <= PRODUCTS_FOR_A_WORD[fast_words] * (clock[-1] + n * m)
    (bound,) = few_words(Workload(queries=n, keys=m, d=d, value_dim=dv), fast_words)
    assert bound.words <= moved


@laws
@given(st.data(), st.sampled_from(["dense", "causal", "window:3"]), st.integers(3, 8))
def test_no_plan_moves_less(data: st.DataObject, mask: str, fast_words: int) -> None:
    d, dv = (data.draw(st.integers(1, 24)) for _ in range(2))
    workload = Workload(n=data.draw(st.integers(3, 12)), d=d, value_dim=dv, mask=mask)
    (bound,) = few_words(workload, fast_words)
    assert bound.words <= execute(best_plan_for(workload, fast_words)).moved_words


def test_it_is_ahead_in_up_to_eight_words_and_silent_in_nine_and_for_narrow_rows() -> None:
    for d, dv in ((16, 16), (64, 64), (64, 16), (16, 256)):
        workload = Workload(n=1024, d=d, value_dim=dv)
        for fast_words in PRODUCTS_FOR_A_WORD:
            (bound,) = few_words(workload, fast_words)
            assert bound.words > fused_epochs(workload, fast_words).words
        assert "few-words" not in {bound.theorem for bound in bounds_for(workload, 9)}
    assert few_words(Workload(n=1024, d=9), 7)[0].words == 0


def test_arrays_say_what_floats_say() -> None:
    sizes = (1.0, 6.0, 9.0, 16.0, 130.0), (8.0, 64.0), (1.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0)
    points = list(product((1e3, 1e8), (1.0, 50.0), *sizes))
    assert few_word_words(*np.array(points).T).tolist() == [few_word_words(*point) for point in points]
