"""Launches on several streams: kernels on side streams fill the SMs that those of the current stream leave.

Stream 0 is the current one. Side streams begin where it stands at the fork, and it goes on when they have ended. So for
anything else, the caching allocator and a graph capture among them, all of it is work of the current stream. Memory
that the streams share is therefore allocated before the fork.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

import torch

# All streams but the first; none where there is no GPU, and the host does everything in order.
SideStreams: TypeAlias = tuple[torch.cuda.Stream, ...]
_thread = threading.local()


@contextmanager
def forked(device: torch.device, streams: int) -> Iterator[SideStreams]:
    """So many streams until the end of the block.

    Threads share the side streams. Each has events of its own, and so waits for its own work at least.
    """
    if streams == 1:
        yield ()
        return
    side_streams: SideStreams = ()
    # Launches before, between and after a fork and its join are told apart by how many of both this thread had.
    _thread.marks = forks_and_joins() + 1
    try:
        if device.type == "cuda":
            current = torch.cuda.current_stream(device)
            side_streams = _side_streams(device, streams - 1, captured=torch.cuda.is_current_stream_capturing())
            fork = current.record_event()
            for stream in side_streams:
                stream.wait_event(fork)
        yield side_streams
    finally:
        for stream in side_streams:
            current.wait_event(stream.record_event())
        _thread.marks += 1


def forks_and_joins() -> int:
    """How many this thread had: what was launched at the same number was launched without one in between."""
    return getattr(_thread, "marks", 0)


@contextmanager
def on_stream(index: int, side_streams: SideStreams) -> Iterator[None]:
    """Launches of this thread in here go to the stream with this index."""
    _thread.index = index
    try:
        with torch.cuda.stream(side_streams[index - 1] if index and side_streams else None):
            yield
    finally:
        _thread.index = 0


def stream_index() -> int:
    """The index of the stream on which this thread launches."""
    return getattr(_thread, "index", 0)


@cache
def _side_streams(device: torch.device, count: int, *, captured: bool) -> SideStreams:
    """Side streams, created once; captures have others, since launches on theirs become part of a graph."""
    return tuple(torch.cuda.Stream(device) for _ in range(count))
