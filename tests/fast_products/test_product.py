import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.bounds.fast_products import fast_product_words
from attenio.bounds.product import product_words
from attenio.errors import DoesNotFit, InvalidInput, MemoryOverflow
from attenio.fast_products.product import ProductRun, classical_product, random_factors, strassen_product
from attenio.fast_products.shape import Shape
from attenio.fast_products.words import Order, ProductTile, classical_words, peak_words, strassen_words

from .schedules import LAWS, shapes


def tolerance(run: ProductRun, largest: float) -> float:
    """Rounding of Winograd's form grows eighteenfold a step and with the square of the depth of the sub-products
    [Higham 2002, Thm 23.3]; a further factor two for their being one longer when a side is odd."""
    depth = -(-run.shape.depth // 2**run.levels)
    return 2 * 18.0**run.levels * (depth * depth + 6 * depth) * 2.0**-24 * largest


@LAWS
@given(shapes(14), st.integers(7, 150), st.integers(0, 4), st.integers(0, 3))
def test_strassen_computes_the_product_and_moves_what_its_recurrence_says(
    shape: Shape, fast_words: int, levels: int, seed: int
) -> None:
    Q, K = random_factors(shape, seed)
    run = strassen_product(Q, K, fast_words=fast_words, levels=levels)
    assert run.moved_words == strassen_words(shape, fast_words, levels)
    assert run.peak_words <= fast_words
    assert run.max_abs_error <= tolerance(run, float(np.abs(Q).max() * np.abs(K).max()))


@LAWS
@given(shapes(14), st.sampled_from(Order), st.integers(1, 15), st.integers(1, 15))
def test_ordinary_products_move_and_hold_what_their_closed_form_says(
    shape: Shape, order: Order, rows: int, keys: int
) -> None:
    tile = ProductTile(order=order, rows=rows, keys=keys if order is Order.RESULT_STATIONARY else 1)
    Q, K = random_factors(shape)
    peak = peak_words(tile, shape.depth)
    run = classical_product(Q, K, fast_words=peak, tile=tile)
    assert (run.moved_words, run.peak_words) == (classical_words(shape, tile), peak)
    assert run.max_abs_error <= tolerance(run, float(np.abs(Q).max() * np.abs(K).max()))
    with pytest.raises(MemoryOverflow):
        classical_product(Q, K, fast_words=peak - 1, tile=tile)


@LAWS
@given(shapes(24), st.integers(7, 60), st.integers(0, 3))
def test_no_product_beats_the_bound_that_survives_fast_multiplication(
    shape: Shape, fast_words: int, levels: int
) -> None:
    run = strassen_product(*random_factors(shape), fast_words=fast_words, levels=levels)
    floor = fast_product_words(float(shape.scores), float(shape.depth), float(fast_words))
    assert run.trace.loaded_words >= floor
    assert run.trace.loaded_words >= shape.input_words
    assert run.trace.stored_words >= shape.scores
    if levels == 0:
        assert run.moved_words >= product_words(shape.rows, shape.keys, shape.depth, fast_words=fast_words)


def test_integers_come_out_exactly() -> None:
    rng = np.random.default_rng(3)
    Q, K = rng.integers(-3, 4, (13, 11)), rng.integers(-3, 4, (9, 11))
    run = strassen_product(Q, K, fast_words=12, levels=3)
    assert np.array_equal(run.scores, Q @ K.T)
    assert run.max_abs_error == 0


def test_left_to_itself_strassen_is_used_only_where_it_pays() -> None:
    deep, flat = (random_factors(Shape(rows=48, keys=48, depth=depth)) for depth in (96, 4))
    assert strassen_product(*deep, fast_words=7).levels > 0
    assert strassen_product(*flat, fast_words=64).levels == 0


def test_what_cannot_be_multiplied_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Q is 2 wide and K 3"):
        classical_product(np.ones((2, 2)), np.ones((2, 3)), fast_words=9)
    with pytest.raises(InvalidInput, match="K has shape"):
        strassen_product(np.ones((2, 2)), np.ones(2), fast_words=9)
    with pytest.raises(DoesNotFit, match="use an ordinary product"):
        strassen_product(np.ones((2, 2)), np.ones((2, 2)), fast_words=5, levels=1)
