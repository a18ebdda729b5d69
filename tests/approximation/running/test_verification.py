from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.approximation.running.problems import bounded, exact, furthest

from attenio.approximation import AttentionData, Certificate, Scores, Terms, certificate_for, certify
from attenio.approximation.entries import EntryBounds
from attenio.approximation.running import TiledSummation, approximate_attention, certify_tensors
from attenio.elements import ElementType
from attenio.errors import InvalidInput

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def singles() -> Tensors:
    query, key, value = (t.float() for t in bounded(radius=0.5))
    return query, key, value


def one_head() -> Tensors:
    query, key, value = (t[0, 0].float() for t in bounded(radius=0.3, heads=1))
    return query, key, value


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_data_keep_to_their_own_certificate(dtype: torch.dtype, causal: bool) -> None:
    query, key, value = (t.to(dtype) for t in bounded(radius=0.5))
    found = certify_tensors(query, key, value, tolerance=0.05, is_causal=causal)
    options = {"tolerance": 0.05, "is_causal": causal}
    alone = approximate_attention(query, key, value, **options)
    assert torch.equal(approximate_attention(query, key, value, certificate=found, **options), alone)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v + 1e6, r"values reach 1e\+06, over the 1\.\d+ of the certificate"),
        (lambda v: v * 1000, r"values reach 1[23]\d\d, over the 1\.\d+ of the certificate"),
        (lambda v: torch.where(v < 0, -1.2, v), "half the range of values is"),
        (lambda v: v * float("nan"), "values are not finite"),
    ],
)
def test_values_beyond_those_of_the_certificate_are_refused(change, said: str) -> None:  # type: ignore[no-untyped-def]
    query, key, value = singles()
    found = certify_tensors(query, key, value, tolerance=0.01)
    with pytest.raises(InvalidInput, match=said):
        approximate_attention(query, key, change(value), certificate=found)


def test_outputs_of_a_coarser_type_are_refused_and_of_a_finer_one_are_not() -> None:
    query, key, value = singles()
    halves = [t.bfloat16() for t in (query, key, value)]
    scores = Scores(d=8, keys=90, radius=1.0, value_bound=1.305)
    by_type = {each: certificate_for(scores, Terms(tolerance=0.01, dtype=each)) for each in ElementType}
    for narrow in (ElementType.FP32, ElementType.FP16):
        with pytest.raises(InvalidInput, match=rf"is for {narrow.value} and tensors are bf16.*ElementType\.BF16"):
            approximate_attention(*halves, certificate=by_type[narrow])
    for wide in (ElementType.BF16, ElementType.FP8):
        output = approximate_attention(*halves, certificate=by_type[wide])
        assert furthest(output, exact(*halves)) <= by_type[wide].guaranteed_change
        approximate_attention(query, key, value, certificate=by_type[wide])


def test_more_keys_than_the_certificate_counts_on_are_refused() -> None:
    query, key, value = singles()
    found = certificate_for(Scores(d=8, keys=89, radius=1.0, value_bound=1.3), Terms(tolerance=0.1))
    with pytest.raises(InvalidInput, match="is for 89 keys and there are 90"):
        approximate_attention(query, key, value, certificate=found)


def test_a_tolerance_beside_a_certificate_has_to_be_kept_by_it() -> None:
    query, key, value = singles()
    found = certify_tensors(query, key, value, tolerance=0.1)
    approximate_attention(query, key, value, certificate=found, tolerance=0.1)
    with pytest.raises(InvalidInput, match=r"allows a change of .*, over the 0\.0001 of tolerance="):
        approximate_attention(query, key, value, certificate=found, tolerance=1e-4)
    with pytest.raises(InvalidInput, match="tolerance is NaN"):
        approximate_attention(query, key, value, certificate=found, tolerance=float("nan"))


def test_a_tolerance_is_in_units_of_the_range_of_the_values_that_are_run() -> None:
    query, key, value = singles()
    scores = Scores(d=8, keys=90, radius=1.0, value_bound=1000.0)
    found = certificate_for(scores, Terms(tolerance=0.01, summation=TiledSummation()))
    approximate_attention(query, key, value, certificate=found, tolerance=0.01)
    # within the bound, and rounding is 1000 times larger in units of this range
    with pytest.raises(InvalidInput, match=r"over the 0\.01 of tolerance="):
        approximate_attention(query, key, 998 + value, certificate=found, tolerance=0.01)


