"""What saves host time: launches that go past Triton's Python, and recorded launches that are replayed.

``launcher``, ``tape`` and ``compiling`` read Triton's internals. ``set_replay(False)`` turns all of it off: Triton then
launches every kernel itself, every call plans its launches again, and results are the same.
"""

__all__ = ["replay_enabled", "set_replay"]

_enabled = True


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
