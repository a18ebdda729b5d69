"""Launches that need not wait for each other: on streams of their own, which begin and end with the caller's."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

__all__ = ["forked"]


@contextmanager
def forked(device: torch.device, count: int) -> Iterator[Callable[[int], AbstractContextManager[object]]]:
    """Streams by number: 0 is the current one, the others wait for what it has before, and it for them after.

    What lives on the current stream may be used on all of them. CUDA graphs capture the fork as it is.
    """
    if device.type != "cuda" or count == 1:
        yield lambda _: nullcontext()
        return
    current = torch.cuda.current_stream(device)
    others = [torch.cuda.Stream(device) for _ in range(count - 1)]
    for stream in others:
        stream.wait_stream(current)
    try:
        yield lambda number: torch.cuda.stream(others[number - 1]) if number else nullcontext()
    finally:
        for stream in others:
            current.wait_stream(stream)