@pytest.mark.parametrize("d", [1, 4, 7, 64])
@pytest.mark.parametrize("entry", [0.1, 0.4, 1 / 3])
def test_data_that_attain_the_bounds_of_a_certificate_are_within_them(d: int, entry: float) -> None:
    entry = float(np.float32(entry)) / d**0.25
    entry = float(np.float32(entry))
    found = certificate_for(
        Scores.from_entries(EntryBounds.all(entry), d=d, keys=50), Terms(tolerance=0.1, dtype=ElementType.FP32)
    )
    query, key, value = ((torch.randint(0, 2, (50, width)) * 2 - 1) * entry for width in (d, d, 3))
    key[0], query[0] = entry, entry
    for centre in (False, True):
        output = approximate_attention(query, key, value, certificate=found, centre=centre)
        assert furthest(output, exact(query, key, value)) <= found.guaranteed_change
    with pytest.raises(InvalidInput, match="scores may reach"):
        approximate_attention(query * (1 + 1e-6), key, value, certificate=found, centre=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_a_certificate_for_scores_that_are_all_equal_takes_keys_that_are(dtype: torch.dtype) -> None:
    query, key, value = (t.to(dtype) for t in bounded(radius=0.5))
    found = certificate_for(
        Scores(d=8, keys=90, radius=0.0, value_bound=1.305), Terms(tolerance=0.01, dtype=ElementType.BF16)
    )
    same = key[:, :, :1].expand_as(key)
    for queries, keys, centre in ((query, same, True), (query * 0, key, False)):
        output = approximate_attention(queries, keys, value, certificate=found, centre=centre)
        assert furthest(output, exact(queries, keys, value)) <= found.guaranteed_change
    with pytest.raises(InvalidInput, match="over the 0 of the certificate"):
        approximate_attention(query, key, value, certificate=found)


def audited(tensors: Tensors, *, causal: bool = False) -> tuple[Certificate, torch.Tensor]:
    arrays = (t.numpy() for t in tensors)
    (found,) = certify(AttentionData.of(*arrays, causal=causal), Terms(tolerance=1e-2, dtype=ElementType.FP32))
    return found.certificate, torch.from_numpy(found.centre)


def test_a_certificate_from_every_score_is_for_the_data_it_was_made_from_alone() -> None:
    query, key, value = one_head()
    certificate, centre = audited((query, key, value))
    approximate_attention(query, key, value, certificate=certificate, centre=centre)
    approximate_attention(query.double(), key.double(), value.double(), certificate=certificate, centre=centre)
    nudged = value.clone()
    nudged[3, 1] *= 0.5
    for tensors, options in (
        ((6 * query, key, value), {}),
        ((query, key, nudged), {}),
        ((query.flip(0), key, value), {}),
        ((query.double() * (1 + 1e-12), key.double(), value.double()), {}),
        ((query, key, value), {"centre": centre + 0.1}),
        ((query, key, value), {"scale": 0.3}),
        ([t.expand(2, -1, -1) for t in (query, key, value)], {}),
    ):
        with pytest.raises(InvalidInput, match=r"certify these data and give their centre, or use .* entry bounds"):
            approximate_attention(*tensors, certificate=certificate, **{"centre": centre, **options})
    unknown = replace(certificate, scores=replace(certificate.scores, data=None))
    with pytest.raises(InvalidInput, match="of other data"):
        approximate_attention(query, key, value, certificate=unknown, centre=centre)


def test_a_certificate_from_the_scores_below_the_diagonal_is_not_for_all_of_them() -> None:
    tensors = one_head()
    certificate, centre = audited(tensors, causal=True)
    approximate_attention(*tensors, certificate=certificate, centre=centre, is_causal=True)
    with pytest.raises(InvalidInput, match="another centre, scale or mask"):
        approximate_attention(*tensors, certificate=certificate, centre=centre)
