"""Does every command work with the oldest and the newest versions that pyproject.toml allows?

    python tests/environments/versions.py                      lowest, then newest, then pinned
    python tests/environments/versions.py newest typer==0.27.0 newest, but for this one

Each run makes an environment in a folder that is removed afterwards and installs attenio from this folder as a wheel,
with the extras. Then it calls every command's --help, ``python -m attenio``, a plan, and something of each extra.

- lowest: every requirement at the version after its ``>=``. What these need in turn is the newest that they allow: that
  is what pip gives someone who keeps an old version of one of ours.
- newest: what pip finds today.
- pinned: the versions of constraints.txt, with the extra ``cpu`` and so with PyTorch.

PyTorch is tried at its pinned version only, the one that ``make test`` installs: where pip has no build for CPUs, each
version brings gigabytes of CUDA, and that one is in pip's cache by then. Another is tried where it is named, such as
``lowest torch==2.6.0``. Triton and transformers are not tried here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OPTION_NAMES = ROOT / "tests" / "cli" / "option_names.json"
CHECKS = HERE / "checks.py"
DEVELOPING = ("dev", "docs")
OF_TORCH = ("torch", "triton", "transformers")
KINDS = ("lowest", "newest", "pinned")


def every_extra() -> tuple[str, ...]:
    """All extras by name."""
    return tuple(_project()["optional-dependencies"])


def extras() -> tuple[str, ...]:
    """The extras that are tried with every version: those that do not bring PyTorch."""
    optional = _project()["optional-dependencies"]
    return tuple(
        name
        for name, texts in optional.items()
        if name not in DEVELOPING and not any(Requirement(text).name in OF_TORCH for text in texts)
    )


def requirements() -> Iterator[Requirement]:
    """What attenio and its extras need, each once; of an extra that brings PyTorch the rest, such as llvmlite."""
    project, seen = _project(), set(OF_TORCH)
    optional = [
        text for name, texts in project["optional-dependencies"].items() if name not in DEVELOPING for text in texts
    ]
    for each in map(Requirement, [*project["dependencies"], *optional]):
        if each.name not in seen:
            seen.add(each.name)
            yield each


def lowest() -> list[str]:
    """Pins to the lowest version of each requirement."""
    return [f"{each.name}=={floor(each)}" for each in requirements()]


def floor(requirement: Requirement) -> str:
    """The version after ``>=``."""
    floors = [specifier.version for specifier in requirement.specifier if specifier.operator == ">="]
    if len(floors) != 1:
        raise SystemExit(f"{requirement} names no lowest version; write {requirement.name}>=...")
    return floors[0]


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def wheel(python: Path, folder: Path) -> str:
    """The name of attenio's wheel, made there from a copy, since setuptools leaves its own files beside the source."""
    copy = folder / "source"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    subprocess.run([*_pip(python, "wheel"), "--no-deps", "--wheel-dir", str(folder), str(copy)], check=True)
    return next(folder.glob("attenio-*.whl")).name


def _pip(python: Path, command: str) -> list[str]:
    return [str(python), "-m", "pip", command, "--quiet", "--disable-pip-version-check"]


def install(kind: str, python: Path, folder: Path, besides: Sequence[str]) -> None:
    """Install attenio and its extras in versions of this kind, from a wheel in this folder."""
    pip = _pip(python, "install")
    wanted = (*extras(), "cpu") if kind == "pinned" else extras()
    package = f"{wheel(python, folder)}[{','.join(wanted)}]"
    match kind:
        case "lowest":
            call = [*pip, package, *lowest()]
        case "newest":
            call = [*pip, "--upgrade", "--upgrade-strategy", "eager", package]
        case _:
            call = [*pip, "--constraint", str(ROOT / "constraints.txt"), package]
    subprocess.run([*call, *besides], check=True, cwd=folder)


def make_environment(folder: Path) -> Path:
    """The interpreter of an environment made there."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def attempt(kind: str, besides: Sequence[str]) -> bool:
    """Make an environment, run the checks in it, and say how each went."""
    with tempfile.TemporaryDirectory(prefix=f"attenio-{kind}-") as folder:
        python = make_environment(Path(folder) / "environment")
        print(f"{kind}: installing", flush=True)
        try:
            install(kind, python, Path(folder), besides)
        except subprocess.CalledProcessError as problem:
            print(f"{kind}: not installed, pip ended with status {problem.returncode} and says why above", flush=True)
            return False
        listed = subprocess.run(
            [python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found = {canonicalize_name(each["name"]): each["version"] for each in json.loads(listed.stdout)}
        names = [canonicalize_name(each.name) for each in requirements()] + ["click", "torch"]
        print(f"{kind}: " + ", ".join(f"{name} {found[name]}" for name in names if name in found), flush=True)
        clean = {name: value for name, value in os.environ.items() if not re.match("PYTHONPATH|COLUMNS", name)}
        tried = (*extras(), "torch") if "torch" in found else extras()
        done = subprocess.run([python, CHECKS, OPTION_NAMES, *tried], cwd=folder, env={**clean, "COLUMNS": "200"})
        return done.returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Run the kinds asked for, or all of them; 0 if every check passed."""
    kinds = [each for each in arguments if each in KINDS] or list(KINDS)
    besides = [each for each in arguments if each not in KINDS]
    failed = sum(not attempt(kind, besides) for kind in kinds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
