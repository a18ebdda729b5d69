"""Polynomials: what is proven of them holds, the best one is never worse, and small errors move weights little."""

import math
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation.polynomials import (
    Kind,
    Polynomial,
    least_degree,
    minimax,
    outward,
    polynomial,
    taylor,
    taylor_degree,
)
from attenio.errors import InvalidInput

radii = st.sampled_from([0.0, 1e-6, 0.25, 0.5, 1.0, 2.0, 4.0])
kinds = st.sampled_from(Kind)


def relative_error_at(found: Polynomial, x: float) -> Decimal:
    with localcontext(Context(prec=50)):
        at = Decimal(x)
        value = sum((Decimal(c) * (at**k if k else 1) for k, c in enumerate(found.coefficients)), Decimal(0))
        return abs(value * (-at).exp() / Decimal(found.scale) - 1)


@settings(max_examples=14, deadline=None)
@given(kinds, radii, st.integers(0, 6), st.floats(-2, 2), st.floats(-1, 1))
def test_the_proven_error_is_never_exceeded(
    kind: Kind, radius: float, degree: int, centre: float, place: float
) -> None:
    found = polynomial(kind, radius, degree, centre=centre)
    if found.relative_error < 1:
        x = centre + place * radius
        assert relative_error_at(found, x) <= Decimal(found.relative_error) * (1 + Decimal("1e-14")) + Decimal("1e-15")


@settings(max_examples=14, deadline=None)
@given(radii, st.integers(0, 7))
def test_the_best_polynomial_is_never_worse_than_taylors(radius: float, degree: int) -> None:
    assert minimax(radius, degree).relative_error <= taylor(radius, degree).relative_error


@pytest.mark.parametrize("radius", [0.25, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_the_error_of_the_best_polynomial_touches_its_largest_size_degree_plus_two_times(
    radius: float, degree: int
) -> None:
    found = minimax(radius, degree)
    x = np.linspace(-radius, radius, 20_001)
    error = found(x) * np.exp(-x) / found.scale - 1
    runs = np.split(error, np.flatnonzero(np.diff(np.signbit(error))) + 1)
    assert len(runs) == degree + 2
    assert min(np.abs(run).max() for run in runs) >= 0.995 * found.relative_error


@pytest.mark.parametrize("radius", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("error", [1e-1, 1e-2, 1e-3])
def test_the_best_polynomial_needs_no_higher_degree(radius: float, error: float) -> None:
    best, series = least_degree(radius, error), least_degree(radius, error, Kind.TAYLOR)
    assert best is not None
    assert series is None or best <= series
    assert minimax(radius, best).relative_error <= error
    assert best == 0 or minimax(radius, best - 1).relative_error > error


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12), st.integers(1, 4), kinds)
def test_weights_move_by_at_most_the_total_variation(scores: list[float], degree: int, kind: Kind) -> None:
    found, x = polynomial(kind, 1.0, degree), np.array(scores)
    exact, replaced = np.exp(x), found(x)
    moved = np.abs(exact / exact.sum() - replaced / replaced.sum()).sum() / 2
    assert moved <= found.total_variation + 1e-14


@given(st.floats(0.01, 0.9))
def test_the_total_variation_is_reached_by_two_weights(eps: float) -> None:
    found = Polynomial(kind=Kind.TAYLOR, radius=1.0, coefficients=(1.0,), relative_error=eps)
    root = math.sqrt((1 + eps) / (1 - eps))
    share = 1 / (1 + root)
    moved = share * (1 + eps) / (share * (1 + eps) + (1 - share) * (1 - eps)) - share
    assert moved == pytest.approx(found.total_variation, rel=1e-9)


@settings(max_examples=8, deadline=None)
@given(kinds, st.floats(-3, 3))
def test_shifting_the_interval_costs_nothing(kind: Kind, centre: float) -> None:
    here, there = polynomial(kind, 1.0, 3), polynomial(kind, 1.0, 3, centre=centre)
    assert there.relative_error == pytest.approx(here.relative_error, rel=1e-9)


@given(st.floats(0.1, 6), st.sampled_from([1e-1, 1e-3]))
@settings(max_examples=8, deadline=None)
def test_the_remainder_of_the_series_says_enough(radius: float, error: float) -> None:
    degree = taylor_degree(radius, error)
    if degree <= 32:
        assert taylor(radius, degree).relative_error <= error


@pytest.mark.parametrize("radius", [0.0, 5e-324, 1e3, 1e16, 1e308])
def test_every_radius_has_a_degree_that_is_enough(radius: float) -> None:
    assert 3 * int(radius) <= taylor_degree(radius, 1e-3) <= 4 * int(radius) + 30


@pytest.mark.parametrize("radius", [-1.0, math.nan, math.inf])
def test_no_interval_is_refused(radius: float) -> None:
    with pytest.raises(InvalidInput, match="finite radius"):
        taylor(radius, 2)


def test_too_wide_an_interval_says_which_degree_it_would_take() -> None:
    with pytest.raises(InvalidInput, match=r"would need degree \d+"):
        minimax(100.0, 2)


@pytest.mark.parametrize("error", [0.0, -1.0, math.nan])
def test_an_error_that_cannot_be_asked_for_is_refused(error: float) -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        least_degree(1.0, error)


def test_an_unknown_kind_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="taylor, minimax"):
        Kind.named("spline")


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("radius", [0.0, 0.3, 2.0])
def test_what_is_proven_holds_a_little_beyond_the_radius(kind: Kind, radius: float) -> None:
    found = polynomial(kind, radius, 2)
    with localcontext(Context(prec=50)):
        for at in (Decimal(outward(radius)), -Decimal(outward(radius))):
            value = sum(Decimal(c) * at**i for i, c in enumerate(found.coefficients))
            ratio = value * (-at).exp() / Decimal(found.scale)
            assert abs(ratio - 1) <= Decimal(found.relative_error) * (1 + Decimal("1e-14"))
