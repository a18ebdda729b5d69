import numpy as np
import pytest
import torch
from tests.approximation.running.problems import bounded, exact, furthest

from attenio.approximation import AttentionData, Certificate, Scores, Terms, certificate_for, certify
from attenio.approximation.entries import EntryBounds
from attenio.approximation.running import DecodeState
from attenio.elements import ElementType
from attenio.errors import InvalidInput

TYPES = {torch.float16: ElementType.FP16, torch.bfloat16: ElementType.BF16}


def stated(radius: float = 1.0, dtype: torch.dtype = torch.float32, keys: int = 10_000) -> Certificate:
    # values below 1.3 are at most 1.3046875 once they are rounded to bf16
    terms = Terms(tolerance=1e-2, dtype=TYPES.get(dtype, ElementType.FP32))
    return certificate_for(Scores(d=8, keys=keys, radius=radius, value_bound=1.305), terms)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 1, 30, 2]])
def test_every_token_is_as_near_to_exact_as_guaranteed_and_the_state_does_not_grow(
    dtype: torch.dtype, pieces: list[int]
) -> None:
    query, key, value = (t.to(dtype) for t in bounded(radius=0.9, n=sum(pieces), group=3))
    certificate = stated(dtype=dtype)
    state = DecodeState(certificate, centre=key.double().mean(-2, keepdim=True))
    sizes, start = set(), 0
    for count in pieces:
        stop = start + count
        state.append(key[:, :, start:stop], value[:, :, start:stop])
        output = state.attend(query[:, :, stop - 1 : stop])
        wanted = exact(query[:, :, stop - 1 : stop], key[:, :, :stop], value[:, :, :stop])
        assert furthest(output, wanted) <= certificate.guaranteed_change
        sizes.add(state.state_words)
        start = stop
    assert state.length == sum(pieces)
    assert sizes == {2 * certificate.features * (5 + 1)}


def test_many_queries_at_once_are_each_query_alone() -> None:
    query, key, value = bounded(radius=0.9, n=40)
    state = DecodeState(stated(), centre=key.mean(-2, keepdim=True))
    state.append(key, value)
    alone = [state.attend(query[:, :, i : i + 1]) for i in range(40)]
    torch.testing.assert_close(state.attend(query), torch.cat(alone, dim=2))


def test_rows_beyond_the_certificate_are_refused() -> None:
    query, key, value = bounded(radius=0.9)
    state = DecodeState(stated(), centre=key.mean(-2, keepdim=True))
    with pytest.raises(InvalidInput, match="no token was appended"):
        state.attend(query)
    state.append(key, value)
    with pytest.raises(InvalidInput, match="over the 1 of the certificate"):
        state.attend(query * 2)
    with pytest.raises(InvalidInput, match="do not belong"):
        state.attend(query[:, :1, :, :5])
    with pytest.raises(InvalidInput, match="start a new state"):
        state.append(key[:, :1], value[:, :1])
    with pytest.raises(InvalidInput, match="not finite"):
        state.append(key * float("inf"), value)
    with pytest.raises(InvalidInput, match="use exact"):
        DecodeState(stated(radius=30.0))


def test_tokens_beyond_what_the_certificate_says_of_values_types_and_keys_are_refused_and_leave_no_trace() -> None:
    query, key, value = (t.float() for t in bounded(radius=0.9))
    state = DecodeState(stated(keys=100), centre=key.mean(-2, keepdim=True))
    state.append(key, value)
    before = state.attend(query)
    for more, said in (
        ((key[:, :, :5], value[:, :, :5] + 1e6), "values reach 1e\\+06, over the 1.305"),
        ((key[:, :, :5].bfloat16(), value[:, :, :5].bfloat16()), "is for fp32 and tensors are bf16"),
        ((key[:, :, :11], value[:, :, :11]), "is for 100 keys and there are 101"),
    ):
        with pytest.raises(InvalidInput, match=said):
            state.append(*more)
    with pytest.raises(InvalidInput, match="tensors are fp16"):
        state.attend(query.half())
    assert torch.equal(state.attend(query), before)


def test_values_that_drift_apart_are_refused_even_if_each_append_is_narrow() -> None:
    _, key, value = bounded(radius=0.9)
    scores = Scores(d=8, keys=1000, radius=1.0, value_bound=9.0, value_radius=1.0)
    state = DecodeState(certificate_for(scores, Terms(tolerance=0.1)), centre=key.mean(-2, keepdim=True))
    state.append(key, value)
    with pytest.raises(InvalidInput, match="half the range of values is"):
        state.append(key, value + 4)


def test_tokens_that_attain_the_bounds_are_within_them() -> None:
    ones = torch.full((1, 1, 3, 5), 0.4)
    bounds = EntryBounds.all(float(np.float32(0.4)))
    state = DecodeState(certificate_for(Scores.from_entries(bounds, d=5, keys=3), Terms(tolerance=0.1)))
    state.append(ones, ones)
    assert furthest(state.attend(-ones), ones) <= state.certificate.guaranteed_change
    with pytest.raises(InvalidInput, match=r"scores may reach 0.35777\d+, over the 0.35777\d+ of"):
        state.attend(ones * (1 + 1e-6))


def test_a_certificate_from_every_score_is_not_for_tokens_to_come() -> None:
    query, key, value = (t[0, 0].float().numpy() for t in bounded(radius=0.5, heads=1))
    (found,) = certify(AttentionData.of(query, key, value), Terms(tolerance=0.1))
    with pytest.raises(InvalidInput, match="tokens to come are others; use one from entry bounds"):
        DecodeState(found.certificate)
