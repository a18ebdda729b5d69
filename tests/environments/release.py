"""Makes a release, and installs it as people will: from the files, in clean environments.

    python tests/environments/release.py dist              the wheel and the sdist in dist/, each tried by itself
    python tests/environments/release.py dist report,pebble only these extras

Both are built from a copy of the tree. The wheel is then installed alone, with nothing but what it requires, and once
with each extra; the sdist alone. Every command's --help is asked of either alone, and something of each extra is run.
Versions are those of constraints.txt; where pip has no PyTorch for CPUs alone, each extra that needs it brings CUDA.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from versions import CHECKS, OPTION_NAMES, ROOT, every_extra

COPIED = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff")
# setuptools changes sys.argv
_BUILD = "import sys; to = sys.argv[1]; from setuptools import build_meta as b; b.build_sdist(to); b.build_wheel(to)"


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, made with the setuptools of this environment."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="attenio-release-") as work:
        copy = Path(work) / "source"
        shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        for name in COPIED:
            shutil.copy(ROOT / name, copy / name)
        command = [sys.executable, "-c", _BUILD, str(folder.resolve())]
        subprocess.run(command, cwd=copy, check=True, capture_output=True, text=True)
    (wheel,), (sdist,) = folder.glob("attenio-*.whl"), folder.glob("attenio-*.tar.gz")
    return wheel, sdist


def attempt(package: Path, wanted: Sequence[str]) -> bool:
    """Install one file, maybe with extras, into an environment of its own, and run the checks there."""
    with tempfile.TemporaryDirectory(prefix="attenio-installed-") as folder:
        environment = Path(folder) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        named = f"{package.resolve()}[{','.join(wanted)}]" if wanted else str(package.resolve())
        print(f"{package.name} with {', '.join(wanted) or 'nothing else'}", flush=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), named], check=True, cwd=folder)
        clean = {name: value for name, value in os.environ.items() if not re.match("PYTHONPATH|COLUMNS", name)}
        asked = "-" if wanted else OPTION_NAMES
        done = subprocess.run([python, CHECKS, asked, *wanted], cwd=folder, env={**clean, "COLUMNS": "200"})
        return done.returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Build, then try every way in; 0 if all work."""
    folder = Path(arguments[0] if arguments else "dist")
    shutil.rmtree(folder, ignore_errors=True)
    wheel, sdist = build(folder)
    tried = arguments[1].split(",") if len(arguments) > 1 else every_extra()
    ways = [(wheel, ()), (sdist, ()), *((wheel, (extra,)) for extra in tried)]
    failed = [f"{package.name}[{','.join(wanted)}]" for package, wanted in ways if not attempt(package, wanted)]
    print(f"release: {wheel.name} and {sdist.name}: " + (f"failed with {failed}" if failed else "installed every way"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
