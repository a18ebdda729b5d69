"""Compiling with Triton in less time: its key is hashed beside imports, kernels of one computation side by side.

Triton finds what it compiled by a key, in which is a hash of all of Triton, some 400 MB: a third of a second in every
process. That is done on a thread while kernels are imported. Where a Triton has neither this nor compiles side by side,
nothing is done sooner.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

_hashing: list[threading.Thread] = []
_compiling = threading.local()


def begin_hashing() -> None:
    """Hash Triton on a thread, once for a process."""
    if _hashing:
        return
    try:
        from triton.runtime.cache import triton_key
    except ImportError:
        return
    _hashing.append(threading.Thread(target=triton_key, name="triton-key", daemon=True))
    _hashing[0].start()


def wait_for_hash() -> None:
    """Before Triton asks for its key, which it would hash a second time."""
    for thread in _hashing:
        thread.join()


@contextmanager
def compiling_only() -> Iterator[None]:
    """Kernels that are launched within are compiled, all of them at once, and do not run."""
    try:
        from triton import AsyncCompileMode
    except ImportError:
        yield
        return
    wait_for_hash()
    with ThreadPoolExecutor(thread_name_prefix="triton") as pool, AsyncCompileMode(pool):
        _compiling.active = True
        try:
            yield
        finally:
            _compiling.active = False


def compiles_only() -> bool:
    """Whether this is within ``compiling_only``."""
    return bool(getattr(_compiling, "active", False))


def only_compiles(kernel: Any, programs: int, arguments: tuple[Any, ...], flags: dict[str, Any]) -> bool:
    """The same, and if so a kernel is compiled for a launch with these arguments."""
    if compiles_only():
        kernel.warmup(*arguments, grid=(programs,), **flags)
    return compiles_only()
