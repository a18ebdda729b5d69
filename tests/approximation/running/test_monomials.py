from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.approximation.features import feature_count
from attenio.approximation.running.monomials import Monomials


def in_order(d: int, degree: int) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(d + 1), degree))


@given(st.integers(1, 7), st.integers(1, 5))
def test_there_are_as_many_as_the_certificate_says(d: int, degree: int) -> None:
    assert Monomials(d=d, degree=degree).count == feature_count(d, degree) == len(in_order(d, degree))


@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_those_without_early_variables_are_a_suffix(d: int, degree: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, d))
    start = Monomials(d=d, degree=degree).suffix(degree, first)
    assert [m[0] >= first for m in in_order(d, degree)] == [place >= start for place in range(len(in_order(d, degree)))]


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_weighted_products_of_monomials_are_the_polynomial_of_the_dot_product(d: int, degree: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = (np.append(random.uniform(-1, 1, d), 1.0) for _ in range(2))
    coefficients = tuple(random.uniform(-1, 1, degree + 1))
    weights = Monomials(d=d, degree=degree).weights(coefficients)
    features = [x[list(m)].prod() * y[list(m)].prod() for m in in_order(d, degree)]
    dot = x[:-1] @ y[:-1]
    assert weights @ features == pytest.approx(sum(c * dot**k for k, c in enumerate(coefficients)), abs=1e-12)
