"""Launching a kernel that NVRTC compiled, with the arguments that a launch of Triton's kernels has."""

import ctypes
from typing import Any, NamedTuple

import torch

from attenio.kernels.hopper.cuda import driver
from attenio.kernels.hopper.cuda.compiler import compiled
from attenio.kernels.replay.launcher import Launcher

ELEMENTS = {torch.bfloat16: "bf16", torch.float16: "f16"}
WARPGROUP = 128
# A TMA descriptor is a tensor map, and four sizes and strides that kernels in CUDA C++ do not take.
_PER_MAP = 9


class CudaKernel(NamedTuple):
    """Its text, and what a launch of it needs to know. Parameters are tensor maps and then one structure, ``work``.

    One that ``overlaps`` the end of the launch before it waits itself for what that writes.
    """

    name: str
    text: str
    element: str
    threads: int
    shared_bytes: int
    work: type[ctypes.Structure]
    overlaps: bool = False


class CudaLauncher(Launcher):
    """A kernel compiled and loaded on the current device."""

    def __init__(self, kernel: CudaKernel) -> None:
        super().__init__()
        self._kernel, self._fields = kernel, len(kernel.work._fields_)
        self._function = driver.loaded_function(compiled(kernel.text), kernel.name, kernel.shared_bytes)

    def __call__(self, programs: int, descriptors: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Launch it on the current stream, tensors by their addresses."""
        addresses = (each.data_ptr() if isinstance(each, torch.Tensor) else each for each in arguments)
        super().__call__(programs, descriptors, tuple(addresses))

    def _encoded(self, index: int, descriptor: Any) -> list[Any]:
        sizes = tuple(descriptor.shape), tuple(descriptor.strides), tuple(descriptor.block_shape)
        encoded = driver.tensor_map(self._kernel.element, descriptor.base.data_ptr(), *sizes)
        return [encoded, *descriptor.shape, *descriptor.strides]

    def launch(self, programs: int, stream: int, arguments: Any) -> None:
        """Launch it with descriptors expanded, and tensors given as addresses."""
        maps, work = arguments[: -self._fields : _PER_MAP], self._kernel.work(*arguments[-self._fields :])
        places = [*(each.address for each in maps), ctypes.addressof(work)]
        start = driver.launch_overlapping if self._kernel.overlaps else driver.launch
        start(self._function, programs, self._kernel.threads, self._kernel.shared_bytes, stream, places)
