"""Launches in lanes: streams beside the current one, whose kernels fill the SMs that those of other lanes leave.

Lane 0 is the current stream. The others begin where it stands at the fork, and it goes on when they have ended: so for
everybody else, the allocator of memory and a graph that is captured among them, all lanes are work of the current
stream. What lanes work on is therefore allocated before the fork.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

import torch

__all__ = ["Streams", "current_lane", "forked", "forks_and_joins", "in_lane"]

# Those of all lanes but the first; none where there is no GPU, and the host does everything in order.
Streams: TypeAlias = tuple[torch.cuda.Stream, ...]
_thread = threading.local()


@contextmanager
def forked(device: torch.device, lanes: int) -> Iterator[Streams]:
    """So many lanes until the end of the block.

    Threads share the streams. Each has events of its own, and so waits for its own work at least.
    """
    if lanes == 1:
        yield ()
        return
    with _marked():
        if device.type != "cuda":
            yield ()
            return
        with _streams(device, lanes) as beside:
            yield beside


@contextmanager
def _streams(device: torch.device, lanes: int) -> Iterator[Streams]:
    here = torch.cuda.current_stream(device)
    beside = _beside(device, lanes - 1, captured=torch.cuda.is_current_stream_capturing())
    begun = here.record_event()
    for stream in beside:
        stream.wait_event(begun)
    try:
        yield beside
    finally:
        for stream in beside:
            here.wait_event(stream.record_event())


@contextmanager
def _marked() -> Iterator[None]:
    """Launches before, between and after a fork and its join are told apart by how many of both this thread had."""
    _thread.marks = forks_and_joins() + 1
    try:
        yield
    finally:
        _thread.marks += 1


def forks_and_joins() -> int:
    """How many this thread had: what was launched at the same number was launched without one in between."""
    return getattr(_thread, "marks", 0)


@contextmanager
def in_lane(lane: int, beside: Streams) -> Iterator[None]:
    """Launches of this thread in here are in this lane of those that were forked."""
    _thread.lane = lane
    try:
        with torch.cuda.stream(beside[lane - 1] if lane and beside else None):
            yield
    finally:
        _thread.lane = 0


def current_lane() -> int:
    """The lane in which this thread launches."""
    return getattr(_thread, "lane", 0)


@cache
def _beside(device: torch.device, count: int, *, captured: bool) -> Streams:
    """Streams that are kept; captures have others, because whatever is launched on theirs becomes part of a graph."""
    return tuple(torch.cuda.Stream(device) for _ in range(count))
