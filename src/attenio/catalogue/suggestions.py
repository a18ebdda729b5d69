"""What someone probably meant by a name that is not known."""

import difflib
from collections.abc import Iterable

__all__ = ["closest", "did_you_mean"]


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or none when nothing is close.

    >>> closest("h10", ["a100", "h100"])
    'h100'
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    if found:
        return by_lower[found[0]]
    # difflib compares whole names: a short beginning such as "llama" of a long name scores low, yet is what people type
    beginnings = [candidate for candidate in by_lower if name and candidate.startswith(name.lower())]
    return by_lower[beginnings[0]] if beginnings else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``did you mean h100?`` and a space, or nothing when no known name is close."""
    near = closest(name, known)
    return f"did you mean {near}? " if near else ""
