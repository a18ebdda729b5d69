"""Gradients whose launches overlap in streams on a Hopper GPU: the same bits as in one, whoever works beside them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from attenio import attention
from attenio.kernels import hopper
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.hopper.backward import key_stationary
from attenio.kernels.hopper.backward.key_stationary import key_stationary_gradients
from attenio.kernels.hopper.backward.launch_groups import LaunchGroups
from attenio.kernels.replay import repeating

# Heads, tokens, width, causal: cut into 5 launches, whatever would be gained by that.
LAUNCHES = 5
CASES = [(24, 2048, 128, False), (12, 4096, 64, False), (24, 4096, 64, True), (6, 8192, 128, False)]


def drawn(heads, n, d):
    return [torch.randn(1, heads, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(4)]


def step(inputs, causal):
    """Gradients that repeat to the bit; then memory that the call has left is written over."""
    leaves = [x.detach().requires_grad_() for x in inputs[:3]]
    output = attention(*leaves, is_causal=causal, deterministic=True)
    found = torch.autograd.grad(output, leaves, inputs[3])
    for size in (2**20, 2**22, 2**23, 2**24):
        torch.empty(size, dtype=torch.uint8, device="cuda").fill_(127)
    return found


def same(found, right):
    return all(torch.equal(one, other) for one, other in zip(found, right, strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_streams_give_the_bits_of_one(case):
    heads, n, d, causal = case
    q, k, v, gradient = drawn(heads, n, d)
    seen = Visibility(group=1, above=0 if causal else UNBOUNDED)
    problem = KernelProblem.of_heads(q, k, v, seen, d**-0.5, deterministic=True)
    groups = LaunchGroups.even(heads, LAUNCHES, in_turns=causal)
    saved = (*hopper.attend(problem)[:3], gradient[:, :, None])
    right = key_stationary_gradients(problem, saved, groups)[:3]
    for streams in (2, 3):
        assert all(
            same(key_stationary_gradients(problem, saved, groups._replace(streams=streams))[:3], right)
            for _ in range(5)
        )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_repeated_calls_streams_graphs_and_threads_give_the_bits_of_the_first(case, monkeypatch):
    *sizes, causal = case
    groups, chosen = LaunchGroups.even(sizes[0], LAUNCHES, in_turns=causal, streams=2), key_stationary.groups_for
    # A smaller problem, on which a kernel is proven, is cut as it would be.
    monkeypatch.setattr(
        key_stationary,
        "groups_for",
        lambda problem, config: groups if problem.kv_heads == sizes[0] else chosen(problem, config),
    )
    sets = [drawn(*sizes) for _ in range(2)]
    right = [step(each, causal) for each in sets]
    for _ in range(4):
        assert all(same(step(each, causal), first) for each, first in zip(sets, right, strict=True))
    gradients = [known.tape for call in repeating._known.values() for known in call.after.values()]
    assert any(tape is not None and tape.streams == 2 for tape in gradients)
    torch.cuda.synchronize()

    streams, found = [torch.cuda.Stream() for _ in sets], []
    for _ in range(5):
        for stream, each in zip(streams, sets, strict=True):
            with torch.cuda.stream(stream):
                found.append(step(each, causal))
    torch.cuda.synchronize()
    assert all(same(each, right[number % 2]) for number, each in enumerate(found))

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(sets[0], causal)
    for _ in range(3):
        for part in captured:
            part.fill_(torch.nan)
        graph.replay()
        assert same(step(sets[1], causal), right[1]) and same(captured, right[0])

    def on_its_own(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            done = [step(sets[number % 2], causal) for _ in range(5)]
            torch.cuda.current_stream().synchronize()
        return all(same(each, right[number % 2]) for each in done)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(on_its_own, range(8)))
