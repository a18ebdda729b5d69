"""Launching a kernel that NVRTC compiled, with the arguments that a launch of Triton's kernels has."""

import ctypes
from typing import Any, NamedTuple

import torch

from attenio.kernels.hopper.cuda import driver
from attenio.kernels.hopper.cuda.compiler import compiled
from attenio.kernels.replay.launcher import Launcher, Repeated
from attenio.kernels.replay.written import Written

ELEMENTS = {torch.bfloat16: "bf16", torch.float16: "f16"}
WARPGROUP = 128
# A TMA descriptor is a tensor map, and four sizes and strides that kernels in CUDA C++ do not take.
_PER_MAP = 9
_MAP_BYTES = 128


class CudaKernel(NamedTuple):
    """Its text, and what a launch of it needs to know. Parameters are tensor maps and then one structure, ``work``.

    One that ``overlaps`` the end of the launch before it waits itself for what that writes.
    Results whose address is 0 it ``may_leave_out``.
    """

    name: str
    text: str
    element: str
    threads: int
    shared_bytes: int
    work: type[ctypes.Structure]
    overlaps: bool = False
    may_leave_out: bool = False


class CudaLauncher(Launcher):
    """A kernel compiled and loaded on the current device."""

    def __init__(self, kernel: CudaKernel) -> None:
        super().__init__()
        self._kernel, self._fields = kernel, len(kernel.work._fields_)
        self.may_leave_out = kernel.may_leave_out
        self._names = [field[0] for field in kernel.work._fields_]
        self._function = driver.loaded_function(compiled(kernel.text), kernel.name, kernel.shared_bytes)
        self._launch: driver.KernelLaunch | None = None

    def __call__(self, programs: int, descriptors: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Launch it on the current stream, tensors by their addresses."""
        addresses = (each.data_ptr() if isinstance(each, torch.Tensor) else each for each in arguments)
        super().__call__(programs, descriptors, tuple(addresses))

    def _encoded(self, index: int, descriptor: Any) -> list[Any]:
        sizes = tuple(descriptor.shape), tuple(descriptor.strides), tuple(descriptor.block_shape)
        encoded = driver.tensor_map(self._kernel.element, descriptor.base.data_ptr(), *sizes)
        return [encoded, *descriptor.shape, *descriptor.strides]

    def launch(self, programs: int, stream: int, arguments: Any) -> None:
        """Launch it with descriptors expanded, and tensors given as addresses, 0 where there is none."""
        maps, work = self._parted(arguments)
        if self._launch is None:
            self._launch = self._new_launch(len(maps))
        self._launch(programs, stream, maps, work)

    def repeated(self, programs: int, arguments: list[Any], places: tuple[int, ...]) -> Repeated:
        """Written once to memory of its own: a launch writes the addresses that change, and nothing else."""
        maps, work = self._parted(arguments)
        launch, offsets = self._new_launch(len(maps)), [getattr(self._kernel.work, name).offset for name in self._names]
        launch.write(programs, 0, maps, work)
        first = len(arguments) - self._fields
        written = [
            launch.place_of_map(at // _PER_MAP) if at < first else launch.place_of_field(offsets[at - first])
            for at in places
        ]
        return lambda stream, addresses: launch.again(stream, written, addresses)

    def written(self, arguments: list[Any], places: tuple[int, ...]) -> Written | None:
        """The same in one piece: tensor maps, then the structure."""
        maps, work = self._parted(arguments)
        first, structure = len(arguments) - self._fields, _MAP_BYTES * len(maps)
        offsets = [getattr(self._kernel.work, name).offset for name in self._names]
        stays = [_PER_MAP * index not in places for index in range(len(maps))]
        known = [ctypes.string_at(each, _MAP_BYTES) if stay else b"" for each, stay in zip(maps, stays, strict=True)]
        parameters = b"".join(each.ljust(_MAP_BYTES, b"\0") for each in known) + bytes(self._kernel.work(*work))
        return Written(
            function=self._function.value or 0, threads=self._kernel.threads, shared_bytes=self._kernel.shared_bytes,
            overlaps=self._kernel.overlaps, parameters=parameters,
            begins=tuple(range(0, structure + 1, _MAP_BYTES)),
            places=tuple(
                _MAP_BYTES * (at // _PER_MAP) if at < first else structure + offsets[at - first] for at in places
            ),
        )  # fmt: skip

    def _parted(self, arguments: Any) -> tuple[Any, Any]:
        """Tensor maps, and the fields of ``work``."""
        return arguments[: -self._fields : _PER_MAP], arguments[-self._fields :]

    def _new_launch(self, maps: int) -> driver.KernelLaunch:
        kernel = self._kernel
        return driver.KernelLaunch(
            self._function, kernel.threads, kernel.shared_bytes, maps, kernel.work, overlaps=kernel.overlaps
        )
