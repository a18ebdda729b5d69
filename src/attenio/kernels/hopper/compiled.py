"""A compiled kernel, called the short way.

Triton's launcher makes a new tensor map of every descriptor in every call, and a call through ``jit`` looks at every
argument anew besides: both take longer than a short kernel runs. A tensor map depends on an address, sizes and steps
only, so here it is made once for each of those, by Triton's own function, and handed to what Triton's launcher ends in.
What that takes besides is found by asking the launcher once. Where it is not put together as expected (another
version), or somebody listens to launches (a profiler), the call goes the long way.
"""

import copy
from typing import Any

import torch
from triton import knobs
from triton.backends.nvidia import driver

__all__ = ["Compiled", "is_listened_to"]

# Tensor maps that are kept of a box of a kernel: a model's layers, each with its own tensors.
_MOST_MAPS = 4096


class Compiled:
    """A kernel compiled for its constants; a call names programs, boxes, and all other arguments."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._end, self._kinds = _end_of(kernel.run)
        self._fixed: Any = None
        self._together = False
        if self._end is not None:
            self._fixed, self._together = _between(kernel)
        self._maps: dict[tuple[Any, ...], list[Any]] = {}

    @property
    def is_short(self) -> bool:
        """Whether there is a short way."""
        return self._fixed is not None

    def __call__(self, programs: int, described: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
        """Launch it."""
        if not self.is_short or is_listened_to():
            self._kernel[programs, 1, 1](*(box and box.described() for box in described), *rest)
        else:
            stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
            self.start(programs, stream, (*self.expanded(described), *rest))

    def expanded(self, described: tuple[Any, ...]) -> list[Any]:
        """Boxes as the launcher takes them: each a tensor map, sizes and steps."""
        found: list[Any] = []
        place = 0
        for box in described:
            if box is None:
                found.append(None)
                continue
            found += self.map_of(place, box)
            place += 1
        return found

    def map_of(self, place: int, box: Any) -> list[Any]:
        """Tensor map, sizes and steps of the box at this place among those that are not missing."""
        key = (place, box.base.data_ptr(), box.shape, box.strides)
        made = self._maps.get(key)
        if made is None:
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            made = self._maps[key] = driver.make_tensordesc_arg(box, self._kinds[place])
        return made

    def start(self, programs: int, stream: int, arguments: Any) -> None:
        """Launch it where there is a short way, with boxes expanded; tensors may be given as addresses."""
        if self._together:
            self._end(programs, 1, 1, stream, *self._fixed, arguments)
        else:
            self._end(programs, 1, 1, stream, *self._fixed, *arguments)


def is_listened_to() -> bool:
    """Whether somebody wants to hear of every launch."""
    before, after = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    return bool(getattr(before, "calls", before) or getattr(after, "calls", after))


def _end_of(run: Any) -> tuple[Any, tuple[Any, ...]]:
    """What Triton's launcher calls last, below the step that makes tensor maps, and what each map is made by."""
    step = getattr(run, "launch", None)
    if step is None or not hasattr(step, "__closure__"):  # no such step: no descriptors
        return step, ()
    held = dict(zip(step.__code__.co_freevars, (cell.cell_contents for cell in step.__closure__ or ()), strict=True))
    kinds = tuple(held.get("tensordesc_meta") or ())
    if "launcher" not in held or None in kinds or not hasattr(driver, "make_tensordesc_arg"):
        return None, ()
    return held["launcher"], kinds


def _between(kernel: Any) -> tuple[Any, bool]:
    """What comes between the stream and a kernel's arguments (None if unknown), and whether those come together."""
    programs, stream, last = object(), object(), object()
    heard: list[tuple[Any, ...]] = []
    asked = copy.copy(kernel.run)
    asked.launch = lambda *given: heard.append(given)
    try:
        asked(programs, 1, 1, stream, kernel.function, kernel.packed_metadata, None, None, None, last)
    except TypeError:  # memory is made for each program, or the launcher takes something else
        return None, False
    *fixed, end = heard[0]
    if fixed[:4] != [programs, 1, 1, stream] or end not in (last, (last,)):
        return None, False
    return tuple(fixed[4:]), end is not last
