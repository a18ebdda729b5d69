"""Row sums: the lemmas of the proof on random runs and random epochs, and no plan below the bound."""

from fractions import Fraction
from math import ceil, floor, isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.row_sums import (
    budget_for,
    on_average_with_held_pairs,
    row_sum_words,
    row_sums,
    weights,
    work_on_average,
    work_per_epoch,
)
from attenio.bounds.whole_epochs import whole_epochs
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

from .random_runs import RandomRun, Word, effective_products

laws = settings(max_examples=26, deadline=None, derandomize=True)


@pytest.mark.parametrize("seed", range(40))
def test_no_epoch_of_a_random_run_has_more_words_or_does_more_than_the_lemmas_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m, d, dv, fast_words = (int(random.integers(low, high)) for low, high in [(1, 5)] * 2 + [(1, 4)] * 2 + [(6, 30)])
    keep = float(random.choice([0.0, 0.3, 0.9]))
    run = RandomRun(n, m, d, dv, fast_words, random, keep=keep, sums=True).play()
    outputs = effective_products(run)
    sums = _sums(run)
    terms = [(i, j, step) for i, chain in sums.items() for step, word in chain for j in _new_keys(word)]
    assert len(terms) == (n * m if m > 1 else 0)
    clock = _clock(run, [*outputs.chains.values()], [*sums.values()])
    assert set(np.diff(clock)) <= {0, 1}
    moved = sum(done != "make" for done, _ in run.steps)
    assert moved <= clock[-1] <= moved + n
    product, term = (float(weight) for weight in weights(float(d), float(dv)))
    for _ in range(20):
        start, end = sorted(int(step) for step in random.integers(0, len(run.steps) + 1, 2))
        budget = (fast_words if start else 0) + clock[end] - clock[start]
        entries, held = run.flowing_in(start, end)
        products = [(i, c) for (i, _, c), step in outputs.outputs if start <= step < end]
        added = [i for i, _, step in terms if start <= step < end]
        assert len(entries) + len(held) + len(set(products)) + len(set(added)) <= budget
        if budget:
            granted = float(work_per_epoch(float(budget), float(d), float(dv)))
            assert product * len(products) + term * len(added) <= granted * (1 + 1e-9)


def _sums(run: RandomRun) -> dict[int, list[tuple[int, Word]]]:
    """The words of every row's sum, and when they were made."""
    found: dict[int, list[tuple[int, Word]]] = {}
    for step, (done, word) in enumerate(run.steps):
        if done == "make" and word.name[0] == "l":
            found.setdefault(word.name[1], []).append((step, word))
    return found


def _new_keys(word: Word) -> list[int]:
    return [parent.name[2] for parent in word.parents if parent.name[0] == "s"]


