"""A compiled kernel, called the short way.

Triton's launcher makes a new tensor map of every descriptor in every call, and a call through ``jit`` looks at every
argument anew besides: both take longer than a short kernel runs. A tensor map depends on an address, sizes and steps
only, so here it is made once for each of those, by Triton's own function, and handed to Triton's own launcher below the
part that makes them. Where that launcher is not put together as expected (another version), or somebody listens to
launches (a profiler), the call goes the long way.
"""

import copy
from typing import Any

from triton import knobs
from triton.backends.nvidia import driver
from triton.runtime import driver as drivers

__all__ = ["Compiled"]

# Tensor maps of a kernel that are kept: a model's layers, each with its own tensors.
_MOST_MAPS = 4096


class Compiled:
    """A kernel compiled for its constants; a call names programs, boxes, and all other arguments."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._launcher, self._kinds = _below_descriptors(kernel)
        self._maps: dict[tuple[Any, ...], list[Any]] = {}

    def __call__(self, programs: int, described: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
        """Launch it; tensors of ``rest`` may be given as their addresses, except where somebody listens."""
        if self._launcher is None or _is_listened_to():
            self._kernel[programs, 1, 1](*(box and box.described() for box in described), *rest)
            return
        arguments: list[Any] = []
        place = 0
        for box in described:
            if box is None:
                arguments.append(None)
                continue
            key = (place, box.base.data_ptr(), box.shape, box.strides)
            made = self._maps.get(key)
            arguments += self._made(key, box) if made is None else made
            place += 1
        kernel, active = self._kernel, drivers.active
        stream = active.get_current_stream(active.get_current_device())
        self._launcher(
            programs, 1, 1, stream, kernel.function, kernel.packed_metadata, None, None, None, *arguments, *rest
        )

    def _made(self, key: tuple[Any, ...], box: Any) -> list[Any]:
        if len(self._maps) >= _MOST_MAPS:
            self._maps.clear()
        made: list[Any] = driver.make_tensordesc_arg(box, self._kinds[key[0]])
        self._maps[key] = made
        return made


def _below_descriptors(kernel: Any) -> tuple[Any, tuple[Any, ...]]:
    """Triton's launcher without the step that makes tensor maps, and what each map is made by; none if unknown."""
    run = kernel.run
    step = getattr(run, "launch", None)
    if step is None:
        return None, ()
    if not hasattr(step, "__closure__"):  # no descriptors: nothing to leave out
        return run, ()
    held = dict(zip(step.__code__.co_freevars, (cell.cell_contents for cell in step.__closure__ or ()), strict=True))
    kinds = tuple(held.get("tensordesc_meta") or ())
    if "launcher" not in held or None in kinds or not hasattr(driver, "make_tensordesc_arg"):
        return None, ()
    short = copy.copy(run)
    short.launch = held["launcher"]
    return short, kinds


def _is_listened_to() -> bool:
    before, after = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    return bool(getattr(before, "calls", before) or getattr(after, "calls", after))
