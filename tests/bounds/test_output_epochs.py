from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.output_epochs import output_epochs, output_products_per_epoch, turning_budget
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)
widths = st.integers(1, 256)
shares = st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5)


@laws
@given(widths, widths, st.floats(1.0, 1e9), shares)
def test_no_split_of_an_epoch_does_more_products_than_it_is_granted(
    d: int, dv: int, budget: float, parts: list[float]
) -> None:
    total = sum(parts) or 1.0
    queries, keys, values, outputs, held = (budget * part / total for part in parts)
    pairs = held + queries * keys / d**2
    products = min(np.sqrt(pairs * values * outputs), pairs * dv)
    assert products <= output_products_per_epoch(budget, float(d), float(dv)) * (1 + 1e-9)


@laws
@given(widths, widths, st.floats(1.0, 1e9))
def test_what_an_epoch_is_granted_can_be_reached(d: int, dv: int, budget: float) -> None:
    narrow = min(d, dv)
    rows = budget / (4 * d) if dv >= d else budget / (2 * (d + dv))
    fresh = rows * rows * narrow
    assert 2 * rows * d + 2 * rows * narrow <= budget * (1 + 1e-9)
    root = np.sqrt(budget / 3) if budget <= 3 * dv * dv else np.sqrt(dv * dv + budget) - dv
    held = min((budget - root * root) / 2 * root, root * root * dv)
    granted = output_products_per_epoch(budget, float(d), float(dv))
    np.testing.assert_allclose(granted, max(fresh, held), rtol=1e-9)


@laws
@given(widths, widths, st.floats(1.0, 1e8), st.floats(1.0, 1e8))
def test_work_per_word_grows_with_the_epoch(d: int, dv: int, one: float, other: float) -> None:
    # The step from one epoch to the whole run needs W(A)/A to increase.
    small, large = sorted((one, other))
    by_word = [float(output_products_per_epoch(a, float(d), float(dv))) / a for a in (small, large)]
    assert by_word[0] <= by_word[1] * (1 + 1e-9)


@laws
@given(st.integers(1, 10**6), widths, widths, st.integers(1, 100))
def test_a_large_fast_memory_gives_the_leading_term_of_the_best_schedule(n: int, d: int, dv: int, factor: int) -> None:
    fast_words = int(turning_budget(float(d), float(dv))) * factor
    narrow = min(d, dv)
    exact = Fraction(n * n * dv * (d + narrow) ** 2, narrow * fast_words)
    words = output_epochs(Workload(n=n, d=d, value_dim=dv), fast_words).words
    assert words <= -(-exact.numerator // exact.denominator)
    assert words >= exact * (1 - Fraction(1, 10**9))


@laws
@given(st.integers(10**4, 10**6), st.integers(2, 256), st.floats(0.0, 1.0))
def test_a_small_fast_memory_gives_the_bound_of_one_product(n: int, d: int, share: float) -> None:
    fast_words = max(1, int(share * d * d))
    words = output_epochs(Workload(n=n, d=d), fast_words).words
    assert words >= (2 * n * n * d / fast_words**0.5) * (1 - 1e-9) - fast_words


@laws
@given(st.integers(10**4, 10**6), st.integers(1, 128), st.integers(4, 64))
def test_doubling_a_large_fast_memory_halves_the_bound(n: int, d: int, factor: int) -> None:
    workload = Workload(n=n, d=d)
    words = [output_epochs(workload, factor * d * d * twice).words for twice in (1, 2)]
    assert abs(words[0] - 2 * words[1]) <= 2 + 1e-9 * words[0]


@laws
@given(st.integers(1, 10**5), widths, widths, st.floats(-6.0, 8.0), st.integers(1, 200))
def test_its_regime_names_a_formula_only_where_the_formula_holds(
    n: int, d: int, dv: int, power: float, units: int
) -> None:
    fast_words = max(1, int(d * dv * 2.0**power))
    bound = output_epochs(Workload(n=n, d=d, value_dim=dv), fast_words, units=units)
    narrow = min(d, dv)
    if bound.regime.startswith("large"):
        assert bound.words >= n * n * dv * (d + narrow) ** 2 / (narrow * fast_words) * (1 - 1e-9)
    elif "√M" in bound.regime:
        assert bound.regime.endswith(f"- {units} M" if units > 1 else "- M")
        assert bound.words >= 2 * n * n * dv / fast_words**0.5 * (1 - 1e-9) - units * fast_words
        assert fast_words <= dv * dv


def test_wide_values_leave_the_small_regime_where_fresh_scores_do_more() -> None:
    """With d = 4 and dv = 64 the formula for small memories would overstate the bound at M = 64, well below dv²."""
    d, dv, n, fast_words = 4, 64, 10**5, 64
    bound = output_epochs(Workload(n=n, d=d, value_dim=dv), fast_words)
    assert bound.words < 2 * n * n * dv / fast_words**0.5 - fast_words
    assert bound.regime == "between small and large fast memory: the best epoch"
