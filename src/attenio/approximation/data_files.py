"""Queries, keys and values from files: three .npy files, or one .npz or .safetensors file that names them."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput, MissingExtra

Array = NDArray[np.generic]
Arrays = tuple[Array, Array, Array]

_NAMES = (("q", "query", "queries"), ("k", "key", "keys"), ("v", "value", "values"))


def read_arrays(paths: Sequence[Path]) -> Arrays:
    """Query, key and value: from three .npy files in this order, or from one .npz or .safetensors file."""
    for path in paths:
        if not path.exists():
            raise InvalidInput(f"{path} does not exist; give the name of a .npy, .npz or .safetensors file")
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder; give the name of a .npy, .npz or .safetensors file")
    if len(paths) == 3:
        query, key, value = (_one_array(path) for path in paths)
        return query, key, value
    if len(paths) != 1:
        raise InvalidInput(f"{len(paths)} files given; give q.npy k.npy v.npy, or one .npz or .safetensors file")
    match paths[0].suffix:
        case ".npz":
            return _from_npz(paths[0])
        case ".safetensors":
            return _from_safetensors(paths[0])
        case suffix:
            raise InvalidInput(
                f"one file ending in {suffix or 'nothing'} cannot hold q, k and v; give a .npz or .safetensors file,"
                " or three .npy files"
            )


def _one_array(path: Path) -> Array:
    if path.suffix != ".npy":
        raise InvalidInput(f"{path} does not end in .npy; give three .npy files, or one .npz or .safetensors file")
    loaded = _loaded(path)
    if not isinstance(loaded, np.ndarray):
        raise InvalidInput(f"{path} holds several arrays; name it .npz and give it alone")
    return _with_type(loaded)


def _from_npz(path: Path) -> Arrays:
    archive = _loaded(path)
    if isinstance(archive, np.ndarray):
        raise InvalidInput(f"{path} holds a single array; name it .npy and give three of them")
    with archive:
        names = _names(path, list(archive.files))
        try:
            members = [archive[name] for name in names]
        except (ValueError, OSError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
            raise _unreadable(path) from None
    if not all(isinstance(member, np.ndarray) for member in members):  # NumPy hands out what is no array as bytes
        raise _unreadable(path)
    query, key, value = (_with_type(member) for member in members)
    return query, key, value


def _from_safetensors(path: Path) -> Arrays:
    import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16

    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingExtra(f"reading {path}", "approximation") from None
    try:
        with safe_open(path, framework="np") as opened:
            query, key, value = (opened.get_tensor(name) for name in _names(path, list(opened.keys())))
    except (SafetensorError, OSError):
        raise _unreadable(path) from None
    except (AttributeError, TypeError):  # how safetensors says that NumPy lacks a type
        raise InvalidInput(f"{path} holds an element type that NumPy has not; convert it to F32, F16 or BF16") from None
    return query, key, value


def _names(path: Path, present: list[str]) -> list[str]:
    present_names = [next((name for name in names if name in present), None) for names in _NAMES]
    missing = [names[0] for names, name in zip(_NAMES, present_names, strict=True) if name is None]
    if missing:
        listed = ", ".join(sorted(present)[:8]) or "nothing"
        raise InvalidInput(f"{path} has no array {', '.join(missing)}; it has {listed}; call them q, k and v")
    return [name for name in present_names if name is not None]


def _loaded(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        raise _unreadable(path) from None


def _unreadable(path: Path) -> InvalidInput:
    return InvalidInput(f"{path} cannot be read as {path.suffix[1:]}; write it again with NumPy or safetensors")


def _with_type(array: Array) -> Array:
    """NumPy writes bfloat16 as two bytes without a name; nothing else of two bytes comes without one."""
    if array.dtype == np.dtype("V2"):
        import ml_dtypes

        return array.view(ml_dtypes.bfloat16)
    return array
