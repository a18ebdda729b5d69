"""Recomputed scores: the lemmas of the proof on random runs that recompute, and the bound beside its neighbours."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.fused_epochs import fused_epochs
from attenio.bounds.one_shot import one_shot
from attenio.bounds.recomputed_scores import counted_products, recomputed_score_words, recomputed_scores
from attenio.workload import Workload

from .random_runs import Effective, RandomRun, effective_products
from .small_memories import best_whole_epochs, few_positions, moves_no_less_when_run

laws = settings(max_examples=26, deadline=None, derandomize=True)


@pytest.mark.parametrize("seed", range(40))
def test_no_epoch_of_a_random_run_has_more_words_or_does_more_than_the_lemmas_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m, d, dv, fast_words = (int(random.integers(low, high)) for low, high in [(1, 5)] * 2 + [(1, 4)] * 2 + [(5, 24)])
    run = RandomRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.3, 0.9]))).play()
    found = effective_products(run)
    assert (len(found.outputs), len(found.scores)) == (n * m * dv, n * m * dv * d)
    clock = _clock(run, found)
    steps = np.diff(clock)
    assert steps.min() >= -1e-9
    assert steps.max() <= 1 + 1e-9
    moved = sum(done != "make" for done, _ in run.steps)
    assert moved <= clock[-1] <= moved + n * m + 1e-9
    assert recomputed_score_words(*map(float, (n * m, d, dv, fast_words))) <= moved
    for _ in range(20):
        start, end = sorted(int(step) for step in random.integers(0, len(run.steps) + 1, 2))
        budget = (fast_words if start else 0) + clock[end] - clock[start]
        _check_epoch(run, found, start, end, budget)


def _clock(run: RandomRun, found: Effective) -> np.ndarray:
    """Words moved, outputs that are dirty, and shares of pairs that are dirty or were so when they were consumed."""
    length = len(run.steps)
    clock = np.cumsum([0] + [done != "make" for done, _ in run.steps]).astype(float)
    for chain in found.chains.values():  # of an output: its words in the order in which they were made
        ends = [made for made, _ in chain[1:]] + [length]
        for (made, word), end in zip(chain, ends, strict=True):
            clean = min([step for step in word.slow if step < end], default=end)
            clock[made + 1 : clean + 1] += 1
    for carriers, consumed in found.carriers:  # of (i, j, c): words that its score products are in, from and until
        dirty = np.zeros(length + 1, dtype=bool)
        for made, end, word in carriers:
            dirty[made + 1 : min([step for step in word.slow if step < end], default=end) + 1] = True
        dirty[consumed + 1 :] = dirty[consumed]
        clock += dirty / run.dv
    return clock


def _check_epoch(run: RandomRun, found: Effective, start: int, end: int, budget: float) -> None:
    entries, held = run.flowing_in(start, end)
    outputs = [(i, c) for (i, _, c), step in found.outputs if start <= step < end]
    columns: dict[tuple[int, int], set[int]] = {}
    products = 0.0
    for (i, j, c), step in found.scores:
        if start <= step < end:
            columns.setdefault((i, j), set()).add(c)
            products += 1 / run.dv
    charged = len(held) + sum(len(each) / run.dv for pair, each in columns.items() if pair not in held)
    assert len(entries) + charged + len(set(outputs)) <= budget + 1e-9
    queries, keys, values = (sum(name[0] == kind for name in entries) for kind in "qkv")
    sides = np.sqrt(queries * keys) + np.sqrt(values * len(set(outputs)))
    weight = (counted_products(float(run.d), float(run.dv)) - run.d) / run.dv
    assert products + weight * len(outputs) <= np.sqrt(charged) * sides + 1e-9


@laws
@given(st.integers(1, 10**5), st.integers(1, 256), st.integers(1, 256), st.integers(1, 2**20))
def test_it_lies_between_its_statement_and_what_holds_without_recomputation(
    n: int, d: int, dv: int, fast_words: int
) -> None:
    workload = Workload(n=n, d=d, value_dim=dv)
    words, scores = recomputed_scores(workload, fast_words).words, n * n
    counted = d + dv if dv <= d else 2 * np.sqrt(d * dv)
    assert words >= 2 * scores * counted / np.sqrt(fast_words + 1) * (1 - 1e-9) - scores - fast_words - 3
    assert recomputed_scores(workload, fast_words, units=2).words <= words
    # One shot has no whole epochs.
    assert words <= one_shot(workload, fast_words).words + 2 * fast_words + 1


@laws
@given(st.integers(1, 4000), st.integers(1, 64), st.integers(1, 64), st.floats(-8, 6))
def test_on_one_fast_memory_it_says_what_the_best_whole_epochs_say(n: int, d: int, dv: int, memory: float) -> None:
    fast_words, scores = max(3, round(d * dv * 2.0**memory)), n * n
    words = recomputed_scores(Workload(n=n, d=d, value_dim=dv), fast_words).words
    work, room = scores * counted_products(float(d), float(dv)), fast_words + 1
    epochs = work / room**1.5
    several = best_whole_epochs(work, fast_words) - scores
    alone = 3 * work ** (2 / 3) - scores  # one epoch, which every run is
    assert words <= max(0, several, alone) + 1 + 1e-9 * scores
    assert words >= several * (1 - 1e-9) - 1e-9 * scores
    if epochs >= 1:
        stated = 2 * work / np.sqrt(room) + fast_words - scores - room / (8 * epochs)
        assert words >= stated - 1e-9 * work
    if epochs >= 5:
        apart = recomputed_scores(Workload(n=n, d=d, value_dim=dv), fast_words, units=2).words
        assert not apart or words >= apart + 1.9 * fast_words


@laws
@given(few_positions("forward"), st.floats(-4, 4))
def test_no_plan_moves_less(workload: Workload, memory: float) -> None:
    fast_words = max(3, round((workload.d + workload.value_dim) ** 2 * 2.0**memory))
    moves_no_less_when_run(workload, fast_words, recomputed_scores(workload, fast_words).words)


def test_arrays_say_what_floats_say() -> None:
    sizes = (1.0, 4.0, 64.0, 100.0), (1.0, 64.0, 300.0), (1.0, 2.0, 3.0, 100.0, 4096.0, 65536.0, 1e7), (1.0, 2.0)
    points = list(product((1.0, 1e3, 3e7, 1e12), *sizes))
    assert recomputed_score_words(*np.array(points).T).tolist() == [recomputed_score_words(*point) for point in points]


@laws
@given(st.floats(1, 1e3), st.floats(1, 1e3))
def test_the_products_that_count_are_the_least_over_all_shares(making: float, using: float) -> None:
    shares = np.linspace(1e-3, 1, 4001)
    least = float(np.min(making / shares + using * shares))
    assert counted_products(making, using) == pytest.approx(least, rel=1e-4)
    assert counted_products(making, using) <= least * (1 + 1e-12)


def test_for_equal_widths_it_is_ahead_of_fused_epochs_from_d_squared_on() -> None:
    workload = Workload(n=16_384, d=128)
    for share in (1, 1.4, 2):
        fast_words = int(share * 128**2)
        assert recomputed_scores(workload, fast_words).words > 1.04 * fused_epochs(workload, fast_words).words
