"""Five products: no epoch does more than the lemma says, whatever shares of its pairs are made afresh."""

from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.bounds.backward.five_products import (
    Granted,
    counted_apart,
    five_product_words,
    five_products,
    with_some_granted,
)
from attenio.bounds.recomputed_scores import counted_products
from attenio.bounds.whole_products import (
    _FIVE_LENGTHS,
    _FIVE_PRODUCTS,
    LARGEST_FAST_WORDS,
    _best_epochs,
    most_whole_products,
)
from attenio.planning import training_plan_for
from attenio.planning.training import Saved
from attenio.workload import Workload

from ..small_memories import best_whole_epochs, few_positions, moves_no_less_when_run


def most_weighed_work(d: float, dv: float, q: float, late: float, granted: float) -> float:
    """The most work over (A/3)^(3/2) and what is granted, of pairs held and pairs made afresh, early and late ones.

    How many there are, what part counts, and products of each are sought uphill; words are in no unit.
    """
    rng, p, best = np.random.default_rng(5), 2 * q * np.sqrt(1 - q * q), 0.0
    early = (counted_products(p * d, dv) - p * d) / dv
    some = np.exp(rng.normal(-0.5, 1.5, (40_000, 12)))
    for step in range(25):
        held, t, c, fresh, share, part, held_late, t_late, c_late, fresh_late, share_late, part_late = some.T
        share, share_late = np.minimum(share, 1), np.minimum(share_late, 1)
        t, c = np.minimum(t, d), np.minimum(c, dv)
        t_late, c_late = np.minimum(t_late, dv), np.minimum(c_late, 2 * d)
        used, used_late = np.minimum(part, 1) * share * dv, np.minimum(part_late, 1) * share_late * 2 * d
        work = held * (p * t + early * c) + fresh * (p * share * d + early * used)
        work += held_late * (t_late + late * c_late) + fresh_late * (share_late * dv + late * used_late)
        scores, values = held * t**2 + fresh * d**2, held * c**2 + fresh * used**2
        inner = held_late * t_late**2 + fresh_late * dv**2
        rows = np.sqrt(held_late * c_late**2 + fresh_late * used_late**2)
        entries = np.maximum(2 * np.sqrt(scores), rows)  # of Q and K; with rows²/entries of dQ and dK
        budget = held + share * fresh + held_late + share_late * fresh_late
        budget += entries + rows**2 / entries + 2 * np.sqrt(inner + values)
        more = granted * np.sqrt(budget / 3) / (4 * dv)
        ratio = work / ((budget / 3) ** 1.5 * (1 + more + more**2))
        best = max(best, float(ratio.max()))
        near = some[np.argsort(ratio)[-100:]].repeat(100, axis=0)
        some = near * np.exp(rng.normal(0, 0.6 * 0.85**step, near.shape))
    return best


@pytest.mark.parametrize(
    ("d", "dv", "q"), [(1.0, 1.0, 0.838), (1.0, 0.5, 0.8), (1.0, 1.9, 0.838), (1.0, 4.0, 0.76), (1.0, 1.0, 0.6)]
)
def test_no_epoch_does_more_weighed_work_than_the_lemma_says(d: float, dv: float, q: float) -> None:
    late = (counted_products(dv, 2 * q * d) - dv) / (2 * d)
    assert 0.95 <= most_weighed_work(d, dv, q, late, 0.0) <= 1 + 1e-12


@pytest.mark.parametrize(("d", "dv", "q"), [(1.0, 1.0, 0.85), (3.0, 3.0, 0.866), (0.2, 0.2, 0.866), (4.0, 1.0, 0.838)])
def test_no_epoch_in_which_all_products_count_does_more_than_is_granted(d: float, dv: float, q: float) -> None:
    granted = (np.sqrt(q) - np.sqrt(dv / (2 * d))) ** 2
    assert 0.93 <= most_weighed_work(d, dv, q, q, granted) <= 1 + 1e-12


@pytest.mark.parametrize("way", range(3))
def test_late_products_of_a_fresh_pair_do_no_more_than_their_share_and_what_is_granted(way: int) -> None:
    share, part = np.meshgrid(np.linspace(1e-6, 1, 1000), np.linspace(0, 1, 101))
    for d, dv in ((1.0, 1.0), (4.0, 1.0), (1.0, 1.5), (1.0, 5.0)):
        counted = list(with_some_granted(d, dv))[way]
        weight, products = (counted.late - dv) / (2 * d), part * share * 2 * d
        work = share * dv + weight * products
        assert (work <= np.sqrt(share) * (dv + weight * products) + counted.beyond * products + 1e-12).all()


