"""Fetches what tests in a browser need from npm into .browser/, unless it is there."""

import subprocess
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".browser"
PACKAGES = {"axe-core": "axe-core@4.14.0"}


def main() -> None:
    for name, package in PACKAGES.items():
        if (FOLDER / name).is_dir():
            continue
        FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            subprocess.run(["npm", "pack", "--silent", package], cwd=folder, check=True)
            (packed,) = Path(folder).glob("*.tgz")
            with tarfile.open(packed) as archive:
                archive.extractall(folder, filter="data")
            (Path(folder) / "package").rename(FOLDER / name)


if __name__ == "__main__":
    main()
