"""Compiling with Triton in less time: its key is remembered, and kernels of one computation are compiled side by side.

Triton finds what it compiled by a key, in which is a hash of all of Triton, some 400 MB: a third of a second in every
process. The key is written down with sizes and times of the files that it is a hash of, and hashed again when one of
these differs. Where a Triton has neither this key nor compiles side by side, nothing is done sooner.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from attenio.files import cache_folder, write_atomically
from attenio.kernels.replay import replay_enabled

_compiling = threading.local()


@cache
def remember_triton_key() -> None:
    """Let Triton take its key from disk from now on, where it is known."""
    if not replay_enabled():
        return
    with suppress(ImportError):
        from triton.runtime import cache as triton_cache

        if hasattr(triton_cache, "triton_key"):
            folder = Path(triton_cache.__file__).parents[1]
            triton_cache.triton_key = cache(partial(remembered_key, folder, triton_cache.triton_key))


def remembered_key(folder: Path, hashed: Callable[[], str]) -> str:
    """The key of the Triton in a folder: from disk if no file of it has changed since, else ``hashed``."""
    stamp, path = _stamp(folder), cache_folder() / "triton_key.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["stamp"] == stamp:
            return str(known["key"])
    key = hashed()
    with suppress(OSError):  # a disk that cannot be written to costs time only
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"stamp": stamp, "key": key}) + "\n")
    return key


def _stamp(folder: Path) -> str:
    """Names, sizes and times of all files that Triton hashes."""
    files = [folder / "runtime" / "cache.py", *folder.glob("_C/libtriton.*")]
    files += (file for part in ("compiler", "backends", "language") for file in (folder / part).rglob("*.py"))
    known = [(str(file), (of := file.stat()).st_size, of.st_mtime_ns) for file in sorted(files)]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def compile_side_by_side(compute: Callable[[], object]) -> None:
    """Compile the kernels that a computation launches, all of them at once; none of them runs.

    Nothing is done where that cannot be: with an older Triton, within someone else's ``AsyncCompileMode``, or within
    another such computation.
    """
    if not replay_enabled() or compiles_only():
        return
    try:
        from triton import AsyncCompileMode
        from triton.runtime._async_compile import active_mode
    except ImportError:
        return
    if active_mode.get() is not None:
        return
    with ThreadPoolExecutor(thread_name_prefix="triton") as pool, AsyncCompileMode(pool):
        _compiling.active = True
        try:
            compute()
        finally:
            _compiling.active = False


def compile_alone(compute: Callable[[], object], device: torch.device) -> None:
    """Compile the kernels that a computation for a device launches, on this thread; none of them runs or is loaded."""
    where = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with where:
        _compiling.active = _compiling.alone = True
        try:
            compute()
        finally:
            _compiling.active = _compiling.alone = False


def compiles_only() -> bool:
    """Whether kernels are compiled now and do not run."""
    return bool(getattr(_compiling, "active", False))


def only_compiles(kernel: Any, programs: int, arguments: tuple[Any, ...], flags: dict[str, Any]) -> bool:
    """The same, and if so a kernel is compiled for a launch with these arguments."""
    if compiles_only():
        compiled = kernel.warmup(*arguments, grid=(programs,), **flags)
        if getattr(_compiling, "alone", False):
            _build_launcher(compiled)
    return compiles_only()


def _build_launcher(kernel: Any) -> None:
    """What launches a kernel is C in some versions of Triton, compiled at its first launch: have it on disk by then."""
    with suppress(Exception):
        from triton.runtime import driver

        driver.active.launcher_cls(kernel.src, kernel.metadata)
