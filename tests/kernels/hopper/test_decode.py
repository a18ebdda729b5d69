"""Decode on Hopper without one: its host logic, its own source interpreted against the CPU, and what it compiles to."""

from dataclasses import replace

import pytest
import torch
from gluon_interpreter import TmaDescriptor, interpreted, launch
from hypothesis import given
from hypothesis import strategies as st
from offline_compiler import instructions_of

from attenio.kernels import cpu
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, with_sink
from attenio.kernels.call.stacking import stacked
from attenio.kernels.gpu import counters
from attenio.kernels.hopper import decode
from attenio.kernels.hopper.decode import decode_tiles, splits_for
from attenio.kernels.triton.forward import SplitResults

TILES = decode_tiles(4, 128, 128)


@given(st.integers(1, 600), st.integers(-3, 10**6), st.integers(1, 200))
def test_runs_are_whole_tiles_that_cover_every_key_once(units, keys, processors):
    run, splits = splits_for(TILES, units, keys, processors)
    assert run % TILES.key_tile == 0
    assert run * splits >= keys
    assert run * (splits - 1) < max(1, keys)


def test_runs_fill_the_gpu_once_where_there_is_one_sequence():
    assert splits_for(TILES, 8, 8192, 132) == (512, 16)
    assert splits_for(TILES, 8, 131072, 132) == (8192, 16)
    assert splits_for(TILES, 512, 8192, 132) == (8192, 1)


@given(st.integers(1, 64), st.sampled_from([32, 64, 128, 256]), st.sampled_from([32, 64, 128, 256]))
def test_tiles_fit_an_sm_and_every_warp_has_keys(rows, d, width):
    rows = rows if max(d, width) <= 128 else min(rows, 32)
    tiles = decode_tiles(rows, d, width)
    assert rows <= tiles.rows == 16 * tiles.row_warps
    assert tiles.key_tile >= 16 * tiles.key_warps
    assert tiles.stages >= 2
    held = tiles.rows * d + tiles.stages * tiles.key_tile * (d + width)
    assert 2 * held <= 227 * 2**10
    merged = 4 * tiles.key_warps * tiles.rows * (width + 8)
    assert merged <= 2 * tiles.stages * tiles.key_tile * width, "warps meet where the values were"


def problem_of(shape, dtype=torch.bfloat16, *, bias=None, prefix=0, **options):
    batch, kv_heads, group, queries, keys, d, width = shape
    q = torch.randn(batch, kv_heads * group, queries, d).to(dtype)
    k, v = torch.randn(batch, kv_heads, keys, d).to(dtype), torch.randn(batch, kv_heads, keys, width).to(dtype)
    k[:, :, :prefix], v[:, :, :prefix] = k[:1, :, :prefix], v[:1, :, :prefix]
    visible = visibility_of(q, k, CallArguments(attn_mask=bias, **options), (batch,))
    return KernelProblem.of_heads(q, k, v, visible, d**-0.5, prefix=prefix)


CASES = {
    "decode": lambda: problem_of((1, 2, 4, 1, 700, 64, 64)),
    "ragged widths": lambda: problem_of((2, 1, 3, 1, 777, 96, 40), torch.float16),
    "several queries": lambda: problem_of((1, 1, 4, 7, 500, 64, 64)),
    "64 rows under a mask": lambda: problem_of((1, 1, 8, 8, 300, 128, 128), bias=torch.rand(1, 1, 8, 300) > 0.5),
    "causal": lambda: problem_of((1, 1, 4, 5, 500, 64, 64), is_causal=True),
    "a window of several queries": lambda: problem_of((1, 1, 4, 5, 500, 64, 64), window=99),
    "a window of one query": lambda: problem_of((1, 2, 4, 1, 900, 64, 64), window=300),
    "a mask of sequences": lambda: problem_of((2, 1, 4, 1, 500, 64, 64), bias=torch.rand(2, 1, 1, 500) > 0.5),
    "a mask that masked everything": lambda: problem_of((1, 1, 4, 1, 200, 64, 64), bias=torch.rand(1, 1, 1, 200) > 2),
    "a mask of heads": lambda: problem_of((2, 1, 4, 2, 500, 64, 64), bias=torch.rand(1, 4, 2, 500) > 0.5),
    "a bias": lambda: problem_of((2, 1, 4, 2, 500, 64, 64), bias=torch.randn(2, 4, 1, 500)),
    "one key": lambda: problem_of((1, 1, 1, 1, 1, 64, 64)),
    "a shared prefix": lambda: problem_of((3, 1, 4, 2, 400, 64, 40), prefix=150),
    "a shared prefix before many own keys": lambda: problem_of((2, 1, 4, 1, 900, 64, 64), prefix=100),
    "nothing but a prefix": lambda: problem_of((3, 1, 3, 1, 150, 64, 64), prefix=150),
    "packed sequences": lambda: problem_of(
        (1, 1, 4, 5, 500, 64, 64), cu_seqlens=(torch.tensor([0, 2, 5]), torch.tensor([0, 130, 500]))
    ),
}


