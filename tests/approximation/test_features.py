"""Features: as many as they should be, each once, and their inner product is the polynomial of the inner product."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation.features import feature_count, feature_tiles, monomials, multinomial
from attenio.approximation.polynomials import minimax, taylor

sizes = st.tuples(st.integers(1, 6), st.integers(0, 5), st.integers(1, 40))


@given(sizes)
def test_every_monomial_occurs_once(size: tuple[int, int, int]) -> None:
    d, degree, most = size
    listed = list(monomials(d, degree))
    assert len(listed) == len(set(listed)) == feature_count(d, degree)
    tiled = [tuple(int(i) for i in row) for tile in feature_tiles(d, degree, most=most) for row in tile.indices]
    assert tiled == listed


@given(sizes)
def test_multinomials_add_up_to_powers_of_the_width(size: tuple[int, int, int]) -> None:
    d, degree, most = size
    found = [m for tile in feature_tiles(d, degree, most=most) for m in tile.multinomials]
    assert found == [multinomial(m) for m in monomials(d, degree)]
    assert sum(found) == sum(d**k for k in range(degree + 1))


@settings(max_examples=20, deadline=None)
@given(sizes, st.integers(0, 2**32 - 1), st.floats(0.25, 4))
def test_their_inner_product_is_the_polynomial_of_the_inner_product(
    size: tuple[int, int, int], seed: int, unit: float
) -> None:
    d, degree, most = size
    draw = np.random.default_rng(seed)
    x, y = draw.uniform(-1, 1, (2, 5, d))
    for polynomial in (taylor(1.0, degree), minimax(1.0, degree)):
        found = np.zeros((5, 5))
        for tile in feature_tiles(d, degree, most=most):
            found += tile.of(x) * tile.weights(polynomial, unit=unit) @ tile.of(y).T
        products = unit * x @ y.T
        sizes = polynomial.of_sizes(unit * np.abs(x) @ np.abs(y).T)
        assert (np.abs(found - polynomial(products)) <= 1e-13 * sizes).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_they_keep_the_type_of_the_rows(dtype: type) -> None:
    rows = np.ones((2, 3), dtype=dtype)
    assert {tile.of(rows).dtype for tile in feature_tiles(3, 3)} == {np.dtype(dtype)}


def test_a_large_count_needs_no_list() -> None:
    assert feature_count(128, 12) == math.comb(140, 12)
