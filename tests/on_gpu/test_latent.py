"""Latents, whose first columns are the values, on a Hopper GPU against float64: the kernel in CUDA C++ and Gluon's.

The first takes keys 576 wide without sinks and packed sequences; Gluon's is tested where the first is hidden.
"""

import pytest
import torch

from attenio import attention, explain
from attenio.kernels.call.choice import launches
from attenio.kernels.hopper import latent
from attenio.kernels.hopper.cuda.compiler import library
from attenio.kernels.hopper.cuda.split_latents import CudaLatentTiles
from attenio.kernels.replay import repeating

KERNELS = ["CUDA C++", "Gluon"]


def inputs(batch, kv_heads, group, queries, keys, d, dtype=torch.bfloat16):
    shapes = (batch, kv_heads * group, queries, d), (batch, kv_heads, keys, d)
    return tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes)


def exact(q, k, shown=None, sinks=None):
    k = k.double()[:, :, None]
    scores = q.double().unflatten(1, (k.shape[1], -1)) @ k.mT * q.shape[-1] ** -0.5
    if shown is not None:
        scores = scores.masked_fill(~shown, -torch.inf)
    if sinks is not None:
        column = sinks.double().view(1, k.shape[1], -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat((scores, column), -1)
    weights = torch.softmax(scores, -1)[..., : k.shape[3]]
    return (weights @ k[..., :512]).flatten(1, 2)


@pytest.fixture
def language(request, monkeypatch):
    """What the kernel is written in that is to run, wherever it can."""
    wanted = getattr(request, "param", "CUDA C++")
    if wanted == "CUDA C++" and library() is None:
        pytest.skip("NVRTC is not installed (package nvidia-cuda-nvrtc)")
    if wanted == "Gluon":
        monkeypatch.setattr(latent.cuda, "tiles_of", lambda _problem: None)
    repeating.forget()
    yield wanted
    repeating.forget()


@pytest.fixture(autouse=True)
def taken(language, monkeypatch):
    """Every call of these tests must be taken by the kernel for latents, in its language."""
    calls, original = [], latent.attend

    def attend(problem, choice):
        calls.append(problem)
        cuda = problem.query.shape[-1] == 576 and problem.sinks is None and language == "CUDA C++"
        cuda = cuda and problem.group * problem.queries > 64
        assert isinstance(choice.kernel, CudaLatentTiles) == cuda
        return original(problem, choice)

    monkeypatch.setattr(latent, "attend", attend)
    yield
    assert calls


both_kernels = pytest.mark.parametrize("language", KERNELS, indirect=True)


def assert_close(mine, theirs):
    unit = torch.finfo(mine.dtype).eps
    assert mine.isfinite().all()
    assert float((mine.double() - theirs).abs().max()) <= 2 * unit * max(1.0, float(theirs.abs().max()))


@both_kernels
@pytest.mark.parametrize(
    "sizes, dtype",
    [((32, 1, 128, 1, 8192, 576), torch.bfloat16), ((1, 1, 128, 1, 131072, 576), torch.bfloat16),
     ((2, 1, 16, 1, 777, 576), torch.float16), ((3, 2, 40, 1, 65, 544), torch.bfloat16),
     ((1, 1, 128, 1, 5000, 512), torch.float16), ((200, 1, 16, 1, 130, 576), torch.bfloat16),
     ((1, 2, 100, 1, 1000, 576), torch.float16), ((1, 1, 150, 1, 8191, 576), torch.bfloat16),
     ((1, 1, 128, 1, 1, 576), torch.bfloat16)],
    ids=str,
)  # fmt: skip
def test_the_output_is_that_of_float64(sizes, dtype):
    q, k = inputs(*sizes, dtype=dtype)
    mine = attention(q, k, k[..., :512], enable_gqa=True)
    rows = range(0, sizes[0], max(1, sizes[0] // 4))
    assert_close(mine[list(rows)], torch.cat([exact(q[i : i + 1], k[i : i + 1]) for i in rows]))


@both_kernels
@pytest.mark.parametrize("with_sinks", [False, True])
@pytest.mark.parametrize("window", [None, 100, 2000])
def test_several_tokens_see_what_lies_before_them_and_sinks_take_weight(window, with_sinks):
    q, k = inputs(2, 1, 128, 4, 3000, 576)
    i, j = torch.arange(4, device="cuda")[:, None] + 2996, torch.arange(3000, device="cuda")
    shown = (j <= i) & (j > i - (window or 3000))
    sinks = torch.randn(128, device="cuda") if with_sinks else None
    options = {"is_causal": "bottom-right"} if window is None else {"window": window}
    mine = attention(q, k, k[..., :512], enable_gqa=True, sinks=sinks, **options)
    assert_close(mine, exact(q, k, shown, sinks))


@both_kernels
@pytest.mark.parametrize("columns", [576, 640])
def test_keys_of_a_longer_cache_are_read_as_they_lie(columns):
    """Sequences are further apart than their keys are long, and keys perhaps than they are wide."""
    q, _ = inputs(3, 1, 128, 1, 1, 576)
    cache = torch.randn(3, 1, 4096, columns, device="cuda").bfloat16()
    k = cache[:, :, :2000, :576]
    cache[:, :, 2000:] = torch.nan
    assert_close(attention(q, k, k[..., :512], enable_gqa=True), exact(q, k))


@both_kernels
def test_results_repeat_to_the_bit_and_in_a_graph():
    q, k = inputs(4, 1, 128, 1, 4096, 576)
    first = attention(q, k, k[..., :512], enable_gqa=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = attention(q, k, k[..., :512], enable_gqa=True)
    for _ in range(20):
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(captured, first)
        assert torch.equal(attention(q, k, k[..., :512], enable_gqa=True), first)


@both_kernels
def test_integers_are_computed_exactly():
    """Weights are equal, and sums of small integers have no rounding: a register that is reused too early shows."""
    q = torch.zeros(8, 128, 1, 576, device="cuda", dtype=torch.bfloat16)
    k = torch.randint(-8, 9, (8, 1, 2048, 576), device="cuda").to(torch.bfloat16)
    for _ in range(20):
        mine = attention(q, k, k[..., :512], enable_gqa=True)
        assert torch.equal(mine, k[..., :512].double().mean(2, keepdim=True).to(torch.bfloat16).expand(8, 128, 1, 512))


@both_kernels
def test_it_is_explained_as_it_runs(language):
    q, k = inputs(1, 1, 128, 1, 1000, 576)
    said = explain(q, k, k[..., :512], enable_gqa=True)
    assert (said.choice.name, said.choice.language) == ("split_latents_kernel", language)
    assert said.choice.values_in_keys
    with launches() as heard:
        attention(q, k, k[..., :512], enable_gqa=True)
    assert any(launch.name == "split_latents_kernel" and ("CLUSTER" in launch.settings) == (language == "CUDA C++")
               for launch in heard)  # fmt: skip
