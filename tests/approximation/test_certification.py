"""What is guaranteed holds: on random bounded data, for every kind, element type, mask and grouping."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.approximation.certificate import Certificate, Evidence, Terms, Verdict
from attenio.approximation.certification import Diligence, certify, certify_stream, measured_error
from attenio.approximation.data import AttentionData
from attenio.approximation.observation import Centring, observe
from attenio.approximation.polynomials import Kind
from attenio.approximation.rounding import Summation, half_spacing_at_zero
from attenio.elements import ElementType
from attenio.errors import InvalidInput

Float = NDArray[np.floating]


def drawn(seed: int, dtype: ElementType, reach: float, causal: bool) -> AttentionData:
    draw = np.random.default_rng(seed)
    batch, kv_heads, group = draw.integers(1, 3, 3)
    rows, keys = (int(n) for n in draw.integers(1, 60, 2))
    d, width = (int(n) for n in draw.integers(1, 7, 2))
    query = draw.uniform(-1, 1, (batch, kv_heads * group, rows, d)) * reach
    key = draw.uniform(-1, 1, (batch, kv_heads, keys, d)) + draw.uniform(-2, 2, d)
    value = draw.standard_normal((batch, kv_heads, keys, width)) * 10.0 ** draw.integers(-2, 3) + draw.uniform(-1, 1)
    data = AttentionData.of(query, key, value, causal=causal)
    rounded = [dtype.rounded(array) for array in (data.query, data.key, data.value)]
    return AttentionData(
        query=rounded[0], key=rounded[1], value=rounded[2], dtype=dtype, scale=data.scale, causal=causal
    )


@settings(max_examples=17, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(ElementType),
    st.sampled_from([0.1, 0.5, 1.5]),
    st.booleans(),
    st.sampled_from(Kind),
    st.sampled_from([1e-1, 1e-2, 1e-3]),
    st.sampled_from([None, 1, 7]),
)
def test_the_measured_error_is_at_most_the_guaranteed_one(
    seed: int, dtype: ElementType, reach: float, causal: bool, kind: Kind, tolerance: float, tile: int | None
) -> None:
    terms = Terms(tolerance=tolerance, kind=kind, summation=Summation(key_tile=tile), most_features=5000)
    for found in certify(drawn(seed, dtype, reach, causal), terms):
        if found.certificate.verdict is Verdict.APPROXIMATE:
            assert found.measured_error is not None
            assert found.measured_error <= found.certificate.guaranteed_error


@settings(max_examples=9, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_every_way_of_knowing_bounds_the_scores(seed: int, causal: bool) -> None:
    data, terms = drawn(seed, ElementType.FP32, 1.0, causal), Terms(tolerance=0.1)
    every = certify(data, terms, Diligence(measure=False))
    norms = certify(data, terms, Diligence(measure=False, most_products=0))
    boxes = certify_stream([data], terms)
    for head, one, two, three in zip(data.heads(), every, norms, boxes, strict=True):
        kinds = [each.certificate.scores.evidence for each in (one, two, three)]
        assert kinds == [Evidence.EVERY_SCORE, Evidence.ROW_NORMS, Evidence.BOX]
        last = head.last_key(0, len(head.queries))
        for each in (one, two, three):
            keys = head.keys.astype(np.float64) - each.centre
            scores = head.queries.astype(np.float64) @ keys.T * head.scale
            seen = scores[np.arange(len(keys)) <= last[:, None]]
            within = each.certificate.scores
            assert (np.abs(seen - within.centre) <= within.radius).all()


@settings(max_examples=9, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_centring_reaches_less_far_than_the_best(seed: int) -> None:
    for head in drawn(seed, ElementType.FP32, 1.0, False).heads():
        best = observe(head, Centring.BEST)
        for other in Centring:
            assert best.scores.radius <= observe(head, other).scores.radius * (1 + 1e-12)
        assert best.scores.radius <= best.radius_without_centring * (1 + 1e-12)


def test_keys_that_are_all_shifted_certify_as_if_they_were_not() -> None:
    draw = np.random.default_rng(0)
    query, key, value = draw.uniform(-0.5, 0.5, (3, 128, 8)).astype(np.float32)
    terms = Terms(tolerance=1e-2)
    (plain,) = certify(AttentionData.of(query, key, value), terms)
    (shifted,) = certify(AttentionData.of(query, key + np.float32(32), value), terms)
    assert shifted.radius_without_centring > 10
    assert shifted.certificate.degree == plain.certificate.degree


def test_a_stream_in_pieces_is_the_stream_at_once() -> None:
    draw = np.random.default_rng(1)
    arrays = draw.uniform(-0.5, 0.5, (3, 2, 96, 8)).astype(np.float16)
    pieces = [AttentionData.of(*(array[:, start : start + 32] for array in arrays)) for start in (0, 32, 64)]
    terms = Terms(tolerance=1e-1)
    for one, other in zip(
        certify_stream(pieces, terms), certify_stream([AttentionData.of(*arrays)], terms), strict=True
    ):
        assert one.certificate == other.certificate


def test_pieces_whose_values_differ_in_width_are_refused() -> None:
    ones = np.ones((4, 2), np.float32)
    pieces = [AttentionData.of(ones, ones, np.ones((4, width), np.float32)) for width in (2, 3)]
    with pytest.raises(InvalidInput, match="differ in width"):
        certify_stream(pieces, Terms(tolerance=0.1))


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(InvalidInput, match="stream of arrays is empty"):
        certify_stream([], Terms(tolerance=0.1))


LARGEST = {
    ElementType.FP32: float(np.finfo(np.float32).max),
    ElementType.FP16: 65504.0,
    ElementType.BF16: float(2**128 - 2**120),
    ElementType.FP8: 448.0,
}


def held(
    dtype: ElementType, query: Float, key: Float, value: Float, *, scale: float = 0.5, causal: bool = False
) -> AttentionData:
    """Single heads as data of a type."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = [dtype.rounded(array.astype(np.float32))[None, None] for array in (query, key, value)]
    return AttentionData(query=rounded[0], key=rounded[1], value=rounded[2], dtype=dtype, scale=scale, causal=causal)


