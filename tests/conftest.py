"""Laws draw the same problems on every run: a red run can be repeated, and a green one is not luck.

``pytest --hypothesis-profile=thorough`` draws ten times as many where a test does not say how many it wants.
"""

import io
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import settings

# Workers share the cores: threads that wait for each other should sleep meanwhile. It is read when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("thorough", deadline=None, max_examples=600)
settings.load_profile("repeatable")


# Tests under these folders search games, which is compiled: for more than a minute, but only once on a disk.
SEARCHING = ("tests/pebbling/solving", "tests/pebbling/scheduling", "tests/pebbling/certified", "tests/cli/pebble")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.as_posix() for folder in SEARCHING):
            item.fixturenames.insert(0, "compiled_search")


@pytest.fixture(scope="session")
def compiled_search(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The search compiled by the first of several workers that wants it, while others wait for the files."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    from attenio.cli import main

    game = ("--graph", "attention", "--n", "2", "--d", "1", "--red", "6")
    with _alone(tmp_path_factory.getbasetemp().parent / "compiling"), redirect_stdout(io.StringIO()):
        for rules in ("standard", "one-shot", "partial"):
            main(["pebble", "solve", *game, "--game", rules, "--time-limit", "5"])
            main(["pebble", "schedule", *game, "--game", rules, "--time-limit", "1"])


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """While one process is in here, others wait."""
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            time.sleep(0.2)
    try:
        yield
    finally:
        lock.unlink()
