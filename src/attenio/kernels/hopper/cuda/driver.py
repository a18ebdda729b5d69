"""What is needed of the CUDA driver, through ctypes: modules, tensor maps and launches."""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from ctypes import addressof, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p, create_string_buffer
from functools import cache
from struct import Struct
from threading import Lock
from typing import Any

# Values of the driver's enumerations.
_MAX_DYNAMIC_SHARED_BYTES = 8
_TYPES = {"bf16": 9, "f16": 6}
_SWIZZLES = {32: 1, 64: 2, 128: 3}
_NO_INTERLEAVE = 0
_PROMOTE_256_BYTES = 3
_FILL_WITH_ZEROS = 0
_PROGRAMMATIC_STREAM_SERIALIZATION = 6
_RELAXED = 2


class DriverError(RuntimeError):
    """A call of the driver that failed, by name."""


class TensorMap(int):
    """A tensor map, which a kernel takes by value: 128 bytes at a multiple of 64. The number is where they are."""

    _memory: Any

    def __new__(cls) -> "TensorMap":
        """Memory for one."""
        memory = ctypes.create_string_buffer(128 + 63)
        new = super().__new__(cls, -(-ctypes.addressof(memory) // 64) * 64)
        new._memory = memory
        return new


# ``CUlaunchConfig``: blocks, threads and bytes of shared memory, the stream, and attributes, which are at an address.
_CONFIG, _STREAM_AT, _POINTER = Struct("@7IPPI"), Struct("@7I0P").size, Struct("@P")
# ``CUlaunchAttribute``: which it is, and its value, of 64 bytes.
_ATTRIBUTE = Struct("@Ixxxxi60x")
# Types of a parameter's fields, as ``struct`` calls them.
_FIELDS = {ctypes.c_void_p: "P", ctypes.c_int: "i", ctypes.c_longlong: "q", ctypes.c_float: "f"}


@cache
def _library() -> Any:
    library = ctypes.CDLL("libcuda.so.1")
    library.cuLaunchKernelEx.argtypes = (c_void_p,) * 4
    return library


def _call(name: str, *arguments: Any) -> None:
    _expect_success(name, getattr(_library(), name)(*arguments))


def _expect_success(name: str, status: int) -> None:
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


@contextmanager
def loads_while_capturing() -> Iterator[None]:
    """Modules may be loaded in here although a stream of this thread is captured: that is no work of the stream's."""
    mode = c_int(_RELAXED)
    _call("cuThreadExchangeStreamCaptureMode", byref(mode))
    try:
        yield
    finally:
        _call("cuThreadExchangeStreamCaptureMode", byref(mode))


def tensor_map(
    element: str, address: int, sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...]
) -> TensorMap:
    """Of 16-bit elements; sizes, strides (in elements) and the box begin with the outermost dimension, and a row of the
    box is as long as the swizzle's pattern."""
    rank = len(sizes)
    encoded = TensorMap()
    _call(
        "cuTensorMapEncodeTiled", c_void_p(encoded), _TYPES[element], c_uint32(rank), c_void_p(address),
        (c_uint64 * rank)(*reversed(sizes)), (c_uint64 * (rank - 1))(*(2 * each for each in reversed(strides[:-1]))),
        (c_uint32 * rank)(*reversed(box)), (c_uint32 * rank)(*(1,) * rank), _NO_INTERLEAVE, _SWIZZLES[2 * box[-1]],
        _PROMOTE_256_BYTES, _FILL_WITH_ZEROS,
    )  # fmt: skip
    return encoded


def enqueuing() -> Callable[[int, Any, int, None], int]:
    """``cuLaunchKernelEx``: it takes where a config is, a kernel, and where the addresses of its parameters are."""
    function: Callable[[int, Any, int, None], int] = _library().cuLaunchKernelEx
    return function


class KernelLaunch:
    """Launches of a kernel whose parameters are so many tensor maps and then one structure, ``work``.

    What the driver reads in a call lies in the same memory for every launch: to make structures of ctypes anew takes
    twice as long. One that ``overlaps`` the end of the launch before it (programmatic dependent launch) waits
    itself for what that writes.
    """

    def __init__(
        self, function: Any, threads: int, shared_bytes: int, maps: int, work: type[ctypes.Structure], *, overlaps: bool
    ) -> None:
        self._function, self._block = function, (1, 1, threads, 1, 1, shared_bytes)
        self._fields = Struct("@" + "".join(_FIELDS[field[1]] for field in work._fields_))
        self._places = Struct(f"@{maps + 1}P")
        sizes = _CONFIG.size, _ATTRIBUTE.size, self._places.size, ctypes.sizeof(work)
        self._config, attribute, self._parameters, self._work = self._memory = tuple(map(create_string_buffer, sizes))
        _ATTRIBUTE.pack_into(attribute, 0, _PROGRAMMATIC_STREAM_SERIALIZATION, 1)
        self._attributes = (addressof(attribute), 1) if overlaps else (0, 0)
        self._config_at, self._parameters_at, self._work_at = map(addressof, (self._memory[0], *self._memory[2:]))
        self._enqueue, self._writing = enqueuing(), Lock()

    def __call__(self, programs: int, stream: int, maps: Iterable[int], work: Iterable[Any]) -> None:
        """Launch it on a stream; tensor maps are at these addresses, and these are the fields of ``work``."""
        with self._writing:  # until the driver has read it
            self.write(programs, stream, maps, work)
            status = self._enqueue(self._config_at, self._function, self._parameters_at, None)
        _expect_success("cuLaunchKernelEx", status)

    def write(self, programs: int, stream: int, maps: Iterable[int], work: Iterable[Any]) -> None:
        """What the driver reads in a launch. Tensor maps stay where they are as long as it may be done again."""
        self._maps = tuple(maps)
        _CONFIG.pack_into(self._config, 0, programs, *self._block, stream, *self._attributes)
        self._places.pack_into(self._parameters, 0, *self._maps, self._work_at)
        self._fields.pack_into(self._work, 0, *work)

    def again(self, stream: int, places: Iterable[tuple[Any, int]], addresses: Iterable[int]) -> None:
        """The launch that was written, on a stream, with other addresses at some places."""
        with self._writing:
            _POINTER.pack_into(self._config, _STREAM_AT, stream)
            for (memory, at), address in zip(places, addresses, strict=True):
                _POINTER.pack_into(memory, at, address)
            status = self._enqueue(self._config_at, self._function, self._parameters_at, None)
        if status:
            _expect_success("cuLaunchKernelEx", status)

    def place_of_map(self, index: int) -> tuple[Any, int]:
        """Where the address of a tensor map is written."""
        return self._parameters, _POINTER.size * index

    def place_of_field(self, offset: int) -> tuple[Any, int]:
        """Where a field of ``work`` is written."""
        return self._work, offset
