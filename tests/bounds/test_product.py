from decimal import Decimal, getcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import product_words, rank_one_product_words, tall_skinny_product_words
from attenio.errors import InvalidInput

laws = settings(max_examples=26, deadline=None, derandomize=True)
sides = st.integers(1, 10**6)


@laws
@given(sides, sides, sides, st.integers(3, 2**40))
def test_no_product_schedule_beats_the_bound(m: int, n: int, k: int, fast_words: int) -> None:
    bound = product_words(m, n, k, fast_words=fast_words)
    assert bound <= rank_one_product_words(m, n, k, fast_words=fast_words)
    if fast_words >= 2 * k + 1:
        assert bound <= tall_skinny_product_words(m, n, k, fast_words=fast_words)


@laws
@given(sides, sides, sides, st.integers(1, 2**40))
def test_the_number_is_the_theorem_rounded_to_a_word(m: int, n: int, k: int, fast_words: int) -> None:
    getcontext().prec = 60
    exact = 2 * m * n * k / Decimal(fast_words).sqrt() - fast_words
    words = product_words(m, n, k, fast_words=fast_words)
    shorter = Decimal(m * n * k) / (Decimal(2) / 3 * fast_words * (Decimal(2) / 3 * fast_words).sqrt()) * fast_words
    assert words <= max(0, exact, shorter) + 1
    assert words >= exact - exact.copy_abs() * Decimal("1e-9")


def test_adding_the_size_of_the_result_would_not_be_a_bound() -> None:
    n, d = 1_000_000, 64
    fast_words = 100 * d * d
    rows = (fast_words - d) // (d + 1)
    moved = n * d + -(-n // rows) * n * d + n * n
    assert rows * d + d + rows <= fast_words
    assert moved < 2 * n * n * d / fast_words**0.5 + n * n


def test_a_side_of_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match="k is 0; it must be at least 1"):
        product_words(8, 8, 0, fast_words=8)
