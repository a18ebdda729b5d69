"""GPU times of calls by replays of CUDA graphs, contenders in turns."""

from collections.abc import Callable
from itertools import permutations
from random import Random

import torch

from attenio.kernels.replay import without_stand_ins

# So many milliseconds of calls are replayed at once: short kernels are not timed one by one. Large products bring the
# clocks of a GPU down, and a few short replays are over before these are up again: after products a call took 145 us
# alone, 141 in tens and 117 in 200, and 116 in tens where the GPU had rested (run 63, ``studies/hopper/tuning.json``).
REPLAYED_MS, _MOST_CALLS = 3.0, 250
# More contenders have too many orders to list.
_MOST_IN_EVERY_ORDER = 6


@without_stand_ins()
def captured(call: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of several calls, after everything was compiled and measured that wants to be."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
        long_ms = elapsed_ms(call)  # with what the host takes
    torch.cuda.synchronize()
    count = _calls_for(long_ms)
    graph = _graph_of(call, count, stream)
    if count < _MOST_CALLS:
        graph.replay()
        more = _calls_for(elapsed_ms(graph.replay) / count)
        if more >= 2 * count:
            count, graph = more, _graph_of(call, more, stream)
    return graph, count


def elapsed_ms(call: Callable[[], object]) -> float:
    """Milliseconds between what comes before and after a call on the present stream."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    call()
    after.record()
    after.synchronize()
    elapsed: float = before.elapsed_time(after)
    return elapsed


def _calls_for(call_ms: float) -> int:
    return max(1, min(_MOST_CALLS, round(REPLAYED_MS / max(1e-3, call_ms))))


def _graph_of(call: Callable[[], object], count: int, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count):
            call()
    return graph


def _orders(names: list[str], count: int, draw: Random) -> list[list[str]]:
    """So many orders of the contenders: each equally often where they are few, and any where they are many."""
    if len(names) > _MOST_IN_EVERY_ORDER:
        return [draw.sample(names, len(names)) for _ in range(count)]
    orders = [list(order) for order in permutations(names)]
    draw.shuffle(orders)  # where there are more of them than turns
    return [orders[turn % len(orders)] for turn in range(count)]


def samples_in_turns(
    graphs: dict[str, tuple[torch.cuda.CUDAGraph, int]], *, repeats: int, seed: int
) -> dict[str, list[float]]:
    """Milliseconds of a call: contenders take turns in every order, so that a warm GPU slows all of them alike.

    In one order, whoever follows a contender that leaves the GPU cool runs at higher clocks: at 32K tokens cuDNN's
    gradients took 36.9 ms after FlashAttention-2's, and 41.1 ms after ours.
    """
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for repeat, order in enumerate(_orders(list(graphs), repeats + 1, Random(seed))):
        for name in order:
            graph, count = graphs[name]
            taken = elapsed_ms(graph.replay) / count
            if repeat:
                samples[name].append(taken)
    return samples
