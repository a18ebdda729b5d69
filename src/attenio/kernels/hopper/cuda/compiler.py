"""Compiling CUDA C++ with NVRTC, which every PyTorch for CUDA brings along, and keeping what it made on disk."""

import ctypes
import hashlib
import site
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from attenio.files import cache_folder, write_atomically

OPTIONS = ("--gpu-architecture=sm_90a", "--std=c++17")


class CompileError(RuntimeError):
    """What NVRTC says of a text that it does not compile."""


@cache
def library() -> Any | None:
    """NVRTC, or None where there is none."""
    for place in _places():
        try:
            for builtins in sorted(place.parent.glob("libnvrtc-builtins.so.*")) if place.is_absolute() else ():
                ctypes.CDLL(str(builtins))  # NVRTC opens it by its name
            return ctypes.CDLL(str(place))
        except OSError:
            continue
    return None


def _places() -> list[Path]:
    """Where the packages of NVIDIA put it, which PyTorch depends on, and then wherever the system has it."""
    folders = (Path(folder) / "nvidia" for folder in (*site.getsitepackages(), site.getusersitepackages()))
    packed = [path for folder in folders for path in folder.glob("*/lib/libnvrtc.so.*")]
    return [*sorted(packed, reverse=True), *(Path(f"libnvrtc.so.{major}") for major in (13, 12))]


_begun: dict[str, Future[bytes]] = {}
_beginning = Lock()
_made_here: set[str] = set()


def begin_compiling(source: str) -> Future[bytes]:
    """Compile a text on a thread of its own, which ``compiled`` waits for: NVRTC needs no Python meanwhile."""
    with _beginning:
        if source not in _begun:
            pool = ThreadPoolExecutor(1, thread_name_prefix="nvrtc")
            _begun[source] = pool.submit(_made, source)
            pool.shutdown(wait=False)
        return _begun[source]


def is_at_hand(source: str) -> bool:
    """Whether a text is compiled: by this process, or by one that left it on disk."""
    begun = _begun.get(source)
    if begun is not None and begun.done():
        return begun.exception() is None
    return source in _made_here or (begun is None and _file(source).is_file())


def compiled(source: str) -> bytes:
    """The cubin of a text for Hopper: from disk, or by NVRTC."""
    begun = _begun.get(source)
    return _made(source) if begun is None else begun.result()


def _made(source: str) -> bytes:
    nvrtc = library()
    if nvrtc is None:
        raise CompileError("NVRTC is not there: install the package nvidia-cuda-nvrtc, or PyTorch for CUDA")
    path = _file(source)
    if path.is_file():
        return path.read_bytes()
    cubin = _compiled(nvrtc, source)
    _made_here.add(source)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, cubin)
    except OSError:  # a disk that cannot be written to costs time only
        pass
    return cubin


def _file(source: str) -> Path:
    key = hashlib.sha256(f"{version()} {OPTIONS} {source}".encode()).hexdigest()[:32]
    return cache_folder() / "cuda" / f"{key}.cubin"


def version() -> str:
    """Of NVRTC where there is one."""
    major, minor, nvrtc = c_int(), c_int(), library()
    if nvrtc is not None:
        nvrtc.nvrtcVersion(byref(major), byref(minor))
    return f"{major.value}.{minor.value}"


def _compiled(nvrtc: Any, source: str) -> bytes:
    program, size = c_void_p(), c_size_t()
    options = (c_char_p * len(OPTIONS))(*(each.encode() for each in OPTIONS))
    nvrtc.nvrtcCreateProgram(byref(program), source.encode(), b"attenio.cu", 0, None, None)
    try:
        if nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options):
            nvrtc.nvrtcGetProgramLogSize(program, byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CompileError(log.value.decode(errors="replace"))
        nvrtc.nvrtcGetCUBINSize(program, byref(size))
        cubin = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, cubin)
        return cubin.raw
    finally:
        nvrtc.nvrtcDestroyProgram(byref(program))
