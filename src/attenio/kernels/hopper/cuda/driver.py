"""What is needed of the CUDA driver, through ctypes: modules, tensor maps and launches."""

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_uint, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

# Values of the driver's enumerations.
_MAX_DYNAMIC_SHARED_BYTES = 8
_TYPES = {"bf16": 9, "f16": 6}
_SWIZZLES = {32: 1, 64: 2, 128: 3}
_NO_INTERLEAVE = 0
_PROMOTE_256_BYTES = 3
_FILL_WITH_ZEROS = 0
_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class DriverError(RuntimeError):
    """A call of the driver that failed, by name."""


class TensorMap:
    """A tensor map, which a kernel takes by value: 128 bytes at a multiple of 64."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(128 + 63)
        self.address = -(-ctypes.addressof(self._memory) // 64) * 64


class _Attribute(ctypes.Structure):
    """Of a launch: ``CUlaunchAttribute``, whose value takes 64 bytes."""

    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_int * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``: blocks, threads, shared memory, stream and attributes."""

    _fields_ = (
        *((name, c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes")),
        ("stream", c_void_p), ("attributes", c_void_p), ("attribute_count", c_uint),
    )  # fmt: skip


@cache
def _library() -> Any:
    library = ctypes.CDLL("libcuda.so.1")
    library.cuLaunchKernel.argtypes = (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p)
    return library


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status:
        text = c_char_p()
        _library().cuGetErrorName(status, byref(text))
        raise DriverError(f"{name}: {text.value.decode() if text.value else status}")


def loaded_function(cubin: bytes, name: str, shared_bytes: int) -> c_void_p:
    """A kernel of a cubin, in the current context, that may use so much shared memory."""
    module, function = c_void_p(), c_void_p()
    _call("cuModuleLoadData", byref(module), cubin)
    _call("cuModuleGetFunction", byref(function), module, name.encode())
    _call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED_BYTES, c_int(shared_bytes))
    return function


def tensor_map(
    element: str, address: int, sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]
) -> TensorMap:
    """Of 16-bit elements; sizes, strides (in elements) and the box begin with the outermost dimension, and a row of the
    box is as long as the swizzle's pattern."""
    rank = len(sizes)
    encoded = TensorMap()
    _call(
        "cuTensorMapEncodeTiled", c_void_p(encoded.address), _TYPES[element], c_uint32(rank), c_void_p(address),
        (c_uint64 * rank)(*reversed(sizes)), (c_uint64 * (rank - 1))(*(2 * each for each in reversed(strides[:-1]))),
        (c_uint32 * rank)(*reversed(box)), (c_uint32 * rank)(*(1,) * rank), _NO_INTERLEAVE, _SWIZZLES[2 * box[-1]],
        _PROMOTE_256_BYTES, _FILL_WITH_ZEROS,
    )  # fmt: skip
    return encoded


def launch(
    function: c_void_p, programs: int, threads: int, shared_bytes: int, stream: int, addresses: Sequence[int]
) -> None:
    """Launch a kernel on a stream; parameters are at these addresses."""
    parameters = (c_void_p * len(addresses))(*addresses)
    _call(
        "cuLaunchKernel", function, programs, 1, 1, threads, 1, 1, shared_bytes, stream, parameters, None
    )  # fmt: skip


def launch_overlapping(
    function: c_void_p, programs: int, threads: int, shared_bytes: int, stream: int, addresses: Sequence[int]
) -> None:
    """The same of a kernel that waits itself for what the launch before it writes (programmatic dependent launch)."""
    parameters = (c_void_p * len(addresses))(*addresses)
    attribute = _Attribute(_PROGRAMMATIC_STREAM_SERIALIZATION, 0, (c_int * 16)(1))
    config = _Config(programs, 1, 1, threads, 1, 1, shared_bytes, stream, ctypes.addressof(attribute), 1)
    _call("cuLaunchKernelEx", byref(config), function, parameters, None)