def test_few_fresh_pairs_make_an_epoch_no_richer_than_is_said() -> None:
    more, pairs = np.meshgrid(np.linspace(0, 2, 201), np.linspace(0, 3, 3001))  # of an epoch of three
    work = np.sqrt(pairs) * (3 - pairs) / 2 + more / 4 * (3 - pairs) ** 2
    assert (work <= 1 + more + more**2 + 1e-12).all()


def counted_with_little_fresh(d: float, dv: float, fast_words: int) -> list[float]:
    """The products of a pair that count beside what is granted, for the longest epoch that the function takes."""

    def over(counted: Granted) -> float:
        more = counted.beyond * np.sqrt(3.15 * (fast_words + 1) / 3) / (4 * dv)
        return float((counted.early + counted.late) / (1 + more + more**2))

    return [over(counted) for counted in with_some_granted(float(d), float(dv))]


def test_it_counts_four_and_a_half_products_and_is_the_largest_up_to_twice_d_squared() -> None:
    workload, d = Workload(n=16_384, d=128, direction="backward"), 128
    for share in (0.05, 0.3, 1, 2):
        fast_words = int(share * d * d)
        words = five_products(workload, fast_words).words
        counted = max(4.5015, *(each / d for each in counted_with_little_fresh(d, d, fast_words)))
        stated = 2 * counted * workload.scores * d / (fast_words + 1) ** 0.5 - 2 * workload.scores + 0.999 * fast_words
        assert stated <= words <= stated * 1.001
        assert largest_ordinary(bounds_for(workload, fast_words)).theorem == "five-products"


@pytest.mark.parametrize(("d", "dv"), [(64, 64), (16, 256), (64, 16), (192, 128), (64, 1024)])
def test_what_products_count_is_close_to_the_best_choice(d: int, dv: int) -> None:
    workload, fast_words = Workload(n=65_536, d=d, value_dim=dv, direction="backward"), 4 * d * d
    late = np.linspace(0.5, 0.99, 2000)
    early = 2 * late * np.sqrt(1 - late**2)
    best = max(
        counted_products(p * d, float(dv)) + counted_products(float(dv), 2 * q * d)
        for p, q in zip(early.tolist(), late.tolist(), strict=True)
    )
    bound = five_products(workload, fast_words, units=1)
    counted = (bound.words + 2 * workload.scores - fast_words) * np.sqrt(fast_words) / (2 * workload.scores)
    assert best * 0.999 <= counted <= best * (1 + 1e-6)


def test_a_backward_pass_that_finds_its_probabilities_is_not_covered() -> None:
    """It would be wrong there: such a plan moves less, and steps in order do not rely on it."""
    workload, fast_words = Workload(n=2048, d=512, direction="training"), 1024
    step = training_plan_for(workload, fast_words, saved="probabilities")
    assert five_products(step.backward.workload, fast_words).words > step.backward.moved_words
    assert largest_ordinary(bounds_for(workload, fast_words)).words <= step.moved_words
    assert step.backward.reads_probabilities and not training_plan_for(workload, 10**6).backward.reads_probabilities
    assert "five-products" not in {bound.theorem for bound in step.backward.lower_bounds}
    assert "finds no probabilities saved" in five_products(step.backward.workload, fast_words).covers


@pytest.mark.parametrize(
    ("n", "d", "fast_words"), [(4096, 1024, 1024), (4096, 4096, 16), (512, 256, 64), (96, 128, 16)]
)
def test_no_second_pass_moves_less_than_its_own_bound(n: int, d: int, fast_words: int) -> None:
    """Whatever the first has saved for it."""
    workload = Workload(n=n, d=d, direction="training")
    for saved in Saved:
        if saved is not Saved.OUTPUTS:  # these stay where both passes are rings
            step = training_plan_for(workload, fast_words, saved=saved.value)
            assert step.backward.gap >= 1, saved
    assert training_plan_for(workload, fast_words).backward.gap >= 1


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 4000), st.integers(8, 64), st.integers(8, 64), st.floats(-4, 6))
def test_on_one_fast_memory_it_says_what_the_best_whole_epochs_say(n: int, d: int, dv: int, memory: float) -> None:
    fast_words, scores = max(17, round(d * dv * 2.0**memory)), n * n  # whole numbers of words are ahead up to 16
    words = five_products(Workload(n=n, d=d, value_dim=dv, direction="backward"), fast_words).words
    counted = [one + other for one, other in counted_apart(float(d), float(dv))]
    work = scores * max(*counted, *counted_with_little_fresh(d, dv, fast_words))
    several = best_whole_epochs(work, fast_words) - 2 * scores
    alone = 3 * work ** (2 / 3) - 2 * scores  # one epoch, which every run is
    assert words <= max(0, several, alone) + 1 + 1e-9 * scores
    assert words >= several * (1 - 1e-9) - 1e-9 * scores


