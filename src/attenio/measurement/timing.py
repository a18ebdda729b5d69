"""Times of calls on PyTorch tensors: on a GPU its own time only, on a CPU contenders in turns."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

# More than three times the second-level cache of an H200: rotating through this much, nothing is found in it.
ROTATED_BYTES = 200 * 2**20
_WARM = 3

Call = Callable[[], Any]


def replayed_samples(calls: Sequence[Call], *, repeats: int) -> list[float]:
    """Milliseconds of one call on a GPU, for every replay of a CUDA graph of all of them: no launch is waited for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in (*calls, *calls):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    return [each / len(calls) for each in event_samples(graph.replay, repeats=repeats)]


def event_samples(call: Call, *, repeats: int) -> list[float]:
    """Milliseconds of a call on a GPU between two events, launches included where they are slower than the work."""
    samples = []
    for _ in range(repeats + _WARM):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        call()
        after.record()
        after.synchronize()
        samples.append(float(before.elapsed_time(after)))
    return samples[_WARM:]


def turn_samples(calls: dict[str, Call], *, repeats: int, after_each: Call | None = None) -> dict[str, list[float]]:
    """Milliseconds of each call on a CPU, all of them in turns: what disturbs one disturbs the others too."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            samples[name].append((time.perf_counter() - start) * 1e3)
            if after_each is not None:
                after_each()
    return samples
