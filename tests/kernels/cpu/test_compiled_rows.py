"""The compiled kernel for few rows, called as such: on every processor, whether attention() would choose it or not."""

import pytest
import torch
from tests.kernels.definition import definition

from attenio import attention
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.cpu import compiled_rows
from attenio.kernels.cpu.compiled_rows import can_compile
from attenio.kernels.cpu.compiled_rows import compiled_rows as sums_of
from attenio.kernels.cpu.few_rows import TILE
from attenio.kernels.cpu.online_softmax import merged

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def problem(batch, heads, rows, keys, d, width, dtype=torch.float32, scale=None):
    query = torch.randn(batch, heads, rows, 1, d).to(dtype)
    key, value = torch.randn(batch, heads, keys, d).to(dtype), torch.randn(batch, heads, keys, width).to(dtype)
    return KernelProblem(
        query=query, key=key, value=value, visible=Visibility(group=rows), scale=d**-0.5 if scale is None else scale
    )


def attended(given, key=None, value=None):
    """By the definition, in double precision."""
    q, k, v = given.query.flatten(1, 2), given.key if key is None else key, given.value if value is None else value
    return definition(q.double(), k.double(), v.double(), scale=given.scale).flatten(1, 2)


def output(sums, given):
    return sums.normalised().reshape(given.batch, -1, given.value.shape[-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8, 33, 64])
def test_any_number_of_rows_over_any_number_of_keys(rows, dtype):
    for keys, d, width in ((1, 64, 16), (TILE - 1, 8, 20), (TILE, 4, 4), (3 * TILE + 5, 24, 36)):
        given = problem(2, 2, rows, keys, d, width, dtype)
        found = output(sums_of(given, given.everything), given)
        torch.testing.assert_close(found.double(), attended(given), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("scale", [3.0, -2.0, 0.0])
def test_any_scale(scale):
    given = problem(1, 2, 5, 131, 16, 16, scale=scale)
    found = output(sums_of(given, given.everything), given)
    torch.testing.assert_close(found.double(), attended(given), atol=1e-5, rtol=1e-5)


def test_any_strides():
    given = problem(2, 3, 4, 150, 32, 16)
    laid = [x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3) for x in (given.key, given.value)]
    turned = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (given.key, given.value)]
    want = output(sums_of(given, given.everything), given)
    for key, value in (laid, turned):
        other = KernelProblem(query=given.query, key=key, value=value, visible=given.visible, scale=given.scale)
        assert torch.equal(output(sums_of(other, other.everything), other), want)


def test_runs_of_keys_join_to_the_whole():
    given = problem(1, 2, 8, 300, 32, 32)
    parts = [given.everything._replace(keys=slice(*ends)) for ends in ((0, 1), (1, 170), (170, 300))]
    joined = output(merged([sums_of(given, part) for part in parts]), given)
    torch.testing.assert_close(joined.double(), attended(given), atol=1e-6, rtol=1e-6)


def test_what_is_no_number_stays_none_and_keys_behind_the_last_are_not_read():
    given = problem(1, 1, 4, 70, 16, 16)
    given.value[0, 0, 69] = torch.inf
    assert output(sums_of(given, given.everything), given).isinf().all()
    given.key[0, 0, 3] = torch.nan
    assert output(sums_of(given, given.everything), given).isnan().all()
    clean = problem(1, 1, 4, 70, 16, 16)
    clean.key[0, 0, 65:] = torch.nan
    clean.value[0, 0, 65:] = torch.nan
    part = clean.everything._replace(keys=slice(0, 65))
    want = attended(clean, clean.key[:, :, :65], clean.value[:, :, :65])
    torch.testing.assert_close(output(sums_of(clean, part), clean).double(), want, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("prefix", [None, 700])
def test_attention_is_the_same_with_and_without_it(monkeypatch, prefix, dtype):
    q = torch.randn(6, 8, 1, 32).to(dtype)
    k, v = (torch.randn(1, 2, 1000, 32).to(dtype).repeat(6, 1, 1, 1) for _ in "kv")
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(compiled_rows, "_is_here", lambda compiled=compiled: compiled)
        found.append(attention(q, k, v, enable_gqa=True, prefix=prefix))
    torch.testing.assert_close(*found)


def test_it_is_chosen_for_few_rows_over_many_keys_only(monkeypatch):
    monkeypatch.setattr(compiled_rows, "_is_here", lambda: True)
    assert can_compile(problem(1, 1, 8, 2048, 64, 64), 2048)
    assert not can_compile(problem(1, 1, 65, 2048, 64, 64), 2048)  # many rows
    assert not can_compile(problem(1, 1, 8, 64, 64, 64), 64)  # little work
    assert not can_compile(problem(1, 1, 8, 2048, 63, 64), 2048)  # a width that vectors do not divide
    assert not can_compile(problem(1, 1, 8, 2048, 64, 64, torch.float64), 2048)
    monkeypatch.setattr(compiled_rows, "_is_here", lambda: False)
    assert not can_compile(problem(1, 1, 8, 2048, 64, 64), 2048)
