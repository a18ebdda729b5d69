import pytest
import torch
from tests.approximation.running.problems import bounded, exact, furthest

from attenio.approximation import Certificate, Scores, Terms, certificate_for
from attenio.approximation.running import DecodeState
from attenio.errors import InvalidInput


def stated(radius: float = 1.0, tolerance: float = 1e-2, d: int = 8) -> Certificate:
    return certificate_for(Scores(d=d, keys=10_000, radius=radius, value_bound=1.3), Terms(tolerance=tolerance))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 1, 30, 2]])
def test_every_token_is_as_near_to_exact_as_guaranteed_and_the_state_does_not_grow(
    dtype: torch.dtype, pieces: list[int]
) -> None:
    query, key, value = (t.to(dtype) for t in bounded(radius=0.9, n=sum(pieces), group=3))
    certificate = stated()
    state = DecodeState(certificate, centre=key.double().mean(-2, keepdim=True))
    sizes, start = set(), 0
    for count in pieces:
        stop = start + count
        state.append(key[:, :, start:stop], value[:, :, start:stop])
        output = state.attend(query[:, :, stop - 1 : stop])
        wanted = exact(query[:, :, stop - 1 : stop], key[:, :, :stop], value[:, :, :stop])
        rounded = 1.3 * torch.finfo(dtype).eps
        assert furthest(output, wanted) <= certificate.guaranteed_change + rounded
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
