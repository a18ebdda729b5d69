"""``make test`` with tools that only say their names: all run, none fails unnoticed; it is Python that builds pages."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("ruff", "mypy", "lint-imports", "python", "pytest")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


def made(folder: Path, failing: str | None) -> subprocess.CompletedProcess[str]:
    """``make test`` in an environment where one tool fails."""
    (folder / "bin").mkdir()
    for name in TOOLS:
        tool = folder / "bin" / name
        tool.write_text(
            f"#!/bin/sh\necho this is {name} {'failing' if name == failing else ''}\nexit {name == failing:d}\n"
        )
        tool.chmod(0o755)
    (folder / ".developing").touch()
    command = ["make", "--no-print-directory", "-C", str(ROOT), f"VENV={folder}", "test"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(command, env=alone, capture_output=True, text=True, timeout=60, check=False)


def test_every_tool_runs_and_is_heard(tmp_path: Path) -> None:
    done = made(tmp_path, None)
    assert done.returncode == 0, done.stderr
    assert [name for name in TOOLS if f"this is {name}" not in done.stdout] == []
    assert "make test: passed" in done.stdout


@pytest.mark.parametrize("failing", TOOLS)
def test_a_tool_that_fails_is_heard_and_fails_the_whole(tmp_path: Path, failing: str) -> None:
    done = made(tmp_path, failing)
    assert done.returncode != 0
    assert f"this is {failing} failing" in done.stdout
    assert "passed" not in done.stdout
