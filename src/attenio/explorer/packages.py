"""Python for the browser: Pyodide and NumPy from the npm registry, made to fit each other and kept for later.

NumPy there asks for a function that Pyodide does not have (``backtrace``), so a stand-in is written into Pyodide's
script. What is not needed to run, such as tests and headers, is left out.
"""

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from attenio.errors import InvalidInput
from attenio.files import cache_folder

# Versions that fit each other, and the SHA-256 of what npm packs.
PYODIDE = ("pyodide@0.27.7", "89d5d952675eb08e11286e52c7238f1248ce71726e896db9703e73bef23dc343")
NUMPY = (
    "@emscripten-forge/numpy@2.0.1-py312h4e66579-0",
    "7c6dab4b681b15286f10ab9972147f599d91df4ea881f61fb58ad39349423d84",
)
SCRIPTS = ("pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
_IMPORTS = "var wasmImports={"
_STAND_IN = '"backtrace":function(){return 0},'
_LEFT_OUT = {"tests", "f2py", "_pyinstaller", "distutils", "include", "__pycache__"}
_READY = "numpy.zip"


def kept_folder() -> Path:
    """Where the packages are kept."""
    return cache_folder() / "explorer-pyodide-0.27.7"


def are_kept() -> bool:
    """Whether nothing has to be fetched."""
    return (kept_folder() / _READY).is_file()


def packages() -> Path:
    """The folder with everything but attenio itself; fetched by npm the first time."""
    folder = kept_folder()
    if are_kept():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise InvalidInput(
            "the explorer fetches Pyodide and NumPy by npm the first time, and npm is not here; install Node.js, or"
            f" copy {folder} from a computer that has it"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        ready = Path(work) / "ready"
        ready.mkdir()
        _unpack_pyodide(_fetched(npm, PYODIDE, Path(work)), ready)
        (ready / _READY).write_bytes(_numpy_zip(_fetched(npm, NUMPY, Path(work))))
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)
    return folder


def _fetched(npm: str, package: tuple[str, str], folder: Path) -> Path:
    name, digest = package
    place = folder / name.split("@")[-2].strip("/").replace("/", "-")
    place.mkdir()
    try:
        command = [npm, "pack", "--silent", name]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=300, shell=False)
        (packed,) = place.glob("*.tgz")
    except (OSError, subprocess.SubprocessError, ValueError):
        raise InvalidInput(f"npm could not fetch {name}; check the network, and try 'npm pack {name}'") from None
    found = hashlib.sha256(packed.read_bytes()).hexdigest()
    if found != digest:
        raise InvalidInput(f"{name} is not the package that was tested (SHA-256 {found}); nothing was installed")
    return packed


def _unpack_pyodide(packed: Path, folder: Path) -> None:
    with tarfile.open(packed) as archive:
        for name in SCRIPTS:
            member = archive.extractfile(f"package/{name}")
            assert member is not None
            content = member.read()
            if name == "pyodide.asm.js":
                text = content.decode("utf-8")
                if text.count(_IMPORTS) != 1:
                    raise InvalidInput("Pyodide's script is not the one that was tested; nothing was installed")
                content = text.replace(_IMPORTS, _IMPORTS + _STAND_IN).encode("utf-8")
            (folder / name).write_bytes(content)


def _numpy_zip(packed: Path) -> bytes:
    """NumPy without what no program needs."""
    with tarfile.open(packed) as outer:
        (inner_name,) = (name for name in outer.getnames() if name.endswith(".tar.gz"))
        inner_file = outer.extractfile(inner_name)
        assert inner_file is not None
        written = io.BytesIO()
        with (
            tarfile.open(fileobj=io.BytesIO(inner_file.read())) as inner,
            zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as zipped,
        ):
            for member in inner:
                path = Path(member.name)
                parts = path.parts[path.parts.index("site-packages") + 1 :] if "site-packages" in path.parts else ()
                wanted = (
                    parts[:1] == ("numpy",) and not _LEFT_OUT & set(parts) and path.suffix not in (".pyi", ".a", ".h")
                )
                content = inner.extractfile(member) if wanted and member.isfile() else None
                if content is not None:
                    zipped.writestr(zipfile.ZipInfo("/".join(parts)), content.read(), zipfile.ZIP_DEFLATED)
    return written.getvalue()