def assert_holds(data: AttentionData, tolerance: float = 1e-2) -> Certificate:
    (found,) = certify(data, Terms(tolerance=tolerance))
    if found.certificate.verdict is Verdict.APPROXIMATE:
        assert found.measured_error is not None
        assert found.measured_error <= found.certificate.guaranteed_error
    return found.certificate


@pytest.mark.parametrize("dtype", list(ElementType))
def test_the_largest_entries_of_a_type_do_not_overflow(dtype: ElementType) -> None:
    largest, draw = LARGEST[dtype], np.random.default_rng(2)
    query, uneven = draw.uniform(-1, 1, (64, 4)), np.where(draw.random((64, 4)) < 0.1, largest, -largest)
    for key in (draw.uniform(0.5, 1, (64, 4)) * largest, uneven):
        for value in (draw.uniform(-1, 1, (64, 4)) * largest, uneven, np.full((64, 4), largest)):
            data = held(dtype, query, key, value, scale=0.25 / largest)
            assert assert_holds(data).verdict is Verdict.APPROXIMATE


@pytest.mark.parametrize("dtype", list(ElementType))
def test_entries_too_small_to_be_normal_are_not_lost(dtype: ElementType) -> None:
    least, draw = 2 * half_spacing_at_zero(dtype), np.random.default_rng(3)
    plain, tiny = draw.uniform(-1, 1, (64, 4)), draw.integers(-3, 4, (64, 4)) * least
    for query, key, value in ((plain, plain, tiny), (plain, tiny, plain), (tiny, plain, plain), (tiny, tiny, tiny)):
        assert assert_holds(held(dtype, query, key, value)).verdict is Verdict.APPROXIMATE


@pytest.mark.parametrize("size", [1e3, 1e6, 1e15])
def test_coordinates_may_differ_in_size_as_long_as_products_do_not(size: float) -> None:
    draw = np.random.default_rng(4)
    sizes = np.array([size, 1 / size, 1.0])
    query, key = draw.uniform(-1, 1, (64, 3)) * sizes, draw.uniform(-1, 1, (64, 3)) / sizes
    for tolerance in (1e-1, 1e-2, 1e-3):
        found = assert_holds(held(ElementType.FP32, query, key, draw.uniform(-1, 1, (64, 2))), tolerance)
        assert found.verdict is Verdict.APPROXIMATE


@pytest.mark.parametrize("growth", [1.1, 1.5, 2.5])
def test_keys_that_grow_as_queries_shrink_are_certified_only_if_sums_can_be_held(growth: float) -> None:
    draw, grown = np.random.default_rng(5), growth ** np.arange(64.0)[:, None]
    query, key, value = (draw.uniform(-1, 1, (64, 2)) for _ in range(3))
    for tolerance in (1e-1, 1e-2, 1e-3):
        assert_holds(held(ElementType.FP32, query / grown, key * grown, value, causal=True), tolerance)


def test_a_run_that_breaks_does_not_look_perfect() -> None:
    draw = np.random.default_rng(6)
    data = held(ElementType.FP32, *(draw.uniform(-1, 1, (8, 2)) for _ in range(3)))
    (found,) = certify(data, Terms(tolerance=1e-1))
    assert found.certificate.polynomial is not None
    broken = replace(found.certificate.polynomial, coefficients=(math.nan,))
    head = next(data.heads())
    assert math.isnan(measured_error(head, replace(found.certificate, polynomial=broken), observe(head)))
