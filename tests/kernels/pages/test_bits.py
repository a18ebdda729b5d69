"""Keys and values of 8 bits: factors per page and head, and how far outputs move."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attenio import attention
from attenio.kernels.call.pages.bits import LARGEST, dequantised, quantised
from kernels.pages.paging import Requests, exact

KINDS = sorted(LARGEST, key=str)


@given(st.sampled_from(KINDS), st.floats(-30, 30), st.integers(0, 2**31))
def test_every_entry_is_within_half_a_step_of_its_page_and_head(kind, exponent, seed):
    drawn = torch.Generator().manual_seed(seed)
    pages = torch.randn(3, 16, 2, 8, generator=drawn) * 2**exponent
    pages[0, :, 1] = 0.0
    entries, scales = quantised(pages, kind)
    largest = pages.abs().amax((1, 3), keepdim=True)
    off = (dequantised(entries, scales) - pages).abs()
    # Half a step of an integer; or 1/16 of the entry itself, and half the least step of e4m3.
    step = largest / 254 if kind == torch.int8 else pages.abs() / 16 + scales[:, None, :, None] * 2**-10
    assert (off <= step * 1.0001).all()
    assert (scales[0, 1] == 0).all()


def test_factors_of_e4m3_are_powers_of_two():
    _, scales = quantised(torch.randn(50, 16, 2, 8), torch.float8_e4m3fn)
    assert (torch.frexp(scales).mantissa == 0.5).all()


def test_what_is_no_number_stays_none():
    pages = torch.randn(2, 16, 1, 8)
    pages[0, 3, 0, 2] = torch.nan
    for kind in KINDS:
        entries, scales = quantised(pages, kind)
        wide = dequantised(entries, scales)
        assert wide[0].isnan().any() and wide[1].isfinite().all()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("size", [16, 64])
def test_attention_on_pages_of_8_bits_is_that_of_the_numbers_they_stand_for(kind, size):
    requests = Requests([150, 40], [1, 3], page_size=size, width=(8, 16), prefix=64, dtype=torch.float32)
    requests.k[::2] *= 20  # pages whose factors differ
    requests.v[1::2] *= 100
    (requests.k, of_keys), (requests.v, of_values) = (quantised(x, kind) for x in (requests.k, requests.v))
    output = attention(
        requests.q, requests.k, requests.v, pages=requests.table, lengths=requests.lengths,
        cu_seqlens=requests.starts, page_scales=(of_keys, of_values), is_causal=True,
    )  # fmt: skip
    right, _ = exact(requests, causal=True, scales=(of_keys, of_values))
    torch.testing.assert_close(output.double(), right, rtol=1e-4, atol=1e-4 * float(right.abs().max()))


@pytest.mark.parametrize(("kind", "most"), [(torch.int8, 0.02), (torch.float8_e4m3fn, 0.06)], ids=str)
def test_outputs_of_8_bits_are_as_far_from_those_of_full_precision_as_is_told(kind, most):
    requests = Requests([500, 300, 200], [1, 1, 1], page_size=64, width=(64, 64), dtype=torch.float32)
    right, _ = exact(requests)
    (requests.k, of_keys), (requests.v, of_values) = (quantised(x, kind) for x in (requests.k, requests.v))
    found, _ = exact(requests, scales=(of_keys, of_values))
    error = float((found - right).norm() / right.norm())
    assert most / 20 < error < most


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("wants_lse", [False, True])
def test_a_factor_that_is_no_number_stays_in_the_request_that_has_its_page(kind, wants_lse):
    requests = Requests([40, 5, 0], [1, 1, 1], dtype=torch.float32)
    requests.table[1:, 1:] = requests.table[0, 0]  # places past the last key may name any page
    (k, of_keys), (v, of_values) = quantised(requests.k, kind), quantised(requests.v, kind)
    of_values[requests.table[0, 0]] = torch.nan
    output = attention(
        requests.q.unflatten(1, (3, 1)).transpose(0, 1), k, v, pages=requests.table, lengths=requests.lengths,
        page_scales=(of_keys, of_values), return_lse=wants_lse,
    )  # fmt: skip
    output = output[0] if wants_lse else output
    assert output[0].isnan().all() and output[1:].isfinite().all()
    requests.k, requests.v = k, v
    right, _ = exact(requests, scales=(of_keys, of_values))
    torch.testing.assert_close(output[1].double(), right.transpose(0, 1)[1][:, None], rtol=1e-4, atol=1e-4)