def parts_of(problem, _choice):
    """What the portable kernel makes of a prefix: sums of its two halves for the rows of all sequences."""
    together = stacked(problem)
    query = together.query[0].transpose(1, 2).flatten(1, 2).float()
    sums, statistics = [], []
    for keys, values in zip(together.key[0].tensor_split(2, 1), together.value[0].tensor_split(2, 1), strict=True):
        scores = query @ keys.float().mT * problem.scale * LOG2_E
        largest = scores.amax(-1)
        weights = torch.exp2(scores - largest[..., None])
        sums.append(weights @ values.float())
        statistics.append(torch.stack([largest, weights.sum(-1)], 1))
    return SplitResults(torch.stack(sums, 1), torch.stack(statistics, 1))


@pytest.fixture
def on_cpu(monkeypatch):
    needed = ("attenio.kernels.hopper.capping", "attenio.kernels.hopper.merging")
    kernel = interpreted("attenio.kernels.hopper.split_keys", needed).split_keys_kernel

    def on_interpreter(_kernel, programs, described, arguments, constants, _options):
        descriptors = [TmaDescriptor(each.base, each.block_shape) for each in described]
        launch(kernel, (programs,), *descriptors, *arguments, *constants)

    monkeypatch.setattr(decode, "prefix_results", parts_of)
    monkeypatch.setattr(decode, "launch", on_interpreter)
    monkeypatch.setattr(decode, "processors_of", lambda _device: 6)


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_gives_what_the_cpu_gives(on_cpu, name):
    torch.manual_seed(0)
    problem = CASES[name]()
    assert decode.supports(problem)
    mine, theirs = decode.attend(problem), cpu.attend(problem)
    unit = torch.finfo(problem.query.dtype).eps
    size = max(1.0, float(theirs.output.abs().max()))
    assert mine.output.isfinite().all()
    assert float((mine.output.float() - theirs.output.float()).abs().max()) <= unit * size
    sums = [each.largest + each.total.log2() for each in (mine, theirs)]
    assert torch.allclose(*sums, rtol=1e-5, atol=1e-5)
    assert not any(held.any() for held in counters._of_streams.values())


