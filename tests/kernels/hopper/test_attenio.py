"""The Hopper kernel's own source, interpreted, against the CPU kernels, which are held against the definition."""

import math
from dataclasses import replace

import pytest
import torch
from gluon_interpreter import TmaDescriptor, interpreted, launch

from attenio.kernels import cpu, hopper, triton
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.dropout import Dropout
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended, with_sink
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import candidates, forward, gluon_attenio, kind, launch_plans
from attenio.kernels.hopper.tiles import WIDE_TILES, GluonTiles
from attenio.planning.shared_cache import traffic


def problem_of(shape, dtype=torch.bfloat16, **options):
    batch, kv_heads, group, queries, keys, d, width = shape
    q = torch.randn(batch, kv_heads * group, queries, d).to(dtype)
    k, v = torch.randn(batch, kv_heads, keys, d).to(dtype), torch.randn(batch, kv_heads, keys, width).to(dtype)
    visible = visibility_of(q, k, CallArguments(**options), (batch,))
    return KernelProblem.of_heads(q, k, v, visible, d**-0.5)


def tiles_of(consumers=2, key_tile=64, stages=2, *, staged=True, ping_pong=True, **more):
    return GluonTiles(consumers=consumers, key_tile=key_tile, stages=stages, staged=staged, ping_pong=ping_pong, **more)


def run(problem, tiles, programs=3):
    """The host's launch, on an interpreter in place of a GPU with so many SMs."""
    names = ("producer", "capping", "online_softmax", "key_step", "attenio")
    *needed, narrow = (f"attenio.kernels.hopper.{name}" for name in names)
    kernels = {
        "attenio_kernel": interpreted(narrow, needing=needed).attenio_kernel,
        "attenio_256_rows_kernel": interpreted(
            "attenio.kernels.hopper.attenio_256_rows", needing=(*needed, narrow)
        ).attenio_256_rows_kernel,
    }

    def on_interpreter(kernel, count, described, arguments, constants, _options):
        descriptors = (None if each is None else TmaDescriptor(each.base, each.block_shape) for each in described)
        launch(kernels[kernel.fn.__name__], (count,), *descriptors, *arguments, *constants)

    shape = problem.query.shape[:-1]
    output = torch.full((*shape, problem.value.shape[-1]), torch.nan, dtype=problem.query.dtype)
    found = Attended(output, torch.full(shape, torch.nan), torch.full(shape, torch.nan))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gluon_attenio, "launch", on_interpreter)
        patch.setattr(launch_plans, "processors_of", lambda _device: programs)
        launch_plans.plan_of.cache_clear()
        launch_plans.run(problem, found, tiles)
    return found


SEGMENTS = torch.tensor([0, 13, 100, 160])
CASES = {
    "dense, whole tiles": ({"shape": (1, 2, 1, 256, 128, 64, 64)}, tiles_of()),
    "dense, three consumers": ({"shape": (2, 1, 2, 200, 128, 64, 64)}, tiles_of(3, ping_pong=False)),
    "ragged ends": ({"shape": (1, 1, 2, 140, 93, 64, 64)}, tiles_of(2, stages=3)),
    "many heads of few rows": ({"shape": (2, 3, 1, 40, 70, 64, 64)}, tiles_of(2)),
    "causal in groups": ({"shape": (1, 2, 2, 260, 260, 64, 64), "is_causal": True}, tiles_of(3)),
    "causal, more keys": ({"shape": (1, 1, 1, 140, 300, 64, 64), "window": (-1, 0)}, tiles_of(2, 128, ping_pong=False)),
    "rows that see nothing": ({"shape": (1, 1, 1, 300, 140, 64, 64), "window": (-1, 0)}, tiles_of(3)),
    "a window": ({"shape": (1, 1, 1, 300, 300, 64, 64), "window": 50}, tiles_of(2, stages=4)),
    "packed sequences": (
        {"shape": (1, 2, 1, 160, 160, 64, 64), "cu_seqlens": SEGMENTS, "is_causal": True},
        tiles_of(2),
    ),
    "d = 96 side by side": ({"shape": (1, 1, 1, 130, 130, 96, 96), "is_causal": True}, tiles_of(2)),
    "72 and 40, computed in 80 and 48": ({"shape": (1, 1, 2, 70, 150, 72, 40), "is_causal": True}, tiles_of(2)),
    "8 and 136, computed in 16 and 144": ({"shape": (1, 2, 1, 130, 70, 8, 136), "window": 50}, tiles_of(2)),
    "192 and 128, output where Q was": ({"shape": (1, 1, 2, 70, 150, 192, 128)}, tiles_of(2, staged=False)),
    "twice the rows": ({"shape": (1, 2, 2, 300, 192, 64, 64)}, WIDE_TILES),
    "weights through shared memory": (
        {"shape": (2, 1, 2, 260, 260, 96, 96), "is_causal": True},
        tiles_of(3, 128, shared=True),
    ),
    "256": ({"shape": (1, 1, 1, 200, 200, 256, 256), "is_causal": True}, tiles_of(2, staged=False, ping_pong=False)),
}


