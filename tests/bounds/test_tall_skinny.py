import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import tall_skinny_product_words
from attenio.errors import DoesNotFit

laws = settings(max_examples=26, deadline=None, derandomize=True)


@laws
@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 64), st.integers(3, 10**5), st.integers(1, 50))
def test_no_whole_tile_of_the_family_moves_less(m: int, n: int, k: int, fast_words: int, columns: int) -> None:
    assume(fast_words >= 2 * k + 1)
    rows = min(m, (fast_words - columns * k) // (k + columns))
    assume(rows >= 1)
    moved = m * k + -(-m // rows) * n * k + m * n
    assert tall_skinny_product_words(m, n, k, fast_words=fast_words) <= moved


@laws
@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 64))
def test_everything_moves_once_when_one_factor_fits(m: int, n: int, k: int) -> None:
    assert tall_skinny_product_words(m, n, k, fast_words=m * k + m + k) == m * k + n * k + m * n


@laws
@given(st.integers(1, 200), st.integers(1, 64))
def test_whole_tiles_that_divide_the_rows_reach_it(blocks: int, k: int) -> None:
    rows = 7
    m = rows * blocks
    fast_words = rows * (k + 1) + k
    assert tall_skinny_product_words(m, 11, k, fast_words=fast_words) == m * k + blocks * 11 * k + m * 11


def test_a_memory_below_one_row_of_each_is_refused_with_the_words_it_needs() -> None:
    with pytest.raises(DoesNotFit, match="need 129 words of fast memory, not 128"):
        tall_skinny_product_words(8, 8, 64, fast_words=128)


@laws
@given(st.integers(2, 20), st.integers(1, 50), st.integers(1, 64), st.integers(1, 9))
def test_a_serpentine_that_keeps_a_column_between_passes_is_not_of_the_family(
    passes: int, n: int, k: int, rows: int
) -> None:
    m = passes * rows
    serpentine = m * k + passes * n * k - (passes - 1) * k + m * n
    optimum = tall_skinny_product_words(m, n, k, fast_words=rows * (k + 1) + k)
    assert optimum - serpentine == (passes - 1) * k


def test_the_smallest_serpentine_of_the_page_moves_104_words_where_the_family_moves_108() -> None:
    assert tall_skinny_product_words(6, 6, 4, fast_words=19) == 108
