"""From a call that failed somewhere in a long run to the fewest and simplest calls that fail by themselves."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from fuzz.case import Case
from fuzz.drawing import Step

_LONGEST_TAIL = 64
# A call takes milliseconds once its kernel is compiled, which takes seconds: what has not ended by then hangs.
_HANGS_AFTER_SECONDS = 180


def reproduction(steps: list[Step], device: str) -> str:
    """A program of a few lines that makes these calls."""
    lines = ["from fuzz import Case, check"]
    lines += [f"check({', '.join(map(str, step))}, device={device!r})" for step in steps]
    return "\n".join(lines)


def fails_anew(steps: list[Step], device: str) -> bool:
    """Whether the last of these steps fails in a process of its own, where nothing is remembered."""
    program = reproduction(steps, device)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=False, timeout=_HANGS_AFTER_SECONDS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def shrunk(
    history: list[Step], device: str, fails: Callable[[list[Step], str], bool] = fails_anew
) -> list[Step] | None:
    """The shortest tail found of a history whose last step failed, and its last step simplified; None if it passes."""
    length = 1
    while not fails(history[-length:], device):
        if length >= min(len(history), _LONGEST_TAIL):
            return None
        length = min(2 * length, len(history))
    tail = history[-length:]
    at = 0
    while at < len(tail) - 1:  # what comes before and is not needed
        without = tail[:at] + tail[at + 1 :]
        if fails(without, device):
            tail = without
        else:
            at += 1
    return tail


def simplified(step: Step, wrong: Callable[[Step], str | None]) -> Step:
    """A step that fails in the same way, with fewer calls and more of each as the simplest call has it."""
    for alone in step if len(step) > 1 else ():
        if wrong((alone,)) is not None:
            return simplified((alone,), wrong)
    if len(step) > 1:
        return step
    case, kind = step[0], _kind(wrong(step))
    simpler = True
    while simpler:
        simpler = False
        for candidate in _simpler(case):
            if _kind(wrong((candidate,))) == kind:
                case, simpler = candidate, True
                break
    return (case,)


def _kind(failure: str | None) -> str | None:
    """A failure without its numbers."""
    return None if failure is None else re.sub(r"[-+.\d]+(e[-+]?\d+)?|inf|nan", "", failure)


def _simpler(case: Case) -> Iterator[Case]:
    """A field at a time as in the simplest call, then sizes halved."""
    sizes = ("batch", "queries", "keys", "d", "width")
    for field in fields(case):
        if field.name in ("seed", "heads", "kv_heads", *sizes) or getattr(case, field.name) == field.default:
            continue
        if case.same and field.name == "layouts":
            continue
        simplest: dict[str, Any] = {field.name: field.default}
        yield replace(case, **simplest)
    if (case.heads, case.kv_heads) != (1, 1):
        yield replace(case, heads=1, kv_heads=1, enable_gqa=False)
    for name in sizes:
        size = getattr(case, name)
        if size > 1 and not (case.same and name in ("d", "width")) and not (name == "keys" and case.prefix):
            yield replace(case, **{name: size // 2})
