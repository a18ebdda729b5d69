"""Makes a release, and installs it as people will: from the files, in clean environments.

    python tests/environments/release.py dist              the wheel and the sdist in dist/, each tried by itself
    python tests/environments/release.py dist report,pebble only these extras

Both are built from a copy of the tree. The wheel is then installed alone, with nothing but what it requires, and once
with each extra; the sdist alone. Every command's --help is asked of either alone, and something of each extra is run.
Versions are those of constraints.txt; where pip has no PyTorch for CPUs alone, each extra that needs it brings CUDA.

That takes about half an hour on two cores, most of it for the extras that bring PyTorch. What has passed is noted in
dist/passed.json and not tried again while neither the sources nor the checks change, so that a run that was stopped
goes on where it was.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
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
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), named], check=True, cwd=folder)
        clean = {name: value for name, value in os.environ.items() if not re.match("PYTHONPATH|COLUMNS", name)}
        asked = "-" if wanted else OPTION_NAMES
        done = subprocess.run([python, CHECKS, asked, *wanted], cwd=folder, env={**clean, "COLUMNS": "200"})
        return done.returncode == 0


def digest() -> str:
    """What is built and how it is checked, as a number: where it is the same, what passed still passes."""
    tried = [ROOT / name for name in (*COPIED, "constraints.txt")] + [OPTION_NAMES, CHECKS, Path(__file__)]
    tried += sorted(file for file in (ROOT / "src").rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    found = hashlib.sha256(sys.version.encode())
    for file in tried:
        if ".egg-info" not in str(file):
            found.update(f"{file.relative_to(ROOT)} {file.stat().st_size} ".encode() + file.read_bytes())
    return found.hexdigest()


def already_passed(notes: Path, of: str) -> dict[str, float]:
    """Seconds of each way that passed with the same files; none where there are no notes, or not of these files."""
    try:
        noted = json.loads(notes.read_text(encoding="utf-8"))
        return dict(noted["seconds"]) if noted["of"] == of else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def main(arguments: Sequence[str]) -> int:
    """Build, then try every way in; 0 if all work."""
    folder, begun = Path(arguments[0] if arguments else "dist"), time.monotonic()
    notes, of = folder / "passed.json", digest()
    passed = already_passed(notes, of)
    for older in (*folder.glob("attenio-*.whl"), *folder.glob("attenio-*.tar.gz")):
        older.unlink()  # the notes stay: what stops the run while it builds must not lose them
    wheel, sdist = build(folder)
    tried = arguments[1].split(",") if len(arguments) > 1 else every_extra()
    ways = [(wheel, ()), (sdist, ()), *((wheel, (extra,)) for extra in tried)]
    print(f"release: {len(ways)} ways to install; about half an hour, and it goes on where it is stopped", flush=True)
    failed = []
    for place, (package, wanted) in enumerate(ways, 1):
        named = f"{package.name} with {', '.join(wanted) or 'nothing else'}"
        minutes = (time.monotonic() - begun) / 60
        print(f"{place} of {len(ways)}, after {minutes:.0f} min: {named}", flush=True)
        if named in passed:
            print(f"  passed before, in {passed[named]:.0f} s", flush=True)
        else:
            start = time.monotonic()
            if attempt(package, wanted):
                passed[named] = round(time.monotonic() - start, 1)
            else:
                failed.append(named)
        notes.write_text(json.dumps({"of": of, "seconds": passed}, indent=1) + "\n", encoding="utf-8")
    result = f"failed {'; '.join(failed)}" if failed else "installed every way"
    print(f"release: {wheel.name} and {sdist.name}: {result}, {(time.monotonic() - begun) / 60:.0f} min")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
