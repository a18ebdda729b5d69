"""Launching kernels, compiled once for their constants, and recording the launches of a thread.

Numbers are declared ``do_not_specialize`` and pointers ``do_not_specialize_on_alignment``, so nothing but constants and
types distinguishes calls, and once compiled for those a kernel is launched directly.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, NamedTuple

from torch import Tensor

from attenio.kernels.call.choice import is_heard, note_launch
from attenio.kernels.replay.compiling import compiles_only, only_compiles
from attenio.kernels.replay.launcher import Launcher, TritonLauncher
from attenio.kernels.replay.streams import forks_and_joins, stream_index

_launchers: dict[tuple[Any, ...], Launcher] = {}
_recorder = threading.local()


class LaunchRecord(NamedTuple):
    """A launch that has happened, on which stream, and after how many forks and joins."""

    launcher: Launcher
    programs: int
    descriptors: tuple[Any, ...]
    arguments: tuple[Any, ...]
    stream: int = 0
    marks: int = 0


class CompileOptions(NamedTuple):
    """How a kernel is compiled. Where it ``overlaps`` the end of the launch before it (programmatic dependent launch),
    the kernel itself waits for what that writes. ``kinds`` tells apart what it is compiled for beside the constants:
    arguments that may be missing, or of another type."""

    registers: int | None = None
    warps: int = 4
    overlaps: bool = False
    kinds: tuple[Any, ...] = ()


def launch(
    kernel: Any,
    programs: int,
    descriptors: tuple[Any, ...],
    arguments: tuple[Any, ...],
    constants: tuple[Any, ...],
    options: CompileOptions,
) -> None:
    """Call a kernel whose parameters are TMA descriptors, tensors and numbers, and constants, in this order."""
    base = next((each.base for each in descriptors if each is not None), arguments[0])
    key = (id(kernel), base.device, base.dtype, options, constants)
    launcher, rest = _launchers.get(key), (*arguments, *constants)
    if launcher is not None:
        launcher(programs, descriptors, rest)
    else:
        everything = *(each if each is None else each.to_triton() for each in descriptors), *rest
        flags = {"num_warps": options.warps, "maxnreg": options.registers, "launch_pdl": options.overlaps}
        if only_compiles(kernel, programs, everything, flags):
            return
        launcher = _launchers[key] = TritonLauncher(kernel[(programs,)](*everything, **flags))
    _record(launcher, programs, descriptors, rest)
    if is_heard():
        note_constants(kernel, programs, constants)


def is_compiled(kernel: Any, like: Tensor, constants: tuple[Any, ...], options: CompileOptions) -> bool:
    """Whether ``launch`` has this kernel at hand for such tensors and constants."""
    return (id(kernel), like.device, like.dtype, options, constants) in _launchers


def launch_compiled(
    launcher: Launcher,
    name: str,
    programs: int,
    descriptors: tuple[Any, ...],
    arguments: tuple[Any, ...],
    constants: dict[str, int],
) -> None:
    """Launch a kernel that is compiled already, whoever compiled it."""
    if compiles_only():
        return
    launcher(programs, descriptors, arguments)
    _record(launcher, programs, descriptors, arguments)
    if is_heard():
        note_launch(name, programs=programs, **constants)


def note_constants(kernel: Any, programs: int, constants: tuple[Any, ...]) -> None:
    """Tell whoever listens of a launch: its constants by their names, which are the last that the kernel has."""
    names = tuple(signature(kernel.fn).parameters)[-len(constants) :]
    note_launch(kernel.fn.__name__, programs=programs, **dict(zip(names, constants, strict=True)))


def launch_specialized(
    kernel: Any, programs: int, arguments: tuple[Any, ...], constants: tuple[Any, ...], *, warps: int = 4
) -> None:
    """Call a kernel that Triton also compiles for what it sees in numbers and addresses, such as multiples of 16."""
    rest = (*arguments, *constants)
    if only_compiles(kernel, programs, rest, {"num_warps": warps}):
        return
    compiled = kernel[(programs,)](*rest, num_warps=warps)
    if _records() is not None:
        _record(TritonLauncher(compiled), programs, (), rest)


def _records() -> list[LaunchRecord] | None:
    return getattr(_recorder, "launches", None)


def _record(launcher: Launcher, programs: int, descriptors: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
    records = _records()
    if records is not None:
        records.append(LaunchRecord(launcher, programs, descriptors, arguments, stream_index(), forks_and_joins()))


@contextmanager
def recording_launches() -> Iterator[list[LaunchRecord]]:
    """All launches of this thread from here on."""
    _recorder.launches = []
    try:
        yield _recorder.launches
    finally:
        _recorder.launches = None
