"""Reading arrays: the same ones come back, and a file that cannot be used says why in one line."""

import json
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from attenio.approximation.data_files import read_arrays
from attenio.errors import InvalidInput, MissingExtra

ARRAYS = {name: np.random.default_rng(i).standard_normal((2, 3)).astype(np.float16) for i, name in enumerate("qkv")}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_three_files_come_back(tmp_path: Path, dtype: type) -> None:
    paths = [tmp_path / f"{name}.npy" for name in ARRAYS]
    for path, array in zip(paths, ARRAYS.values(), strict=True):
        np.save(path, array.astype(dtype))
    for found, array in zip(read_arrays(paths), ARRAYS.values(), strict=True):
        assert found.dtype == dtype
        assert (found == array.astype(dtype)).all()


@pytest.mark.parametrize("names", ["qkv", ("query", "key", "value")])
def test_one_npz_comes_back(tmp_path: Path, names: tuple[str, str, str]) -> None:
    np.savez(tmp_path / "a.npz", **dict(zip(names, ARRAYS.values(), strict=True)))
    for found, array in zip(read_arrays([tmp_path / "a.npz"]), ARRAYS.values(), strict=True):
        assert (found == array).all()


def test_one_safetensors_file_comes_back(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file(ARRAYS, tmp_path / "a.safetensors")
    for found, array in zip(read_arrays([tmp_path / "a.safetensors"]), ARRAYS.values(), strict=True):
        assert (found == array).all()


def test_an_element_type_that_numpy_lacks_is_named_as_the_reason(tmp_path: Path) -> None:
    places = {
        name: {"dtype": "F8_E5M2", "shape": [2, 2], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate("qkv")
    }
    header = json.dumps(places).encode()
    (tmp_path / "small.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(12))
    with pytest.raises(InvalidInput, match="element type that NumPy has not"):
        read_arrays([tmp_path / "small.safetensors"])


def test_safetensors_without_the_extra_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    (tmp_path / "a.safetensors").write_bytes(b"")
    with pytest.raises(MissingExtra, match=r"\.\[approximation\]"):
        read_arrays([tmp_path / "a.safetensors"])


def test_files_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", q=ARRAYS["q"], k=ARRAYS["k"])
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 torn")
    (tmp_path / "text.npy").write_text("not an array")
    np.save(tmp_path / "objects.npy", np.array([object()]), allow_pickle=True)
    long = np.resize(ARRAYS["q"], (400, 4))
    np.savez_compressed(tmp_path / "bent.npz", q=long, k=long, v=long)
    bent = bytearray((tmp_path / "bent.npz").read_bytes())
    bent[150:250] = b"\xff" * 100
    (tmp_path / "bent.npz").write_bytes(bent)
    with zipfile.ZipFile(tmp_path / "foreign.npz", "w") as archive:
        for name in "qkv":
            archive.writestr(f"{name}.npy", b"not an array")
    text = tmp_path / "text.npy"
    for paths, said in (
        ([tmp_path / "none.npz"], "does not exist"),
        ([tmp_path], "is a folder"),
        ([tmp_path / "few.npz"], "has no array v; it has k, q"),
        ([tmp_path / "torn.npz"], "cannot be read as npz"),
        ([tmp_path / "bent.npz"], "cannot be read as npz"),
        ([tmp_path / "foreign.npz"], "cannot be read as npz"),
        ([text, text, text], "cannot be read as npy"),
        ([tmp_path / "objects.npy"] * 3, "cannot be read as npy"),
        ([text], "cannot hold q, k and v"),
        ([text, text], "2 files given"),
    ):
        with pytest.raises(InvalidInput, match=said):
            read_arrays(paths)
