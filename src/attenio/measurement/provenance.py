"""Where a number comes from: which attenio, which commit, which day. Nothing about the computer or its user."""

import datetime
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from attenio import __version__

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What made a result, and when; ``commit`` is None outside a checkout, and ends in + with uncommitted changes."""

    version: str
    commit: str | None
    date: str

    def __str__(self) -> str:
        commit = "" if self.commit is None else f", commit {self.commit}"
        return f"attenio {self.version}{commit}, {self.date}"


def provenance() -> Provenance:
    """The provenance of what this process computes now."""
    try:
        version = metadata.version("attenio")
    except metadata.PackageNotFoundError:
        version = __version__  # from a folder of sources, without an installation
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Provenance(version=version, commit=_commit(), date=day)


def _commit() -> str | None:
    # Installed into somebody else's repository, the package is not tracked there: their commit says nothing about us.
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{commit}+" if commit and changed else commit


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_PACKAGE, capture_output=True, text=True, timeout=5, check=True, shell=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
