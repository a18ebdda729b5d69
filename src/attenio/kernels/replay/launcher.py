"""Launching a compiled kernel past Triton's Python.

Triton's launcher encodes a new tensor map for every TMA descriptor in every call, and a call through ``jit`` inspects
every argument again: both take longer than a short kernel runs. A tensor map depends on an address, sizes and strides
only, so here it is encoded once for each of those, by Triton's own function, and handed to the C function in which
Triton's launcher ends. The arguments that this function takes besides are found by calling the launcher once. Where the
launcher is built otherwise (another version), where a hook listens to launches (a profiler), or where replay is turned
off, Triton launches the kernel itself.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from triton import knobs
from triton.backends.nvidia import driver

from attenio.kernels.replay import replay_enabled
from attenio.kernels.replay.written import Written, written_for_triton

# Tensor maps that are cached for a kernel: a model's layers, each with its own tensors.
_MOST_MAPS = 4096
# A launch that is done again: it takes a stream, and what is at the places that change.
Repeated: TypeAlias = Callable[[int, list[Any]], None]


class Launcher(ABC):
    """A compiled kernel; a call names programs, TMA descriptors, and all other arguments. Tensor maps are cached."""

    is_counted = False  # by hooks on Triton's launches
    may_leave_out = False  # results whose address is 0

    def __init__(self) -> None:
        self._maps: dict[tuple[Any, ...], list[Any]] = {}

    @property
    def is_direct(self) -> bool:
        """Whether ``launch`` may be called."""
        return True

    def __call__(self, programs: int, descriptors: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Launch it on the current stream."""
        stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
        self.launch(programs, stream, (*self.expanded(descriptors), *arguments))

    def expanded(self, descriptors: tuple[Any, ...]) -> list[Any]:
        """Descriptors as ``launch`` takes them: each a tensor map, sizes and strides."""
        arguments: list[Any] = []
        index = 0
        for descriptor in descriptors:
            if descriptor is None:
                arguments.append(None)
                continue
            arguments += self.tensor_map(index, descriptor)
            index += 1
        return arguments

    def tensor_map(self, index: int, descriptor: Any) -> list[Any]:
        """Tensor map, sizes and strides of a descriptor with this index among those that are not None."""
        key = (index, descriptor.base.data_ptr(), descriptor.shape, descriptor.strides)
        encoded = self._maps.get(key)
        if encoded is None:
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            encoded = self._maps[key] = self._encoded(index, descriptor)
        return encoded

    @abstractmethod
    def _encoded(self, index: int, descriptor: Any) -> list[Any]:
        """The same, encoded anew."""

    @abstractmethod
    def launch(self, programs: int, stream: int, arguments: Any) -> None:
        """Launch a kernel that is direct, with descriptors expanded; tensors may be given as addresses."""

    def repeated(self, programs: int, arguments: list[Any], places: tuple[int, ...]) -> Repeated:
        """The same with arguments that change at these places only."""

        def launch(stream: int, changed: list[Any]) -> None:
            given = arguments.copy()
            for at, argument in zip(places, changed, strict=True):
                given[at] = argument
            self.launch(programs, stream, given)

        return launch

    def written(self, arguments: list[Any], places: tuple[int, ...]) -> Written | None:
        """The same for the compiled module; None where Python has to launch it."""
        return None


class TritonLauncher(Launcher):
    """A kernel that Triton compiled for its constants."""

    is_counted = True

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self._kernel = kernel
        self._launch, self._map_types = _c_launcher(kernel.run)
        self._fixed: Any = None
        self._packs_arguments = False
        if self._launch is not None:
            self._fixed, self._packs_arguments = _fixed_arguments(kernel)

    @property
    def is_direct(self) -> bool:
        """Whether launches may go past Triton's Python."""
        return self._fixed is not None

    def __call__(self, programs: int, descriptors: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Launch it, by Triton's Python where it must be."""
        if not self.is_direct or not replay_enabled() or has_launch_hooks():
            self._kernel[programs, 1, 1](*(each and each.to_triton() for each in descriptors), *arguments)
        else:
            super().__call__(programs, descriptors, arguments)

    def _encoded(self, index: int, descriptor: Any) -> list[Any]:
        encoded: list[Any] = driver.make_tensordesc_arg(descriptor, self._map_types[index])
        return encoded

    def launch(self, programs: int, stream: int, arguments: Any) -> None:
        """Launch it by the C function in which Triton's launcher ends."""
        if self._packs_arguments:
            self._launch(programs, 1, 1, stream, *self._fixed, arguments)
        else:
            self._launch(programs, 1, 1, stream, *self._fixed, *arguments)

    def written(self, arguments: list[Any], places: tuple[int, ...]) -> Written | None:
        """The same for a kernel without descriptors."""
        if self._map_types or not self.is_direct:
            return None
        return written_for_triton(self._kernel, arguments, places)


def has_launch_hooks() -> bool:
    """Whether a hook is called at every launch."""
    before, after = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    return bool(getattr(before, "calls", before) or getattr(after, "calls", after))


def _c_launcher(run: Any) -> tuple[Any, tuple[Any, ...]]:
    """The C function below the step that encodes tensor maps, and the type of each map; None if it is not found."""
    step = getattr(run, "launch", None)
    if step is None or not hasattr(step, "__closure__"):  # no such step: no descriptors
        return step, ()
    cells = dict(zip(step.__code__.co_freevars, (cell.cell_contents for cell in step.__closure__ or ()), strict=True))
    map_types = tuple(cells.get("tensordesc_meta") or ())
    if "launcher" not in cells or None in map_types or not hasattr(driver, "make_tensordesc_arg"):
        return None, ()
    return cells["launcher"], map_types


def _fixed_arguments(kernel: Any) -> tuple[Any, bool]:
    """What the C function takes between the stream and a kernel's arguments (None if unknown), and whether these are
    packed in one."""
    programs, stream, last = object(), object(), object()
    calls: list[tuple[Any, ...]] = []
    probe = copy.copy(kernel.run)
    probe.launch = lambda *arguments: calls.append(arguments)
    try:
        probe(programs, 1, 1, stream, kernel.function, kernel.packed_metadata, None, None, None, last)
    except TypeError:  # memory is allocated for each program, or the launcher takes something else
        return None, False
    *fixed, end = calls[0]
    if fixed[:4] != [programs, 1, 1, stream] or end not in (last, (last,)):
        return None, False
    return tuple(fixed[4:]), end is not last