@pytest.mark.parametrize(("options", "tiles"), CASES.values(), ids=CASES.keys())
def test_the_kernel_computes_attention_and_its_statistics(options, tiles):
    problem = problem_of(**options)
    assert forward.supports(problem)
    output, largest, total = run(problem, tiles)
    wide = replace(problem, query=problem.query.float(), key=problem.key.float(), value=problem.value.float())
    exact = cpu.attend(wide)
    # Weights and outputs are rounded once each.
    unit = torch.finfo(torch.bfloat16).eps * float(problem.value.abs().max())
    assert float((output.float() - exact.output.reshape(output.shape)).abs().max()) <= unit
    sees = exact.total.reshape(total.shape) > 0
    mine = (largest + total.log2())[sees]
    theirs = (exact.largest + exact.total.log2()).reshape(total.shape)[sees]
    assert float((mine - theirs).abs().max()) <= 1e-4
    assert not total[~sees].any() and not output[~sees].any()


@pytest.mark.parametrize("name", ["dense, three consumers", "rows that see nothing", "packed sequences"])
def test_sinks_are_one_weight_more(name):
    options, tiles = CASES[name]
    problem = problem_of(**options)
    heads = problem.kv_heads * problem.group
    sinks = torch.cat((torch.tensor([4.0]), torch.randn(heads)))[:heads]
    output, *statistics = run(replace(problem, sinks=sinks), tiles)
    plain = cpu.attend(problem)
    largest, total, share = with_sink(
        plain.largest, plain.total, (sinks * LOG2_E).view(problem.kv_heads, problem.group, 1)
    )
    torch.testing.assert_close(output.float(), plain.output.float() * share[..., None], atol=2e-2, rtol=2e-2)
    mine = statistics[0] + statistics[1].log2()
    torch.testing.assert_close(mine, largest + total.log2(), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("name", ["ragged ends", "causal in groups", "packed sequences"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_are_capped(name, dtype):
    options, tiles = CASES[name]
    problem = problem_of(**options)
    query, key, value = (x.to(dtype) for x in (problem.query, problem.key, problem.value))
    problem = replace(problem, query=query, key=key, value=value, softcap=0.7)
    output, largest, total = run(problem, tiles)
    exact = cpu.attend(problem)
    torch.testing.assert_close(output.float(), exact.output.float().reshape(output.shape), atol=2e-2, rtol=2e-2)
    theirs = (exact.largest + exact.total.log2()).reshape(total.shape)
    torch.testing.assert_close(largest + total.log2(), theirs, atol=1e-3, rtol=1e-4)


def test_weights_that_are_powers_of_two_give_exact_sums():
    n = 192
    q, k = torch.zeros(1, 1, n, 64), torch.zeros(1, 1, n, 64)
    q[..., 0], k[..., 0] = 1.0, -torch.randint(0, 4, (n,)).float()
    v = torch.randint(-8, 9, (1, 1, n, 64)).float()
    heads = (x.bfloat16() for x in (q, k, v))
    problem = KernelProblem.of_heads(*heads, Visibility(group=1), math.log(2.0))
    _, largest, total = run(problem, tiles_of())
    assert torch.equal(total.flatten() * torch.exp2(largest.flatten()), torch.exp2(k[..., 0]).sum().expand(n))


@pytest.mark.parametrize("tiles", [tiles_of(), WIDE_TILES], ids=["narrow", "wide"])
def test_heads_too_large_for_the_cache_are_walked_together(monkeypatch, tiles):
    problem = problem_of((1, 1, 2, 300, 320, 64, 64))
    apart = run(problem, tiles_of(), programs=2)
    monkeypatch.setattr(kind, "PACE", 1)
    monkeypatch.setattr(kind, "cache_bytes", lambda: 1)
    # The interpreter runs one program after another: each waits in vain for the next, and goes on.
    together = run(problem, tiles, programs=2)
    assert float((together.output.float() - apart.output.float()).abs().max()) <= 4e-3
    lse, expected = (found.largest + found.total.log2() for found in (together, apart))
    torch.testing.assert_close(lse, expected, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("growth", [0.0, 2.0, 7.0, 9.0, 40.0])
@pytest.mark.parametrize("backwards", [False, True])
def test_anchors_follow_scores_that_grow_by_less_and_by_more_than_the_slack(growth, backwards):
    problem = problem_of((1, 1, 1, 64, 448, 64, 64))
    tile = torch.arange(448) // 64
    column = growth * (6 - tile if backwards else tile) / LOG2_E / 8
    query, key = torch.ones_like(problem.query), torch.randn(1, 1, 448, 64) / 8 + column[:, None]
    grown = replace(problem, query=query, key=key.bfloat16())
    output, largest, total = run(grown, tiles_of())
    exact = cpu.attend(grown)
    assert float((output.float() - exact.output.reshape(output.shape).float()).abs().max()) <= 2e-2
    expected = (exact.largest + exact.total.log2()).reshape(total.shape)
    torch.testing.assert_close(largest + total.log2(), expected, atol=1e-3, rtol=1e-4)


def test_any_strides_are_taken():
    problem = problem_of((2, 2, 1, 70, 70, 64, 64))
    moved = replace(
        problem,
        key=problem.key.transpose(1, 2).contiguous().transpose(1, 2),
        value=problem.value[:, :1].expand(-1, 2, -1, -1),
    )
    same = replace(problem, value=moved.value.contiguous())
    assert torch.equal(run(moved, tiles_of()).output, run(same, tiles_of()).output)
    odd = torch.randn(2, 2, 70, 65).bfloat16()[..., 1:]  # rows that start at odd addresses are copied
    assert torch.equal(
        run(replace(same, key=odd), tiles_of()).output, run(replace(same, key=odd.clone()), tiles_of()).output
    )


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 0.0}, {"prefix": 40}, {"dropout": Dropout(probability=0.5, seed=1)},
        {"query": torch.zeros(2, 1, 1, 70, 64)}, {"query": torch.zeros(2, 1, 1, 40, 64).bfloat16()},
    ],
    ids=["no scale", "a prefix", "dropout", "single precision", "few rows"],
)  # fmt: skip
def test_what_it_does_not_take_goes_to_triton(monkeypatch, change):
    problem = problem_of((2, 1, 1, 70, 70, 64, 64))
    assert forward.supports(problem)
    monkeypatch.setattr(triton, "run", lambda _problem, choice: "portable" if choice.why_not else None)
    assert hopper.attend(replace(problem, **change)) == "portable"


@pytest.mark.parametrize(("heads", "n", "counted_megabytes"), [(1, 65536, 95.5), (1, 262144, 1100)])
def test_bytes_below_the_cache_are_predicted_within_a_tenth(monkeypatch, heads, n, counted_megabytes):
    for module in (forward, candidates, launch_plans):
        monkeypatch.setattr(module, "processors_of", lambda _device: 132)
    q = torch.empty(1, heads, n, 128, dtype=torch.bfloat16, device="meta")
    grids = hopper.grids(KernelProblem.of_heads(q, q, q, Visibility(group=1), 0.1), backward=False)
    predicted = traffic(*grids, cache_bytes=60 * 2**20).moved_bytes / 1e6
    assert abs(predicted / counted_megabytes - 1.0) <= 0.1  # counted by Nsight Compute on an H200
