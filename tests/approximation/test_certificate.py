"""Certificates from bounds: monotone, honest about what they cost, and exact where nothing else will do."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation.certificate import Audit, Scores, Terms, Verdict, certificate_for
from attenio.approximation.entries import EntryBounds, radius_for
from attenio.approximation.polynomials import Kind
from attenio.approximation.rounding import Summation
from attenio.elements import ElementType
from attenio.errors import InvalidInput

tolerances = st.sampled_from([0.3, 1e-1, 1e-2, 1e-3])
radii = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0])


@settings(max_examples=17, deadline=None)
@given(tolerances, radii, st.sampled_from(ElementType), st.sampled_from(Kind))
def test_what_is_guaranteed_keeps_the_tolerance_before_storing(
    tolerance: float, radius: float, dtype: ElementType, kind: Kind
) -> None:
    terms = Terms(tolerance=tolerance, kind=kind, dtype=dtype)
    found = certificate_for(Scores(d=8, keys=4096, radius=radius), terms)
    if found.verdict is Verdict.APPROXIMATE:
        assert found.truncation_error + found.rounding_error <= tolerance
        assert found.guaranteed_error >= found.truncation_error
        assert found.features == math.comb(8 + (found.degree or 0), 8)
    else:
        assert found.reason
        assert found.guaranteed_error == 0


@settings(max_examples=14, deadline=None)
@given(tolerances, radii)
def test_a_tighter_tolerance_or_a_wider_reach_needs_no_lower_degree(tolerance: float, radius: float) -> None:
    def needed(radius: float, tolerance: float) -> float:
        found = certificate_for(Scores(d=4, keys=64, radius=radius), Terms(tolerance=tolerance))
        return math.inf if found.degree is None else found.degree

    assert needed(radius, tolerance) <= needed(radius, tolerance / 2)
    assert needed(radius, tolerance) <= needed(radius * 1.5, tolerance)


def test_too_many_features_name_the_degree_they_are_for() -> None:
    found = certificate_for(Scores(d=64, keys=4096, radius=2.0), Terms(tolerance=1e-3, most_features=10_000))
    assert found.verdict is Verdict.EXACT
    assert found.needed_degree == 6
    assert "degree 6 would do, but it takes 131,115,985 features, over the most of 10,000" in (found.reason or "")


def test_scores_that_reach_too_far_name_the_degree_it_would_take() -> None:
    found = certificate_for(Scores(d=64, keys=4096, radius=100.0), Terms(tolerance=1e-2))
    assert found.reason is not None
    assert "would take degree" in found.reason


def test_rounding_that_dominates_is_the_reason() -> None:
    terms = Terms(tolerance=1e-3, summation=Summation(key_tile=1))
    found = certificate_for(Scores(d=4, keys=2**20, radius=0.1), terms)
    assert found.reason is not None
    assert "rounding sums in fp32" in found.reason


def test_too_few_keys_are_better_off_exact() -> None:
    terms = Terms(tolerance=1e-2, fast_words=65_536)
    scores = Scores(d=64, keys=1024, radius=0.5)
    assert "pays off from 1,585 keys on" in (certificate_for(scores, terms).reason or "")
    assert certificate_for(replace(scores, keys=4096), terms).degree == 2


def test_an_audit_can_only_help() -> None:
    scores, terms = Scores(d=8, keys=1024, radius=1.0), Terms(tolerance=1e-2)
    lucky = certificate_for(scores, terms, lambda _: Audit(total_variation=1e-9, amplification=2.0, output_bound=0.1))
    unlucky = certificate_for(scores, terms, lambda _: Audit(total_variation=1.0, amplification=1e9, output_bound=9.0))
    plain = certificate_for(scores, terms)
    assert unlucky == plain
    assert (lucky.degree or 0) < (plain.degree or 0)


def test_entry_bounds_say_how_far_scores_reach() -> None:
    assert radius_for(0.5, 64) == pytest.approx(2.0)
    bounds = EntryBounds(query=0.5, key=0.25, value=3.0)
    scores = Scores.from_entries(bounds, d=64, keys=128)
    assert scores.radius == pytest.approx(1.0)
    assert scores.value_unit == 3.0


@pytest.mark.parametrize("tolerance", [0.0, -1e-3, math.nan, math.inf])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(InvalidInput, match=r"tolerance is .*above 0"):
        Terms(tolerance=tolerance)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan])
def test_an_entry_bound_that_is_none_is_refused(bound: float) -> None:
    with pytest.raises(InvalidInput, match="entry bound"):
        radius_for(bound, 64)


@pytest.mark.parametrize("centre", [1000.0, -25.0, 1e300])
def test_scores_that_are_all_one_number_beyond_the_proven_range_are_a_mean(centre: float) -> None:
    found = certificate_for(Scores(d=1, keys=1, radius=0.0, centre=centre), Terms(tolerance=0.1))
    assert found.verdict is Verdict.EXACT
    assert found.reason.endswith(
        "over the most of 24; they are so close to each other that the mean of the values would do"
    )
