"""Launching the kernel of ``attenio.cu``, with the arguments that a launch of Triton's kernels has."""

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from attenio.kernels.hopper.cuda import driver
from attenio.kernels.hopper.cuda.compiler import compiled
from attenio.kernels.hopper.cuda.source import KERNEL, source
from attenio.kernels.hopper.cuda.tiles import shared_bytes
from attenio.kernels.hopper.tiles import HopperTiles

ELEMENTS = {torch.bfloat16: "bf16", torch.float16: "f16"}
_WARPGROUP = 128
# TMA descriptors of Q, K and V; each is a tensor map, and four sizes and strides that this kernel does not take.
_MAPS, _PER_MAP = 3, 9
_MOST_MAPS = 4096


class _Work(ctypes.Structure):
    """The last parameter of the kernel: addresses, then numbers."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("Largest", "Total", "Output", "Starts", "Entries", "Sinks")),
        *((name, ctypes.c_int) for name in ("heads", "group", "queries", "keys", "below", "above", "width")),
        ("scale_log2", ctypes.c_float),
    )


class CudaLauncher:
    """The kernel compiled for its constants; launches are those of ``replay.launcher.Launcher``."""

    is_direct = True
    is_counted = False  # by the hooks of Triton

    def __init__(self, element: str, tiles: HopperTiles, constants: Mapping[str, int]) -> None:
        self._element, self._threads = element, _WARPGROUP * (tiles.consumers + 1)
        self._shared_bytes = shared_bytes(tiles, constants["D"], constants["V"])
        cubin = compiled(source(element, constants))
        self._function = driver.loaded_function(cubin, KERNEL, self._shared_bytes)
        self._maps: dict[tuple[Any, ...], list[Any]] = {}

    def __call__(self, programs: int, descriptors: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Launch it on the current stream."""
        stream = torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())
        addresses = (each.data_ptr() if isinstance(each, torch.Tensor) else each for each in arguments)
        self.launch(programs, stream, [*self.expanded(descriptors), *addresses])

    def expanded(self, descriptors: tuple[Any, ...]) -> list[Any]:
        """Each descriptor as a tensor map, sizes and strides."""
        return [part for index, each in enumerate(descriptors) for part in self.tensor_map(index, each)]

    def tensor_map(self, index: int, descriptor: Any) -> list[Any]:
        """Tensor map, sizes and strides of a descriptor."""
        key = (index, descriptor.base.data_ptr(), descriptor.shape, descriptor.strides)
        encoded = self._maps.get(key)
        if encoded is None:
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            sizes = tuple(descriptor.shape), tuple(descriptor.strides), tuple(descriptor.block_shape)
            found = driver.tensor_map(self._element, descriptor.base.data_ptr(), *sizes)
            encoded = self._maps[key] = [found, *descriptor.shape, *descriptor.strides]
        return encoded

    def launch(self, programs: int, stream: int, arguments: Any) -> None:
        """Launch it with descriptors expanded, and tensors given as addresses."""
        maps, work = arguments[: _MAPS * _PER_MAP : _PER_MAP], _Work(*arguments[_MAPS * _PER_MAP :])
        places = [each.address for each in maps]
        driver.launch(
            self._function, programs, self._threads, self._shared_bytes, stream, [*places, ctypes.addressof(work)]
        )  # fmt: skip


@lru_cache(maxsize=256)
def launcher_of(
    element: str, tiles: HopperTiles, constants: tuple[tuple[str, int], ...], device: torch.device
) -> CudaLauncher:
    """Compiled and loaded once for each device."""
    del device  # a module belongs to the current one
    return CudaLauncher(element, tiles, dict(constants))
