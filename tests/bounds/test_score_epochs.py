from fractions import Fraction

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength
from attenio.bounds.score_epochs import score_epochs, scores_per_epoch
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)


@laws
@given(st.integers(1, 64), st.integers(0, 100), st.integers(0, 100), st.integers(0, 10_000))
def test_no_inflow_completes_more_scores_than_an_epoch_is_granted(d: int, rows: int, keys: int, held: int) -> None:
    budget = (rows + keys) * d + held
    assert rows * keys + held <= scores_per_epoch(float(budget), float(d))


@laws
@given(st.integers(64, 10**6), st.integers(1, 64), st.integers(1, 16))
def test_the_large_regime_is_scores_times_d_squared_over_fast_memory(n: int, d: int, factor: int) -> None:
    fast_words = 2 * d * d * factor
    exact = Fraction(n * n * d * d, fast_words)
    words = score_epochs(Workload(n=n, d=d), fast_words).words
    assert words <= -(-exact.numerator // exact.denominator)
    assert words >= exact * (1 - Fraction(1, 10**9))


@laws
@given(st.integers(1000, 10**6), st.integers(8, 128), st.integers(2, 8))
def test_a_small_fast_memory_costs_at_least_half_a_word_a_score(n: int, d: int, shrink: int) -> None:
    assume(2 * d * d // shrink >= 1)
    words = score_epochs(Workload(n=n, d=d), 2 * d * d // shrink).words
    assert n * n // 2 <= words <= n * n


def test_the_bound_is_absolute_and_says_where_it_is_proved() -> None:
    bound = score_epochs(Workload(n=64, d=8, mask="causal"), 256)
    assert (bound.strength, bound.page) == (Strength.ORDINARY, "docs/theory/score_epochs.md")
    assert bound.words == -(-(64 * 65 // 2) * 64 // 256)
