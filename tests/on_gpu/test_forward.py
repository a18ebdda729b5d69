"""The forward kernels on a Hopper GPU: against float64, exact where they can be, in streams and graphs."""

import math
from dataclasses import replace

import pytest
import torch

from attenio import attention
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.hopper import forward, launch_plans
from attenio.kernels.hopper.cuda.tiles import WIDTHS as CUDA_WIDTHS
from attenio.kernels.hopper.cuda.tiles import cuda_tiles
from attenio.kernels.hopper.tiles import WIDE_TILES, computed_width, hopper_tiles

WIDTHS = ((64, 64), (96, 96), (128, 128), (192, 192), (192, 128), (256, 256))
# Heads of these are computed in more columns than they have, or in 16 beside 64 or 128.
PADDED_WIDTHS = ((8, 24), (40, 48), (72, 80), (112, 120), (136, 160), (200, 240))
KINDS = [
    *((widths, torch.bfloat16) for widths in WIDTHS),
    *((widths, torch.bfloat16) for widths in PADDED_WIDTHS),
    *((each, torch.float16) for each in ((128, 128), (192, 128), (80, 80))),
]
SEGMENTS = torch.tensor([0, 13, 400, 640, 900])
# Batch, KV heads, group, queries, keys, and what restricts them.
SHAPES = {
    "whole tiles": ((2, 1, 2, 384, 384), {}),
    "ragged": ((2, 1, 2, 193, 330), {}),
    "fewer keys than a tile": ((1, 1, 1, 70, 5), {}),
    "fewer rows than a tile": ((9, 8, 2, 50, 50), {"is_causal": True}),
    "causal": ((2, 2, 2, 512, 512), {"is_causal": True}),
    "causal ragged in groups of three": ((1, 1, 3, 777, 777), {"is_causal": True}),
    "causal, more keys": ((1, 1, 2, 130, 500), {"is_causal": True}),
    "aligned to the last key": ((1, 1, 2, 130, 500), {"window": (-1, 0)}),
    "rows that see nothing": ((1, 2, 1, 500, 130), {"window": (-1, 0)}),
    "a window": ((2, 1, 2, 640, 640), {"window": 200}),
    "a window on both sides": ((1, 1, 2, 300, 420), {"window": (50, 70)}),
    "more row tiles than SMs": ((3, 5, 2, 1024, 1024), {"is_causal": True}),
    "packed sequences": ((1, 2, 2, 900, 900), {"cu_seqlens": SEGMENTS, "is_causal": True}),
}


def problem_of(shape, d=128, width=None, dtype=torch.bfloat16, scale=None, heads=None, **options):
    batch, kv_heads, group, queries, keys = shape
    width = width or d
    sizes = ((kv_heads * group, queries, d), (kv_heads, keys, d), (kv_heads, keys, width))
    q, k, v = heads or (torch.randn(batch, *size, device="cuda").to(dtype) for size in sizes)
    visible = visibility_of(q, k, CallArguments(**options), (batch,))
    return KernelProblem.of_heads(q, k, v, visible, d**-0.5 if scale is None else scale)


def tiles_for(d, width):
    return hopper_tiles(computed_width(d), computed_width(width))


def run(problem, tiles=None):
    """The kernel, on memory that it has to write."""
    shape, device = problem.query.shape[:-1], problem.query.device
    output = torch.full((*shape, problem.value.shape[-1]), torch.nan, dtype=problem.query.dtype, device=device)
    found = Attended(output, *(torch.full(shape, torch.nan, device=device) for _ in range(2)))
    launch_plans.run(problem, found, tiles or tiles_for(problem.query.shape[-1], problem.value.shape[-1])[0])
    return found


def exact(problem):
    """Output and log2 of the sum of exponentials, in float64."""
    scores = torch.einsum("bkgqd,bknd->bkgqn", problem.query.double(), problem.key.double()) * problem.scale
    i, j = torch.arange(problem.queries, device="cuda")[:, None], torch.arange(problem.keys, device="cuda")
    shown = (j >= i + problem.visible.below) & (j <= i + problem.visible.above)
    if problem.visible.first is not None:
        first, stop = (x.cuda()[:, None, None, :, None] for x in (problem.visible.first, problem.visible.stop))
        shown = shown & (j >= first) & (j < stop)
    scores = scores.masked_fill(~shown, -torch.inf)
    largest = scores.amax(-1)
    weights = torch.exp(scores - torch.where(largest.isinf(), 0.0, largest)[..., None])
    total = weights.sum(-1)
    output = torch.einsum("bkgqn,bknd->bkgqd", weights, problem.value.double())
    return output / torch.where(total == 0, 1.0, total)[..., None], (largest + total.log()) * LOG2_E


