from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.epochs import (
    best_over_epochs,
    product_epochs,
    product_epochs_from_empty,
    products_per_epoch,
    whole_words,
)

laws = settings(max_examples=26, deadline=None, derandomize=True)
counts = st.integers(1, 2**60)


@laws
@given(counts, counts, st.integers(0, 2**40))
def test_rounding_never_adds_a_word_to_a_bound(numerator: int, denominator: int, subtracted: int) -> None:
    exact = Fraction(numerator, denominator) - subtracted
    words = float(whole_words(numerator / denominator, float(subtracted)))
    assert words == int(words) >= 0
    assert words <= max(0, -(-exact.numerator // exact.denominator))


@laws
@given(st.integers(1, 10**11))
def test_a_whole_bound_is_not_rounded_away(exact: int) -> None:
    # Below 1e12 the safety margin is less than a word, so an exact integer survives it.
    assert whole_words(float(exact)) == exact


@laws
@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3), st.floats(1.0, 1e9))
def test_no_split_of_an_epoch_between_two_factors_and_a_result_does_more_products(
    shares: list[float], budget: float
) -> None:
    total = sum(shares) or 1.0
    first, second, result = (budget * share / total for share in shares)
    assert np.sqrt(first * second * result) <= products_per_epoch(budget) * (1 + 1e-9)


@laws
@given(st.integers(1, 10**6), st.integers(1, 2**20), st.integers(1, 64))
def test_more_units_never_raise_a_bound(products: int, fast_words: int, units: int) -> None:
    alone = product_epochs(float(products) ** 2, float(fast_words))
    together = product_epochs(float(products) ** 2, float(fast_words), float(units))
    assert together <= alone


@laws
@given(st.integers(1, 10**12), st.integers(1, 2**20))
def test_an_epoch_as_long_as_fast_memory_subtracts_nothing(work: int, fast_words: int) -> None:
    memory = float(fast_words)
    words = best_over_epochs((memory,), lambda length: length * work, memory, units=7.0)
    assert words == whole_words(memory * work)


@laws
@given(st.integers(1, 40), st.floats(0, 20), st.sampled_from([0.1, 0.5, 1.0]), st.integers(0, 10**6))
def test_no_clock_that_lets_every_epoch_do_its_most_ends_before_whole_epochs_say(
    fast_words: int, beyond: float, share: float, seed: int
) -> None:
    """Work is done as soon as no epoch, wherever it begins, has more than its words allow."""
    steps = np.random.default_rng(seed).random(300)
    clock = np.cumsum(np.where(steps < share, np.random.default_rng(seed + 1).random(300), 1.0))
    done = np.zeros(301)  # before each step
    for step, now in enumerate(clock):
        first = products_per_epoch(now + beyond)
        begun = np.concatenate(([0.0], clock[:step]))[1:]  # an epoch that begins later has what fast memory holds
        later = done[1 : step + 1] + products_per_epoch(fast_words + now - begun + beyond)
        done[step + 1] = max(done[step], min(first, later.min(initial=np.inf)))
        words = product_epochs_from_empty(float(done[step + 1]), float(fast_words), beyond=beyond)
        assert words <= np.ceil(now)


def test_whole_epochs_of_products_add_a_fast_memory_to_their_leading_term() -> None:
    for fast_words in (10.0, 300.0, 5000.0):
        for epochs in (3.3, 17.5, 400.0):
            room = fast_words + 1
            work = epochs * room**1.5
            words = float(product_epochs_from_empty(work, fast_words))
            stated = 2 * work / np.sqrt(room) + fast_words
            assert stated - room / (8 * epochs) <= words <= 2 * work / np.sqrt(fast_words) + fast_words + 1
            if epochs >= 3:  # epochs of 3M words or so
                assert words >= 2 * work / np.sqrt(fast_words + 1 / (4 * fast_words)) + fast_words - room / (8 * epochs)
            assert product_epochs_from_empty(work, fast_words, longest=2 * fast_words) == 0
            assert product_epochs_from_empty(work, fast_words, free=7.0) == words - 7
