"""Products of fp32 as six of bf16, which tensor cores would compute, in the interpreter."""

from importlib import import_module

import pytest

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from attenio.kernels import cpu
from attenio.kernels import triton as kernels
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.arguments import Shape, Widths, _widths, columns_of
from attenio.kernels.gpu.band import Band
from attenio.kernels.triton.products import add_product, product
from attenio.kernels.triton.tiles import backward_tiles, forward_tiles

INF, NAN = float("inf"), float("nan")
SIZE = 16


@pytest.fixture(autouse=True)
def products_of_bf16(monkeypatch):
    """The interpreter keeps bf16 as 16 bits, and its products take these for integers."""
    plain = interpreter.InterpreterBuilder.create_dot

    def single(handle):
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        numbers = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(numbers, tl.float32)

    def create_dot(self, a, b, *rest):
        return plain(self, single(a), single(b), *rest)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)


@triton.jit
def _multiply(A, B, C, ADDS: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    a, b = tl.load(A + at), tl.load(B + at)
    if ADDS:  # noqa: SIM108 - a constant
        result = add_product(a, b, tl.zeros([16, 16], tl.float32), PRECISION)
    else:
        result = product(a, b, PRECISION)
    tl.store(C + at, result)


def multiplied(a, b, *, adds, precision="bf16x6"):
    result = torch.empty(SIZE, SIZE)
    _multiply[(1,)](a, b, result, ADDS=adds, PRECISION=precision)
    return result


@pytest.mark.parametrize("adds", [False, True])
def test_six_products_are_as_exact_as_single_precision(adds):
    a, b = torch.randn(2, SIZE, SIZE)
    exact, sizes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert float(((multiplied(a, b, adds=adds).double() - exact).abs() / sizes).max()) <= 4 * 2.0**-24


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize(
    ("left", "right"), [(1.0, INF), (0.3, INF), (0.7, -INF), (0.0, INF), (1.1, NAN), (2.0**-20, INF)]
)
def test_infinite_entries_give_what_single_precision_gives(adds, left, right):
    """Values of which some are infinite, beside weights of any kind; of scores also on the other side."""
    a, b = torch.rand(2, SIZE, SIZE)
    a[3, 5], b[5, 7] = left, right
    for first, second in ((a, b),) if adds else ((a, b), (b.mT.contiguous(), a.mT.contiguous())):
        torch.testing.assert_close(multiplied(first, second, adds=adds), first @ second, equal_nan=True)


def test_an_infinite_entry_of_either_sign_makes_a_score_infinite():
    a, b = -torch.rand(SIZE, SIZE) - 0.5, torch.rand(SIZE, SIZE)
    b[2] = INF
    assert torch.equal(multiplied(a, b, adds=False), torch.full((SIZE, SIZE), -INF))


@pytest.mark.parametrize("adds", [False, True])
def test_huge_and_tiny_numbers_keep_their_digits(adds):
    a, b = torch.randn(2, SIZE, SIZE)
    a, b = a * 2.0**100, b * 2.0**-100
    torch.testing.assert_close(multiplied(a, b, adds=adds), a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [16, 24])
def test_gradients_in_parts_are_those_of_the_cpu(width, monkeypatch):
    """Keys past the end of a tile, and values whose width is no power of two."""
    monkeypatch.setattr(import_module("attenio.kernels.triton.launching"), "precision_of", lambda _: "bf16x6")
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 70, 16), torch.randn(1, 1, 90, 16), torch.randn(1, 1, 90, width)
    problem = KernelProblem.of_heads(q, k, v, Visibility(group=2), 0.25)
    forward = kernels.attend(problem)
    saved = (*forward[:3], torch.randn_like(forward.output))
    mine, theirs = kernels.gradients(problem, saved), cpu.two_pass(problem, cpu.Saved(*saved))
    for part in ("query", "key", "value"):
        found, expected = getattr(mine, part), getattr(theirs, part)
        torch.testing.assert_close(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [16, 32, 64, 128, 256])
def test_tiles_in_parts_have_one_stage_and_no_more_passes_than_stays(width):
    shape = Shape(64, 1, 2048, 2048, Widths(width, width, width, width), 4, Band())
    forward, backward = forward_tiles(shape, 132), [each for tiles in backward_tiles(shape) for each in tiles]
    assert {tiles.stages for tiles in (*forward, *backward)} == {1}
    assert all(tiles.passing <= tiles.stationary for tiles in backward)
    assert len(set(forward)) == len(forward)


@pytest.mark.parametrize(
    ("d", "width"), [(8, 8), (16, 24), (32, 32), (64, 16), (72, 72), (264, 264), (320, 128), (576, 512)]
)
def test_tiles_that_wgmma_takes_in_parts_have_2048_entries_or_more_of_64_columns_at_least(d, width):
    """Smaller and narrower ones were read past their end."""
    shape = Shape(64, 1, 2048, 2048, _widths(d, width, 4), 4, Band())
    few = shape._replace(queries=4, group=16)
    columns = [each for each in columns_of(shape.widths) if each]
    assert min(columns) >= 64
    for tiles in (*forward_tiles(shape, 132), *forward_tiles(few, 132, splits_keys=True)):
        assert tiles.row_tile < 64 or tiles.key_tile * min(columns) >= 2048
    for tiles in (each for both in backward_tiles(shape) for each in both):
        assert tiles.stationary < 64 or tiles.passing * min(shape.widths[2:]) >= 2048
