"""A launch as the driver takes it, which the compiled half of replay (``native``) hands over."""

import ctypes
from ctypes import byref, c_size_t, c_void_p
from struct import calcsize, pack_into
from typing import Any, NamedTuple

# Types of parameters by Triton's names, as ``struct`` writes them; those of pointers begin with an asterisk.
_CODES = {"*": "P", "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "fp32": "f", "fp64": "d"}
_CODES |= {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}
_CONSTANT = "constexpr"
# Each parameter of Triton's begins at a multiple of so many bytes here, and so long is an address.
_APART = 8
_WARP = 32


class Written(NamedTuple):
    """All parameters of a launch in one piece, where each begins there, and where arguments that change are written.

    Such an argument is an address, or a tensor map of 128 bytes. One that ``overlaps`` the end of the launch before it
    waits itself for what that writes.
    """

    function: int
    threads: int
    shared_bytes: int
    overlaps: bool
    parameters: bytes
    begins: tuple[int, ...]
    places: tuple[int, ...]


def written_for_triton(kernel: Any, arguments: list[Any], places: tuple[int, ...]) -> Written | None:
    """A launch of a kernel that Triton compiled, whose parameters are those that the driver knows of; None otherwise.

    After their own Triton's kernels have parameters for memory of each program, of which this one has none.
    """
    made, types = kernel.metadata, [str(kind) for kind in kernel.src.signature.values()]
    if made.num_ctas != 1 or made.launch_cooperative_grid or len(types) != len(arguments):
        return None
    codes = [_CODES.get("*" if kind.startswith("*") else kind) for kind in types if kind != _CONSTANT]
    sizes = parameter_sizes(kernel.function)
    if sizes is None or None in codes or sizes[: len(codes)] != [calcsize(f"@{code}") for code in codes]:
        return None
    if any(size != _APART for size in sizes[len(codes) :]):
        return None
    given = [at for at, kind in enumerate(types) if kind != _CONSTANT]
    parameters = bytearray(_APART * len(sizes))
    for index, (at, code) in enumerate(zip(given, codes, strict=True)):
        pack_into(f"@{code}", parameters, _APART * index, arguments[at])
    if not set(places).issubset(given):
        return None
    return Written(
        function=kernel.function, threads=_WARP * made.num_warps, shared_bytes=made.shared,
        overlaps=bool(made.launch_pdl), parameters=bytes(parameters),
        begins=tuple(range(0, len(parameters), _APART)), places=tuple(_APART * given.index(at) for at in places),
    )  # fmt: skip


def parameter_sizes(function: int) -> list[int] | None:
    """Bytes of each parameter of a kernel; None with a driver that does not tell."""
    try:
        ask = ctypes.CDLL("libcuda.so.1").cuFuncGetParamInfo
    except (AttributeError, OSError):
        return None
    sizes: list[int] = []
    offset, size = c_size_t(), c_size_t()
    while ask(c_void_p(function), c_size_t(len(sizes)), byref(offset), byref(size)) == 0:
        sizes.append(size.value)
    return sizes
