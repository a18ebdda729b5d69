"""What saves host time: launches that go past Triton's Python, and recorded launches that are replayed.

``launcher``, ``tape`` and ``compiling`` read Triton's internals. ``set_replay(False)`` turns all of it off: Triton then
launches every kernel itself, every call plans its launches again, and results are the same. ``standing_in`` has calls
of a new size answered by kernels that are compiled already; ``set_stand_ins(False)`` turns that off.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["replay_enabled", "set_replay", "set_stand_ins", "stand_ins_allowed", "without_stand_ins"]

_enabled = _stand_ins = True
# What has all calls of a process wait for the best kernel.
WAITS = "ATTENIO_WAIT"


def set_replay(enabled: bool) -> None:
    """Turn direct launches and recorded launches on or off, for all threads of this process; they are on at first.

    Turn them off to find out whether a wrong result or a crash comes from them, or with a Triton that works otherwise.

    >>> set_replay(False)
    >>> replay_enabled()
    False
    >>> set_replay(True)
    """
    global _enabled
    _enabled = enabled


def replay_enabled() -> bool:
    """Whether launches may go past Triton's Python."""
    return _enabled


def set_stand_ins(allowed: bool) -> None:
    """Let calls of a new size run on a kernel that is compiled already while a better one is being compiled, or not.

    They may at first, unless ``ATTENIO_WAIT=1`` is in the environment. Both kernels compute the same, rounded
    differently. Turn it off where equal calls must give equal bits, and before times are measured: calls then wait for
    the best kernel, as those that are deterministic do.

    >>> set_stand_ins(False)
    >>> stand_ins_allowed()
    False
    >>> set_stand_ins(True)
    """
    global _stand_ins
    _stand_ins = allowed


@contextmanager
def without_stand_ins() -> Iterator[None]:
    """All calls of this process wait for the best kernel in here: for what is timed."""
    before = _stand_ins
    set_stand_ins(False)
    try:
        yield
    finally:
        set_stand_ins(before)


def stand_ins_allowed() -> bool:
    """Whether a kernel may stand in for a better one that is being compiled."""
    return _stand_ins and os.environ.get(WAITS) != "1"
