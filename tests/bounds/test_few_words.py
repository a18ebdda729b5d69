"""Few words: no game sees more triangles, no random run does more in an epoch, no plan moves less."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.few_words import few_word_words, few_words, most_triangles
from attenio.bounds.fused_epochs import fused_epochs
from attenio.dataflows import execute
from attenio.planning import best_plan_for
from attenio.workload import Workload

from .random_runs import RandomRun, effective_products

laws = settings(max_examples=26, deadline=None, derandomize=True)
Line = tuple[int, int, int]  # its kind, which is that of the point that it lacks, and the points at its ends


def triangles(lines: frozenset[Line]) -> frozenset[tuple[int, int, int]]:
    """Those whose sides are all there: points of kinds 0, 1 and 2."""
    return frozenset(
        (a, b, c)
        for (kind, a, b) in lines
        if kind == 2
        for (other, a2, c) in lines
        if other == 1 and a2 == a and (0, b, c) in lines
    )


@pytest.mark.parametrize(("fast_words", "moves"), [(3, 5), (4, 4)])
def test_no_game_on_two_points_of_each_kind_sees_more_triangles(fast_words: int, moves: int) -> None:
    every = [(kind, *ends) for kind in range(3) for ends in product(range(2), repeat=2)]
    states = {(frozenset(some), triangles(frozenset(some))) for some in combinations(every, fast_words)}
    reached = [max(len(seen) for _, seen in states)]
    for _ in range(moves):
        following = set()
        for lines, seen in states:
            for goes, comes in product(lines, set(every) - lines):
                after = lines - {goes} | {comes}
                following.add((after, seen | triangles(after)))
        states = following
        reached.append(max(len(seen) for _, seen in states))
    most = [most_triangles(float(done), float(fast_words)) for done in range(moves + 1)]
    assert all(seen <= granted for seen, granted in zip(reached, most, strict=True))
    assert reached[3:] == most[3:]


@laws
@given(st.integers(0, 10**6), st.sampled_from([3, 4]), st.integers(2, 4))
def test_no_long_game_of_many_that_are_sought_uphill_sees_more(seed: int, fast_words: int, points: int) -> None:
    random = np.random.default_rng(seed)
    every = [(kind, *ends) for kind in range(3) for ends in product(range(points), repeat=2)]
    for _ in range(3):
        lines = frozenset(every[place] for place in random.choice(len(every), fast_words, replace=False))
        seen = triangles(lines)
        for done in range(1, 25):
            choices = [lines - {goes} | {comes} for goes, comes in product(lines, set(every) - lines)]
            gains = [len(triangles(after) - seen) for after in choices]
            best = np.flatnonzero(np.array(gains) == max(gains))
            lines = choices[random.choice(best) if random.random() < 0.9 else random.integers(len(choices))]
            seen |= triangles(lines)
            assert len(seen) <= most_triangles(float(done), float(fast_words))


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
@given(st.integers(0, 10**6), st.sampled_from([3, 4]), st.integers(7, 11), st.floats(0.0, 1.0))
def test_no_epoch_of_a_random_run_does_more(seed: int, fast_words: int, d: int, keep: float) -> None:
    random = np.random.default_rng(seed)
    n, m, dv = (int(random.integers(1, 4)) for _ in range(3))
    run = RandomRun(n=n, m=m, d=d, dv=dv, fast_words=fast_words, random=random, keep=keep)
    run.steps = steps = Watched(run)
    clock, made = clock_of(run.play(), steps)
    moved = sum(done != "make" for done, _ in steps)
    assert all(now <= then for now, then in zip([0, *clock], clock, strict=False))
    assert clock[-1] <= moved + n * dv + 2 * n * m
    assert len(made) == n * m * (d + dv)
    work = np.cumsum(np.bincount(made, minlength=len(steps)))
    for start, first in enumerate(clock):
        for end in range(start + 1, len(steps)):
            ticks = clock[end] - first
            if fast_words + ticks >= 2 * d:
                break
            assert work[end] - work[start] <= most_triangles(float(ticks), float(fast_words))
    (bound,) = few_words(Workload(queries=n, keys=m, d=d, value_dim=dv), fast_words)
    assert bound.words <= moved


@laws
@given(st.data(), st.sampled_from(["dense", "causal", "window:3"]), st.sampled_from([3, 4]))
def test_no_plan_moves_less(data: st.DataObject, mask: str, fast_words: int) -> None:
    d, dv = (data.draw(st.integers(1, 24)) for _ in range(2))
    workload = Workload(n=data.draw(st.integers(3, 12)), d=d, value_dim=dv, mask=mask)
    (bound,) = few_words(workload, fast_words)
    assert bound.words <= execute(best_plan_for(workload, fast_words)).moved_words


def test_it_is_ahead_in_three_and_four_words_and_silent_in_five() -> None:
    for d, dv in ((16, 16), (64, 64), (64, 16), (16, 256)):
        workload = Workload(n=1024, d=d, value_dim=dv)
        for fast_words in (3, 4):
            (bound,) = few_words(workload, fast_words)
            assert bound.words > fused_epochs(workload, fast_words).words
        assert "few-words" not in {bound.theorem for bound in bounds_for(workload, 5)}


def test_arrays_say_what_floats_say() -> None:
    points = list(product((1e3, 1e8), (1.0, 50.0), (1.0, 3.0, 4.0, 16.0, 130.0), (8.0, 64.0), (2.0, 3.0, 4.0, 5.0)))
    assert few_word_words(*np.array(points).T).tolist() == [few_word_words(*point) for point in points]
