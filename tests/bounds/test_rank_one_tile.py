import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import product_words, rank_one_product_words, rank_one_tile
from attenio.errors import DoesNotFit

laws = settings(max_examples=26, deadline=None, derandomize=True)


@laws
@given(st.integers(3, 2**60))
def test_the_tile_fits_and_two_more_would_not(fast_words: int) -> None:
    tile = rank_one_tile(fast_words)
    assert tile >= 1
    assert tile**2 + tile + 1 <= fast_words
    assert (tile + 2) ** 2 + (tile + 2) + 1 > fast_words


@laws
@given(st.integers(10, 2000), st.integers(1, 20), st.integers(1, 20), st.integers(1, 1000))
def test_tiles_that_divide_the_result_come_close_to_the_bound(side: int, rows: int, columns: int, depth: int) -> None:
    fast_words = (side + 1) ** 2 - 1
    m, n, k = side * rows, side * columns, side * depth
    moved = rank_one_product_words(m, n, k, fast_words=fast_words)
    assert moved == 2 * m * n * k // side + m * n
    assert moved <= (product_words(m, n, k, fast_words=fast_words) + fast_words) * (1 + 2 / side) + m * n


def test_a_memory_of_two_words_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="need 3 words and there are 2; use more"):
        rank_one_tile(2)
