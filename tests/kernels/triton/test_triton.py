"""The Triton kernels, interpreted, against the CPU kernels, which are held against the definition in test_attention."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from tests.kernels.records import portable

from attenio.kernels import cpu, triton
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, with_sink
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.arguments import Shape, columns_of, grouped_heads
from attenio.kernels.triton.choice import TwoPassTiles, choices
from attenio.kernels.triton.tiles import BackwardTiles, ForwardTiles
from attenio.masks import BlockSparse


def problem_of(shape, dtype=torch.float32, *, bias=None, prefix=0, scale=None, softcap=0.0, latent=False, **options):
    batch, kv_heads, group, queries, keys, d, width = shape
    q = torch.randn(batch, kv_heads * group, queries, d).to(dtype)
    k, v = torch.randn(batch, kv_heads, keys, d).to(dtype), torch.randn(batch, kv_heads, keys, width).to(dtype)
    k[:, :, :prefix], v[:, :, :prefix] = k[:1, :, :prefix], v[:1, :, :prefix]
    v = k[..., :width] if latent else v
    visible = visibility_of(q, k, CallArguments(attn_mask=bias, **options), (batch,))
    factor = d**-0.5 if scale is None else scale
    return KernelProblem.of_heads(q, k, v, visible, factor, prefix=prefix, softcap=softcap)


CASES = {
    "dense": lambda: problem_of((1, 1, 1, 40, 40, 16, 16)),
    "ragged widths in groups": lambda: problem_of((2, 1, 2, 37, 53, 24, 40)),
    "causal": lambda: problem_of((1, 1, 2, 50, 50, 16, 16), is_causal=True),
    "window": lambda: problem_of((1, 1, 1, 70, 90, 16, 16), window=9),
    "packed sequences": lambda: problem_of(
        (1, 2, 1, 60, 60, 16, 16), cu_seqlens=torch.tensor([0, 13, 30, 60]), is_causal=True
    ),
    "ids of tokens": lambda: problem_of((1, 1, 1, 45, 45, 16, 16), segment_ids=torch.arange(45) * 3 // 45),
    "blocks": lambda: problem_of(
        (1, 1, 1, 40, 40, 16, 16), block_mask=BlockSparse.from_array(np.eye(5, dtype=bool), query_block=8, key_block=8)
    ),
    "a bias": lambda: problem_of((1, 1, 1, 33, 47, 16, 16), bias=torch.randn(1, 1, 33, 47)),
    "a bias of other strides": lambda: problem_of((2, 1, 2, 20, 25, 16, 16), bias=torch.randn(2, 1, 25, 20).mT),
    "a bias expanded over heads": lambda: problem_of(
        (2, 1, 2, 20, 25, 16, 16), bias=torch.randn(2, 1, 20, 25).expand(2, 2, 20, 25)
    ),
    "a boolean mask that hides a row": lambda: problem_of(
        (2, 1, 1, 33, 47, 16, 16), bias=(torch.rand(1, 1, 33, 47) > 0.5) & (torch.arange(33)[:, None] != 5)
    ),
    "a negative scale": lambda: problem_of((1, 1, 1, 20, 20, 16, 16), scale=-0.3),
    "huge logits": lambda: problem_of((1, 1, 1, 20, 20, 16, 16), scale=1e4),
    "a cap": lambda: problem_of((1, 1, 2, 37, 53, 16, 16), softcap=0.7, is_causal=True),
    "a cap beside a bias": lambda: problem_of(
        (1, 1, 1, 33, 47, 16, 16), softcap=5.0, bias=torch.randn(1, 1, 33, 47), scale=-3.0
    ),
    "a cap in decode": lambda: problem_of((2, 1, 4, 1, 260, 16, 16), softcap=2.0, scale=1.0),
    "keys of 576 columns": lambda: problem_of((1, 1, 2, 3, 20, 576, 512)),
    "decode": lambda: problem_of((2, 1, 4, 1, 260, 16, 16)),
    "decode in a window": lambda: problem_of((2, 1, 4, 1, 260, 16, 16), window=100),
    "a shared prefix": lambda: problem_of((3, 1, 2, 2, 150, 16, 16), prefix=100),
    "nothing but a prefix": lambda: problem_of((3, 1, 4, 1, 100, 16, 16), prefix=100),
}

# Gradients take keys and values apart.
LATENTS = {
    "latents": lambda: problem_of((1, 2, 2, 70, 53, 40, 24), latent=True, is_causal=True),
    "latents without more columns": lambda: problem_of((1, 1, 1, 70, 40, 24, 24), latent=True),
    "decode from latents": lambda: problem_of((2, 1, 70, 1, 300, 48, 32), latent=True, scale=-0.1),
    "decode from ragged latents": lambda: problem_of((2, 1, 5, 3, 260, 29, 21), latent=True, window=100, softcap=3.0),
    "decode from latents behind a prefix": lambda: problem_of((3, 1, 8, 1, 300, 40, 32), latent=True, prefix=200),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def problem(request):
    torch.manual_seed(0)
    return request.param()


def assert_close(mine, theirs, unit):
    assert mine.isfinite().all()
    size = max(1.0, float(theirs.abs().max()))
    assert float((mine.reshape(theirs.shape) - theirs).abs().max()) <= 64 * unit * size


@pytest.mark.parametrize("group", [1, 2])
def test_heads_that_lie_between_tokens_are_read_where_they_are(group):
    """As (batch, tokens, heads, width) have them: nothing is copied, and gradients are those of the CPU."""
    torch.manual_seed(0)
    q, k, v, gradient = (torch.randn(2, 21, heads, 16).transpose(1, 2) for heads in (2 * group, 2, 2, 2 * group))
    problem = KernelProblem.of_heads(q, k, v, Visibility(group=group), 0.25)
    grouped = grouped_heads(problem.query)
    assert grouped.data_ptr() == q.data_ptr() and grouped.stride(2) == q.stride(1)
    assert torch.equal(grouped, problem.query)
    saved = (*triton.attend(problem)[:3], gradient.unflatten(1, (2, group)))
    both = triton.gradients(problem, saved), cpu.two_pass(problem, cpu.Saved(*saved))
    for part in ("query", "key", "value"):
        assert_close(*(getattr(found, part) for found in both), torch.finfo(torch.float32).eps)


def test_the_forward_pass_gives_what_the_cpu_gives(problem):
    mine, theirs = triton.attend(problem), cpu.attend(problem)
    assert_close(mine.output, theirs.output, torch.finfo(torch.float32).eps * max(1.0, abs(problem.scale)))


@pytest.mark.parametrize("case", LATENTS)
def test_values_in_keys_are_loaded_with_them(case):
    torch.manual_seed(0)
    problem = LATENTS[case]()
    apart = replace(problem, value=problem.value.clone())
    assert triton.choose(problem).values_in_keys and not triton.choose(apart).values_in_keys
    mine, theirs = triton.attend(problem), cpu.attend(apart)
    assert_close(mine.output, theirs.output, torch.finfo(torch.float32).eps)
    assert_close(mine.largest + mine.total.log2(), theirs.largest + theirs.total.log2(), torch.finfo(torch.float32).eps)


@pytest.mark.parametrize("case", ["causal", "a boolean mask that hides a row", "decode", "a shared prefix"])
def test_sinks_are_one_weight_more(case):
    problem = CASES[case]()
    sinks = torch.randn(problem.kv_heads * problem.group) * 3
    mine, plain = triton.attend(replace(problem, sinks=sinks)), cpu.attend(problem)
    largest, total, share = with_sink(
        plain.largest, plain.total, (sinks * LOG2_E).view(problem.kv_heads, problem.group, 1)
    )
    assert_close(mine.output, plain.output * share[..., None], torch.finfo(torch.float32).eps)
    torch.testing.assert_close(mine.largest + mine.total.log2(), largest + total.log2(), atol=1e-5, rtol=1e-5)


def test_the_gradients_are_those_of_the_cpu(problem):
    forward = triton.attend(problem)
    saved = (forward.output, forward.largest, forward.total, torch.randn_like(forward.output))
    adds = problem.visible.adds  # a bias has a gradient too
    mine = triton.gradients(problem, saved, with_bias=adds)
    theirs = cpu.two_pass(problem, cpu.Saved(*saved), with_bias=adds)
    assert adds == (mine.bias is not None) == (theirs.bias is not None)
    for part in ("query", "key", "value", *(("bias",) if adds else ())):
        unit = torch.finfo(torch.float32).eps * max(1.0, abs(problem.scale)) ** 2
        assert_close(getattr(mine, part), getattr(theirs, part), unit)


@pytest.mark.parametrize("case", ["ragged widths in groups", "causal", "window", "packed sequences"])
def test_waves_that_walk_backwards_give_the_same(case, monkeypatch):
    torch.manual_seed(0)
    problem = CASES[case]()
    tiles = ForwardTiles(row_tile=16, key_tile=16, pack=1, warps=4, stages=1, splits_keys=False)
    modules = [import_module(f"attenio.kernels.triton.{name}") for name in ("forward", "backward")]
    for module in modules:
        monkeypatch.setattr(module, "turn_of", lambda _grid: 2)
    backward = BackwardTiles(stationary=16, passing=16, warps=4, stages=1)
    passes = TwoPassTiles(query_gradient=backward, key_gradients=backward)
    choice = replace(triton.choose_backward(problem), kernel=passes)
    whole = replace(triton.choose(problem), kernel=tiles, split=None)
    unit, forward = torch.finfo(torch.float32).eps, triton.run(problem, whole)
    assert_close(forward.output, cpu.attend(problem).output, unit)
    saved = (forward.output, forward.largest, forward.total, torch.randn_like(forward.output))
    mine, theirs = triton.run_backward(problem, saved, choice), cpu.two_pass(problem, cpu.Saved(*saved))
    for part in ("query", "key", "value"):
        assert_close(getattr(mine, part), getattr(theirs, part), unit)


def test_a_call_tells_the_grids_that_it_launches():
    forward, backward = (
        triton.grids(problem_of((1, 2, 2, 100, 300, 16, 16)), backward=backward) for backward in (False, True)
    )
    assert [(grid.units, grid.rows, grid.passing, grid.sharing) for grid in (*forward, *backward)] == [
        (4, 100, 300, 2), (4, 100, 300, 2), (2, 300, 200, 1),
    ]  # fmt: skip
    (decode,) = triton.grids(problem_of((2, 3, 4, 1, 300, 16, 16)), backward=False)
    assert (decode.units, decode.tiles, decode.sweep_bytes) == (6, 1, 300 * 32 * 4)


@pytest.mark.parametrize(("d", "width"), [(264, 264), (320, 40), (24, 384), (290, 400)])
def test_wide_heads_are_two_tiles_of_columns_side_by_side(d, width):
    torch.manual_seed(0)
    problem = problem_of((1, 2, 2, 20, 40, d, width))
    columns = columns_of(Shape.of(problem).widths)
    assert columns.d_beyond or columns.width_beyond
    (choice, *_) = choices(Shape.of(problem), 4, splits_keys=False)
    mine, theirs = triton.run(problem, choice), cpu.attend(problem)
    assert_close(mine.output, theirs.output, torch.finfo(torch.float32).eps)
    assert_close(mine.largest + mine.total.log2(), theirs.largest + theirs.total.log2(), torch.finfo(torch.float32).eps)


def test_half_precision_is_rounded_once():
    torch.manual_seed(0)
    narrow = problem_of((1, 1, 2, 20, 70, 32, 32), torch.float16)
    wide = KernelProblem(
        query=narrow.query.float(), key=narrow.key.float(), value=narrow.value.float(),
        visible=narrow.visible, scale=narrow.scale,
    )  # fmt: skip
    error = (triton.attend(narrow).output.float() - cpu.attend(wide).output).abs().max()
    assert float(error) <= 4 * torch.finfo(torch.float16).eps


def test_dropout_keeps_the_expectation_and_repeats():
    from attenio.kernels.call.dropout import Dropout

    torch.manual_seed(0)
    q, k = torch.zeros(1, 1, 64, 16), torch.randn(1, 1, 64, 16)
    visible = Visibility(group=1)
    dropout = Dropout(probability=0.3, seed=7)
    problem = KernelProblem.of_heads(q, k, torch.ones(1, 1, 64, 16), visible, 1.0, dropout=dropout)
    once, again = triton.attend(problem).output, triton.attend(problem).output
    assert torch.equal(once, again)
    kept = once[..., 0].flatten()  # the share of 64 equal weights that was kept, over 0.7
    assert abs(float(kept.mean()) - 1.0) < 4 * (0.3 / 0.7 / 4096) ** 0.5
    assert len(torch.unique((kept * 0.7 * 64).round())) > 5


_COMPILES = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from attenio.kernels.triton.attenio import attenio_kernel
from attenio.kernels.triton.split_keys import split_keys_kernel
from attenio.kernels.triton.two_pass import key_gradients_kernel, query_gradient_kernel

SINGLE = {"Largest", "Total", "Sums", "Statistics", "PrefixSums", "PrefixStatistics", "Delta"}
ELEMENTS = {"Q", "K", "V", "O", "dO", "dQ", "dK", "dV"}
NOTHING = dict.fromkeys(("First", "Stop", "QueryIds", "KeyIds", "Blocks", "Bias", "Seed", "softcap", "Sinks", "dBias",
                         "RowStart", "RowStop", "PrefixSums", "PrefixStatistics"))
FIXED = dict(D=64, WIDTH=64, D_PADDED=64, W_PADDED=64, BOOLEAN=False, LOG2_E=1.4427, PRECISION="ieee", ALIGN=8,
             BIAS_ALIGN=8, ALWAYS_HIDES=False, D_BEYOND=0, W_BEYOND=0, **NOTHING)

def instructions(kernel, capped=False, **more):
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name == "softcap" and capped:
            signature[name] = "fp32"
        elif name in FIXED | more:
            signature[name], constants[(index,)] = "constexpr", (FIXED | more)[name]
        elif name.endswith("_d"):
            signature[name], constants[(index,)] = "constexpr", 1
        else:
            signature[name] = ("*i32" if name == "Arrived" else "*fp32" if name in SINGLE
                               else "*bf16" if name in ELEMENTS
                               else "fp32" if name in ("scale", "softmax_scale", "probability") else "i32")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    built = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})
    return built.asm["ptx"].count("wgmma.mma_async"), built.asm["ptx"].count("mma.sync")

split = dict(PACK=4, SPLITS=2, PREFIX_SPLITS=0, JOINS=True)
print(instructions(attenio_kernel, ROW_TILE=64, KEY_TILE=64, PACK=1)[0] > 0,
      instructions(split_keys_kernel, ROW_TILE=16, KEY_TILE=64, **split)[1] > 0,
      instructions(query_gradient_kernel, True, ROW_TILE=64, KEY_TILE=64)[0] > 0,
      instructions(key_gradients_kernel, True, ROW_TILE=64, KEY_TILE=64)[0] > 0,
      instructions(split_keys_kernel, ROW_TILE=64, KEY_TILE=32, V=None, D=192, WIDTH=128, D_PADDED=64, W_PADDED=128,
                   **split)[0] > 0)
"""


def test_every_kernel_compiles_for_hopper_to_tensor_core_instructions():
    assert portable(_COMPILES).split() == ["True"] * 5
