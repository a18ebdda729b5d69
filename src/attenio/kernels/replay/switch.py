"""One switch for everything that reads Triton's internals."""

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