@pytest.mark.parametrize("name", ["decode", "several queries", "a mask that masked everything", "a shared prefix"])
def test_sinks_are_one_weight_more_whatever_keys_are_split_into(on_cpu, name):
    torch.manual_seed(0)
    problem = CASES[name]()
    heads = problem.kv_heads * problem.group
    sinks = torch.cat((torch.tensor([-torch.inf, 90.0]), torch.randn(heads)))[:heads]
    mine, plain = decode.attend(replace(problem, sinks=sinks)), cpu.attend(problem)
    largest, total, share = with_sink(
        plain.largest, plain.total, (sinks * LOG2_E).view(problem.kv_heads, problem.group, 1)
    )
    torch.testing.assert_close(mine.output.float(), plain.output.float() * share[..., None], atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(mine.largest + mine.total.log2(), largest + total.log2(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["decode", "several queries", "a bias"])
def test_scores_are_capped_before_anything_is_added(on_cpu, name):
    torch.manual_seed(0)
    problem = replace(CASES[name](), softcap=0.7)
    mine, theirs = decode.attend(problem), cpu.attend(problem)
    torch.testing.assert_close(mine.output.float(), theirs.output.float(), atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(
        mine.largest + mine.total.log2(), theirs.largest + theirs.total.log2(), atol=1e-4, rtol=0
    )


def test_what_the_copy_engine_cannot_fetch_is_left_to_others():
    problem = problem_of((1, 1, 4, 1, 300, 64, 64))
    odd = torch.randn(1, 1, 300, 65, dtype=torch.bfloat16)[..., :64]
    for part in ("key", "value"):
        assert not decode.supports(KernelProblem(**{**vars(problem), part: odd}))
    assert not decode.supports(problem_of((1, 1, 33, 1, 300, 64, 64)))
    assert not decode.supports(problem_of((1, 1, 65, 1, 300, 64, 64), bias=torch.ones(1, 1, 1, 300)))
    assert not decode.supports(problem_of((1, 1, 4, 1, 300, 64, 64), torch.float32))


_BUILT = """
from attenio.kernels.hopper.decode import decode_tiles
from attenio.kernels.hopper.split_keys import split_keys_kernel as kernel

POINTERS = {"Q": "*bf16", "O": "*bf16", "Arrived": "*i32", "First": "*i64", "Stop": "*i64"}

def built(rows, d, width, more):
    padded = [max(16, 1 << (size - 1).bit_length()) for size in (d, width)]
    tiles = decode_tiles(rows, *padded)
    fixed = dict(ROWS=tiles.rows, KEY_TILE=tiles.key_tile, STAGES=tiles.stages, KEY_WARPS=tiles.key_warps,
                 ROW_WARPS=tiles.row_warps, PACK=4, D=d, WIDTH=width, D_PADDED=padded[0], W_PADDED=padded[1],
                 RANGED=False, BOOLEAN=False, BIAS_BY_ROW=False, LOG2_E=1.4427, CAPPED=False,
                 JOINS=True, PART_ROWS=4, JOINED_ROWS=4, AT_ONCE=16, EVEN=True,
                 First=None, Stop=None, Bias=None, Sinks=None, PrefixPartial=None, PrefixStatistics=None) | more
    if fixed.pop("sinks", False):
        del fixed["Sinks"]
    bias = fixed.pop("Bias") or ("*u8" if fixed["BOOLEAN"] else "*bf16")
    fixed |= {"Bias": None} if bias == "*bf16" else {}
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name in ("K", "V"):
            signature[name] = descriptor([1, 1, tiles.key_tile, padded[name == "V"]], "bf16")
        else:
            signature[name] = POINTERS.get(name) or (bias if name == "Bias" else "fp32" if name in ("scale", "inner")
                                                     else "*fp32" if name[0].isupper() else "i32")
    options = {"num_warps": tiles.row_warps * tiles.key_warps, "launch_pdl": True}
    return compiled(kernel, signature, constants, options)
"""
# Rows, d, width, and what differs from plain decode.
VARIANTS = [
    (4, 128, 128, {}),
    (32, 256, 256, {"RANGED": True, "PART_ROWS": 32, "JOINED_ROWS": 16, "AT_ONCE": 4, "EVEN": False}),
    (4, 96, 96, {"BOOLEAN": True, "JOINS": False}),
    (4, 64, 64, {"sinks": True, "CAPPED": True}),
]


@pytest.fixture(scope="module")
def compiled():
    return instructions_of(_BUILT, VARIANTS)


@pytest.mark.parametrize("index", range(len(VARIANTS)), ids=[f"{v[0]}x{v[1]}" for v in VARIANTS])
def test_a_variant_spills_nothing_and_fetches_in_bulk(compiled, index):
    found, (rows, d, width, more) = compiled[index], VARIANTS[index]
    padded = [1 << (size - 1).bit_length() for size in (d, width)]
    tiles = decode_tiles(rows, *padded)
    assert found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    assert found["LDL"] == found["STL"] == 0
    # 16 x 8 x 16 products of one warp: its rows, its keys, every width.
    own = tiles.key_tile // tiles.key_warps
    assert found["HMMA"] == tiles.rows // tiles.row_warps // 16 * (
        own // 8 * padded[0] // 16 + padded[1] // 8 * own // 16
    )
    assert found["LDSM"] > 0 and found["UTMALDG"] >= 2 * (tiles.stages + 1)
    assert found["ATOM"] == (1 if more.get("JOINS", True) else 0)