@settings(max_examples=30, deadline=None, derandomize=True)
@given(few_positions("backward"), st.floats(-4, 4))
def test_no_plan_moves_less(workload: Workload, memory: float) -> None:
    fast_words = max(3, round((workload.d + workload.value_dim) ** 2 * 2.0**memory))
    moves_no_less_when_run(workload, fast_words, five_products(workload, fast_words).words)


def test_arrays_say_what_floats_say() -> None:
    sizes = (1.0, 4.0, 64.0, 100.0), (1.0, 64.0, 300.0), (1.0, 2.0, 3.0, 16.0, 100.0, 4096.0, 65536.0, 1e7), (1.0, 2.0)
    points = list(product((1.0, 1e3, 3e7, 1e12), *sizes))
    assert five_product_words(*np.array(points).T).tolist() == [five_product_words(*point) for point in points]


@lru_cache(maxsize=1)
def _most_of_five(words: int) -> list[int]:
    """For every budget, the most products of the five kinds: by trying all columns and all numbers of pairs."""
    most = [0] * (words + 1)
    for early, late in product(range(words), repeat=2):
        left = words - early - late
        if left < 2:
            continue
        column = [0] * (left + 1)
        for a, k in product(range(left + 1), repeat=2):
            for b, c in product(range(min(left - a - k, late) + 1), repeat=2):
                used = a + k + b + c
                if used <= left:
                    rows = min(early, a * k) + min(late, k * b) + min(late, a * c)
                    column[used] = max(column[used], rows, min(late, a * b) + min(early, a * c) if k == 0 else 0)
        done = [0] * (left + 1)
        for spent in range(1, left + 1):
            done[spent] = max(done[spent - width] + column[width] for width in range(1, spent + 1))
            most[early + late + spent] = max(most[early + late + spent], done[spent])
    return [max(most[: budget + 1]) for budget in range(words + 1)]


@pytest.mark.parametrize("fast_words", [3, 4, 5, 6])
def test_whole_epochs_of_five_products_are_the_best_ones(fast_words: int) -> None:
    most = _most_of_five(19)
    rates = {length: length / most[fast_words + length] for length in range(fast_words, 2 * fast_words + 2)}
    length = int(_FIVE_LENGTHS[fast_words])
    assert most[fast_words + length] == _FIVE_PRODUCTS[fast_words]
    assert rates[length] == max(rates.values())


def test_a_unit_of_one_epoch_moves_no_less() -> None:
    """As the proofs for whole numbers need it: its work counts for no more than the words that it moves."""
    five, lengths, most = _most_of_five(19), *_best_epochs()
    whole = most_whole_products(LARGEST_FAST_WORDS)
    for fast_words in range(1, LARGEST_FAST_WORDS + 1):
        for clock in range(fast_words):
            assert lengths[fast_words] * whole[clock] <= (clock + lengths[fast_words] - fast_words) * most[fast_words]
    for fast_words in range(1, len(_FIVE_LENGTHS)):
        length, done = _FIVE_LENGTHS[fast_words], _FIVE_PRODUCTS[fast_words]
        assert all(length * five[clock] <= (clock + length - fast_words) * done for clock in range(fast_words))


@pytest.mark.parametrize(("d", "dv", "units"), [(64, 64, 1), (64, 64, 3), (32, 96, 1), (96, 32, 2)])
def test_its_regime_names_the_formula_that_it_reaches(d: int, dv: int, units: int) -> None:
    workload = Workload(n=4096, d=d, value_dim=dv, direction="backward")
    for fast_words in (20, 500, 5000, 10**6):
        bound = five_products(workload, fast_words, units=units)
        if bound.regime.startswith("2 Z G"):
            counted = float(bound.regime.rpartition("= ")[2].replace(",", ""))
            more = -units * (fast_words + 2)
            if units == 1:
                more = fast_words - (fast_words + 1) ** 2.5 / (8 * workload.scores * counted)
            least = 2 * workload.scores * (counted / np.sqrt(fast_words + 1) - 1) + more
            assert bound.words >= least * (1 - 1e-5)
        else:
            assert "weak above" in bound.regime