def _clock(
    run: RandomRun, outputs: list[list[tuple[int, Word]]], sums: list[list[tuple[int, Word]]]
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Words moved, and outputs and sums whose last word has no copy in slow memory."""
    clock = np.cumsum([0] + [done != "make" for done, _ in run.steps])
    for chain in outputs + sums:
        ends = [made for made, _ in chain[1:]] + [len(run.steps)]
        for (made, word), end in zip(chain, ends, strict=True):
            clean = min([step for step in word.slow if step < end], default=end)
            clock[made + 1 : clean + 1] += 1
    return clock


@laws
@given(st.integers(1, 300), st.integers(1, 300))
def test_a_fresh_pair_weighs_at_most_the_words_of_its_row_times_those_of_its_key(d: int, dv: int) -> None:
    narrow = min(d, dv)
    for products in range(dv + 1):
        for term in (0, 1):
            # times the narrower width, to stay in integers
            weight = (d + narrow) ** 2 * products + narrow * (d + narrow) * term
            assert weight <= narrow * (d + products + term) * (d + products)


@laws
@given(
    st.integers(1, 256),
    st.integers(1, 256),
    st.floats(1.0, 1e9),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(1, 9),
)
def test_no_split_between_fresh_and_held_pairs_does_more_and_work_per_word_grows(
    d: int, dv: int, budget: float, held: float, share: float, longer: float
) -> None:
    product, term = weights(float(d), float(dv))
    pairs = held * budget
    area = (budget - pairs) ** 2 / 4
    of_held = share * area
    work = area - of_held + product * min((pairs * of_held) ** 0.5, dv * pairs) + term * pairs
    granted = work_per_epoch(budget, float(d), float(dv))
    assert work <= granted * (1 + 1e-9)
    assert granted * longer <= work_per_epoch(budget * longer, float(d), float(dv)) * (1 + 1e-9)


@laws
@given(st.integers(1, 3000), st.integers(1, 40), st.integers(1, 60), st.floats(0.01, 2))
def test_the_epochs_it_names_are_too_few(n: int, d: int, dv: int, share: float) -> None:
    """The words are M + k T less the rows for some k and T with which k epochs do not do all the work."""
    fast_words = max(3, int(share * n * d))
    words = float(row_sum_words(float(n * n), float(n), float(d), float(dv), float(fast_words)))
    if not words:
        return
    product, term = weights(float(d), float(dv))
    work = n * n * dv * product + (n * n - n) * term
    found = False
    for tried in (2, 2.05, 2.1, 2.2, 2.35, 2.5, 2.65, 2.8):
        about = max(floor(work / work_on_average(tried * float(fast_words), float(d), float(dv))), 1)
        for epochs in (about, about + 1):
            length, rest = divmod(int(words) + n - fast_words, epochs)
            done = work_on_average(float(fast_words + length), float(d), float(dv))
            found |= rest == 0 and length >= 1 and epochs * done < work
    assert found


@laws
@given(st.integers(1, 200), st.integers(1, 200), st.floats(1.0, 1e12), st.floats(1.0, 20.0))
def test_an_epoch_with_the_words_that_so_much_work_needs_does_no_more(
    d: int, dv: int, work: float, times: float
) -> None:
    words = float(budget_for(work, float(d), float(dv), times))
    done = max(words**2 / 4, times * float(on_average_with_held_pairs(words, float(d), float(dv))))
    assert done <= work * (1 + 1e-9)
    if words > 3 * dv**2:
        assert done >= work * (1 - 1e-8)


def test_it_is_ahead_from_two_and_eight_tenths_of_a_square_on() -> None:
    """Where held pairs may be what a single epoch does most with, which it may do from about 5d² on only."""
    for d in (16, 64, 128):
        workload = Workload(n=1024 * d, d=d)
        for tenths in (28, 34, 40):
            fast_words = tenths * d * d // 10
            leading = 2 * d * (2 * d + 1) * workload.scores / fast_words
            assert row_sums(workload, fast_words).words > 0.998 * leading
            assert whole_epochs(workload, fast_words).words < 0.9965 * leading


@pytest.mark.parametrize(
    ("n", "m", "d", "dv", "fast_words"),
    [(19944073, 833627734, 64, 238, 98845), (568724419, 115604304, 395, 395, 1102399), (2896, 2896, 16, 16, 2048)],
)
def test_rounding_adds_no_word_where_words_are_not_exact_in_floating_point(
    n: int, m: int, d: int, dv: int, fast_words: int
) -> None:
    narrow = min(d, dv)
    both = d + narrow
    work = Fraction(n * m * dv * both**2, narrow) + (n * m - n) * both
    exact = 0
    for epochs in range(floor(work / fast_words**2) - 1, floor(work / fast_words**2) + 4):
        length = isqrt(ceil(4 * work / epochs) - 1) - fast_words
        exact = max(exact, fast_words + epochs * length - n)
    assert 0.999 * exact < row_sum_words(n * m * 1.0, n * 1.0, d * 1.0, dv * 1.0, fast_words * 1.0) <= exact


@laws
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 9), st.integers(3, 900))
def test_no_plan_moves_less(n: int, d: int, dv: int, fast_words: int) -> None:
    for mask in ("dense", "causal", f"window:{max(1, n // 3)}"):
        workload = Workload(n=n, d=d, value_dim=dv, mask=mask)
        try:
            assert row_sums(workload, fast_words).words <= best_plan_for(workload, fast_words).moved_words
        except DoesNotFit:
            continue


@laws
@given(st.integers(256, 20_000), st.integers(4, 128), st.floats(5.5, 40))
def test_it_adds_a_word_to_the_row_for_equal_widths(n: int, d: int, squares: float) -> None:
    fast_words = ceil(squares * d * d)
    if fast_words > n * d / 8:
        return
    leading = 2 * d * (2 * d + 1) * n * n / fast_words
    words = row_sums(Workload(n=n, d=d), fast_words).words
    epochs = 4 * n * n * d * d / fast_words**2
    assert leading + 0.8 * fast_words - n - 2 * epochs - 2 <= words <= leading + fast_words
    assert words >= whole_epochs(Workload(n=n, d=d), fast_words).words


@laws
@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 64), st.integers(1, 64), st.floats(1, 1.5))
def test_where_rows_fit_with_one_word_beside_query_and_output_inputs_and_outputs_are_enough(
    n: int, m: int, d: int, dv: int, larger: float
) -> None:
    fast_words = int(larger * n * (d + dv + 1)) + d + 2  # a key's entries and a score beside the rows
    for keys in (m, n * (d + dv + 1) // (d + dv)):  # of the latter the bound is sharp
        workload = Workload(queries=n, keys=keys, d=d, value_dim=dv)
        assert row_sums(workload, fast_words).words <= workload.compulsory_words


@pytest.mark.parametrize("direction", ["forward", "training"])
def test_whatever_rests_on_the_sums_of_rows_says_so_with_what_it_covers(direction: str) -> None:
    bounds = bounds_for(Workload(n=4096, d=16, direction=direction), 8192)
    resting = [each for each in bounds if each.theorem == "row-sums" or "row-sums" in each.regime]
    assert len(resting) == (2 if direction == "training" else 1)
    for each in resting:
        assert "each row's sum from its own probabilities" in each.covers
        assert any("divided by is a sum of its row's probabilities" in assumed for assumed in each.assumptions)


def test_rows_of_one_key_have_no_sum_and_several_units_have_no_such_bound() -> None:
    assert (
        row_sums(Workload(queries=4096, keys=1, d=8), 1024).words
        <= whole_epochs(Workload(queries=4096, keys=1, d=8), 1024).words
    )
    names = [bound.theorem for bound in bounds_for(Workload(n=512, d=8), 1024, units=2)]
    assert "row-sums" not in names