def assert_exact(problem, found, what):
    output, statistic = exact(problem)
    sees = statistic.isfinite()
    # Weights and outputs are rounded once each.
    allowed = torch.finfo(problem.query.dtype).eps * float(problem.value.abs().max())
    error = float((found.output.double() - output).abs().max())
    assert error <= allowed, f"{what}: {error:.2e} where {allowed:.2e} is allowed"
    apart = (found.largest.double() + found.total.double().log2() - statistic)[sees].abs()
    size = max(1.0, float(statistic[sees].abs().max())) if sees.any() else 1.0
    assert not sees.any() or float(apart.max()) <= 1e-5 * size, f"{what}: statistics"
    assert not found.total[~sees].any() and not found.output[~sees].any(), f"{what}: masked_scores rows"


@pytest.mark.parametrize("widths, dtype", KINDS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_edge_is_that_of_float64(shape, widths, dtype):
    """With the planned tiles; where nothing is ragged or restricted but by causality, with all that may be measured."""
    sizes, options = SHAPES[shape]
    problem = problem_of(sizes, *widths, dtype, **options)
    assert forward.supports(problem)
    for tiles in tiles_for(*widths) if shape in ("whole tiles", "causal") else tiles_for(*widths)[:1]:
        assert_exact(problem, run(problem, tiles), str(tiles))


@pytest.mark.parametrize(
    "widths, computed, dtype",
    [
        *((widths, widths, torch.bfloat16) for widths in CUDA_WIDTHS),
        ((80, 80), (96, 96), torch.bfloat16),
        ((184, 120), (192, 128), torch.float16),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_edge_of_the_cuda_kernel_is_that_of_float64(shape, widths, computed, dtype):
    sizes, options = SHAPES[shape]
    problem = problem_of(sizes, *widths, dtype, **options)
    for tiles in cuda_tiles(*computed):
        if tiles.cluster == 1 or shape != "packed sequences":
            assert_exact(problem, run(problem, tiles), str(tiles))


def test_a_nan_reaches_all_outputs_of_the_rows_that_see_it():
    problem = problem_of((1, 2, 1, 300, 300), 96, is_causal=True)
    problem.key[0, 0, 130, 5] = torch.nan
    for tiles in cuda_tiles(96, 96):
        output = run(problem, tiles).output
        assert output[0, 0, 0, 130:].isnan().all() and output[0, 1].isfinite().all()
        assert output[0, 0, 0, :130].isfinite().all()


@pytest.mark.parametrize("shape", [(1, 2, 1, 512, 1024), (2, 1, 2, 300, 640), (1, 5, 8, 1000, 256)], ids=str)
def test_twice_the_rows_of_a_consumer(shape):
    """As for heads much larger than L2."""
    problem = problem_of(shape)
    assert_exact(problem, run(problem, WIDE_TILES), "wide")


@pytest.mark.parametrize("widths", (*WIDTHS, (80, 144)), ids=str)
def test_weights_that_are_powers_of_two_give_exact_sums(widths):
    """A register that is overwritten before a product has read it shows here as a wrong integer."""
    (d, width), n = widths, 4096
    for is_causal in (False, True):
        q, k = (torch.zeros(2, 4, n, d, device="cuda") for _ in range(2))
        q[..., 0], k[..., 0] = 1.0, -torch.randint(0, 4, (2, 4, n), device="cuda").float()
        v = torch.randint(-8, 9, (2, 4, n, width), device="cuda").float()
        heads = tuple(x.bfloat16() for x in (q, k, v))
        problem = problem_of((2, 4, 1, n, n), d, width, heads=heads, scale=1.0 / LOG2_E, is_causal=is_causal)
        weights = torch.exp2(k[..., 0].double())
        sums = (weights[..., None] * v.double()).cumsum(2) if is_causal else (weights[..., None] * v).sum(2, True)
        totals = weights.cumsum(2) if is_causal else weights.sum(2, True)
        for tiles in tiles_for(d, width):
            found = run(problem, tiles)
            total = found.total.double().flatten(1, 2) * torch.exp2(found.largest.double().flatten(1, 2))
            assert torch.equal(total, totals.expand(total.shape)), str(tiles)
            wanted = (sums / totals[..., None]).expand(2, 4, n, width)
            error = (found.output.double().flatten(1, 2) - wanted).abs()
            assert bool((error <= wanted.abs() * 2.0**-8 + 1e-9).all()), str(tiles)


def test_adversarial_inputs():
    shape = (1, 2, 1, 300, 300)
    problem = problem_of(shape)
    hot = torch.nn.functional.one_hot(torch.arange(300) % 128, 128).cuda().bfloat16()
    cases = {
        "huge logits": replace(problem, query=problem.query * 50, key=problem.key * 50),
        "all equal": replace(problem, query=torch.ones_like(problem.query), key=torch.ones_like(problem.key)),
        "one hot": replace(problem, key=hot.expand(1, 2, 300, 128)),
        "tiny": replace(problem, query=problem.query * 1e-20),
        "a negative factor": replace(problem, scale=-problem.scale),
    }  # fmt: skip
    for name, case in cases.items():
        assert_exact(case, run(case), name)


def test_any_strides_are_taken():
    packed = torch.randn(2, 300, 3, 4, 128, device="cuda").bfloat16()  # batch, tokens, which, heads, width
    q, k, v = (packed[:, :, which].transpose(1, 2) for which in range(3))
    odd = torch.randn(2, 4, 300, 129, device="cuda").bfloat16()[..., 1:]
    one = torch.randn(2, 1, 300, 128, device="cuda").bfloat16().expand(2, 4, 300, 128)
    for heads in ((q, k, v), (odd, k, v), (q, odd, odd), (q, one, one)):
        problem = problem_of((2, 4, 1, 300, 300), heads=heads, is_causal=True)
        assert_exact(problem, run(problem), str([x.stride() for x in heads]))


def test_results_repeat_to_the_bit():
    problem = problem_of((2, 4, 2, 2000, 2000), is_causal=True)
    first = run(problem)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(run(problem), first, strict=True))


@pytest.mark.parametrize("heads, rows, keys", [(4, 1000, 1000), (1, 17000, 2**16)])
def test_two_streams_and_two_graphs_at_once(heads, rows, keys):
    """Each problem gives beside another what it gives alone, also where keys leave L2 and programs keep pace."""
    lengths = rows, keys, keys
    sets = [[torch.randn(1, heads, n, 128, device="cuda").bfloat16() for n in lengths] for _ in range(2)]
    alone = [attention(*each) for each in sets]
    streams, graphs, found, captured = [torch.cuda.Stream() for _ in sets], [], [], []
    torch.cuda.synchronize()
    for _ in range(10):
        for stream, each in zip(streams, sets, strict=True):
            with torch.cuda.stream(stream):
                found.append(attention(*each))
    torch.cuda.synchronize()
    for each in sets:
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            captured.append(attention(*each))
    for _ in range(10):
        for output in captured:
            output.fill_(torch.nan)
        torch.cuda.synchronize()
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        found += [output.clone() for output in captured]
    assert all(torch.equal(each, alone[number % 2]) for number, each in enumerate(found))


def test_what_was_captured_before_it_ever_ran_still_computes():
    q, k, v = (torch.randn(1, 8, 1100, 128, device="cuda").bfloat16() for _ in range(3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = attention(q, k, v)
    output.fill_(torch.nan)
    graph.replay()
    problem = problem_of((1, 8, 1, 1100, 1100), heads=(q, k, v))
    right, _ = exact(problem)
    allowed = torch.finfo(torch.bfloat16).eps * float(v.abs().max())
    assert float((output.double() - right.flatten(1, 2)).abs().max()) <= allowed


def test_a_graph_outlives_the_schedules_that_are_kept():
    """A graph holds addresses only: what it reads must not be given back when many other lengths have run since."""
    q, k, v = (torch.randn(1, 8, 1200, 128, device="cuda").bfloat16() for _ in range(3))
    wanted, graph = attention(q, k, v), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = attention(q, k, v)
    launch_plans.plan_of.cache_clear()
    launch_plans.settled.clear()
    junk = [torch.full((size,), 2**30, dtype=torch.int32, device="cuda") for size in (64, 256, 1024, 4096) * 200]
    captured.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    del junk
    assert torch.equal(captured, wanted)


@pytest.mark.usefixtures("much_memory")
def test_tensors_of_more_than_two_to_the_31_elements():
    n, heads = 2**18, 66
    q, k, v = (torch.randn(1, heads, n, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    problem = problem_of((1, heads, 1, n, n), heads=(q, k, v), window=100)
    output = run(problem).output[0, -1, 0, -64:].double()
    scores = q[0, -1, -64:].double() @ k[0, -1, -200:].double().T * problem.scale
    i, j = torch.arange(136, 200, device="cuda")[:, None], torch.arange(200, device="cuda")
    weights = torch.softmax(scores.masked_fill((j > i) | (j <= i - 100), -math.inf), -1)
    assert float((weights @ v[0, -1, -200:].double() - output).abs().max()) <= 2e-2
