from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.bounds.rank_one_tile import rank_one_product_words
from attenio.errors import DoesNotFit
from attenio.fast_products.shape import Shape
from attenio.fast_products.words import (
    Order,
    ProductTile,
    best_levels,
    best_strassen_words,
    best_tile,
    classical_words,
    fitting_levels,
    most_levels,
    peak_words,
    strassen_words,
)

from .schedules import LAWS, shapes


def square(n: int, d: int | None = None) -> Shape:
    return Shape(rows=n, keys=n, depth=n if d is None else d)


@LAWS
@given(shapes(30), st.integers(3, 300))
def test_no_tile_that_fits_moves_fewer_words_than_the_best_one(shape: Shape, fast_words: int) -> None:
    best = best_tile(shape, fast_words)
    assert peak_words(best, shape.depth) <= fast_words
    tiles = [
        ProductTile(order=order, rows=rows, keys=keys)
        for rows in range(1, shape.rows + 1)
        for order, widths in ((Order.RESULT_STATIONARY, range(1, shape.keys + 1)), (Order.ROW_STATIONARY, (1,)))
        for keys in widths
    ]
    fitting = [classical_words(shape, tile) for tile in tiles if peak_words(tile, shape.depth) <= fast_words]
    assert classical_words(shape, best) == min(fitting)


@LAWS
@given(shapes(500), st.integers(3, 5000))
def test_the_best_tile_never_loses_to_the_square_one(shape: Shape, fast_words: int) -> None:
    words = classical_words(shape, best_tile(shape, fast_words))
    assert words <= rank_one_product_words(shape.rows, shape.keys, shape.depth, fast_words=fast_words)


@LAWS
@given(shapes(60), st.integers(7, 400))
def test_the_best_number_of_steps_moves_fewest_words(shape: Shape, fast_words: int) -> None:
    words = [strassen_words(shape, fast_words, levels) for levels in range(most_levels(shape) + 1)]
    assert words[best_levels(shape, fast_words)] == min(words)
    assert best_strassen_words(shape, fast_words) == min(words[1:] or words)
    assert fitting_levels(shape, fast_words) <= most_levels(shape)


def test_one_even_step_costs_what_the_page_says() -> None:
    n, d, fast_words = 64, 32, 21
    half = square(n // 2, d // 2)
    products = 7 * classical_words(half, best_tile(half, fast_words))
    assert strassen_words(square(n, d), fast_words, 1) == products + 4 * n * d + 11 * n * n // 4


@pytest.mark.parametrize("fast_words", [21, 57, 241, 993])
def test_a_step_pays_from_fourteen_roots_of_the_memory_for_many_keys_and_thirty_for_a_square(fast_words: int) -> None:
    tile = best_tile(square(10**4, 10**3), fast_words).keys  # close to the root
    assert abs(tile - sqrt(fast_words)) < 1.1
    for n_over_d, factor in ((64, 14.25), (1, 30)):
        for share, pays in ((0.8, False), (1.25, True)):
            d = 2 * tile * round(share * factor / 2)
            assert (best_levels(square(d * n_over_d, d), fast_words) > 0) == pays


def test_strassen_moves_fewer_words_than_any_order_of_ordinary_products_must() -> None:
    from attenio.bounds.product import product_words

    shape = square(1024)
    assert best_strassen_words(shape, 21) < product_words(1024, 1024, 1024, fast_words=21)


def test_a_memory_too_small_for_a_step_is_told_so() -> None:
    with pytest.raises(DoesNotFit, match="needs 7 words of fast memory, not 6"):
        strassen_words(square(4), 6, 1)
    with pytest.raises(DoesNotFit, match="need 3 words"):
        best_tile(square(4), 2)
    assert best_levels(square(512), 6) == 0
