"""The explorer's files: the page, its worker, Python for the browser, and attenio itself."""

import io
import os
import zipfile
from importlib import resources
from pathlib import Path

from attenio import __version__
from attenio.errors import InvalidInput
from attenio.explorer.packages import SCRIPTS, packages

PAGE = ("index.html", "page.css", "page.js", "draw.js", "worker.js")
# Parts that need what a browser does not have: PyTorch, a terminal.
_LEFT_OUT = ("kernels", "cli")
_SUFFIXES = (".py", ".yaml", ".json")


def files() -> dict[str, bytes]:
    """Every file of the site by its path."""
    folder = packages()
    every = {name: page_file(name) for name in PAGE}
    every |= {f"pyodide/{name}": (folder / name).read_bytes() for name in SCRIPTS}
    every["numpy.zip"] = (folder / "numpy.zip").read_bytes()
    every["attenio.zip"] = source_zip()
    return every


def page_file(name: str) -> bytes:
    """One file of the page itself."""
    text = resources.files("attenio.explorer").joinpath("page", name).read_text(encoding="utf-8")
    return text.replace("{{version}}", __version__).encode("utf-8")


def source_zip() -> bytes:
    """attenio and PyYAML as sources."""
    import yaml

    written = io.BytesIO()
    package, parser = Path(str(resources.files("attenio"))), Path(yaml.__file__).parent
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in sorted(package.rglob("*")):
            parts = file.relative_to(package).parts
            if file.suffix in _SUFFIXES and parts[0] not in _LEFT_OUT and "__pycache__" not in parts:
                zipped.writestr(zipfile.ZipInfo("/".join(("attenio", *parts))), file.read_bytes(), zipfile.ZIP_DEFLATED)
        for file in sorted(parser.glob("*.py")):
            zipped.writestr(zipfile.ZipInfo(f"yaml/{file.name}"), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return written.getvalue()


def make_folder(folder: Path) -> None:
    """Make the folder of a site, unless it is there and empty or holds an older one."""
    if folder == Path():
        raise InvalidInput("the folder of the page has no name (or is '.'); give the name of a new folder")
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "worker.js").is_file())):
        raise InvalidInput(f"{folder} is there and holds something else; give a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(f"cannot make the folder {folder}: {problem.strerror}; give another one") from None
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"folder {folder} may not be written to; give another one")


def build(folder: Path) -> int:
    """Write the site into a folder that is new, empty, or holds an older one; how many bytes that are."""
    make_folder(folder)
    every = files()
    for name, content in every.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return sum(map(len, every.values()))
