"""Laws draw the same problems on every run: a red run can be repeated, and a green one is not luck.

``pytest --hypothesis-profile=thorough`` draws others each time, and twenty times as many.
"""

import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

# Workers share the cores: threads that wait for each other should sleep meanwhile. It is read when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# NumPy's products are small here, and as many processes as cores run them: threads of one would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Inductor compiles in this process: others that it would start import PyTorch first, which takes longer than compiling.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# Tables are as wide as in a file, whatever terminal the tests run in.
os.environ.pop("COLUMNS", None)

# Triton interprets its kernels, except on a GPU. That is said before anything imports Triton; workers are told so.
if "PYTEST_XDIST_WORKER" not in os.environ and not any("on_gpu" in argument for argument in sys.argv):
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=400)
settings.load_profile("repeatable")


# Tests under these folders search games, which is compiled: for a minute, but only once on a disk.
SEARCHING = (
    "tests/pebbling/test_compiled",
    "tests/pebbling/solving",
    "tests/pebbling/scheduling",
    "tests/pebbling/certified",
    "tests/cli/pebble",
)


class Collecting:
    """Only modules with examples are searched for them, and what is collected stays: it is not looked through again."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Iterator[Any]:
        found = yield
        if file_path.suffix == ".py" and ">>> " not in file_path.read_text(encoding="utf-8"):
            return [each for each in found if not isinstance(each, DoctestModule)]
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[Any]:
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()
            gc.freeze()
            # What is frozen no longer counts as old, so that all else would be looked through all the time.
            gc.set_threshold(100_000, 10, 10)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Collecting())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--hypothesis-profile") == "thorough":
        for law in {item.obj for item in items if hasattr(getattr(item, "obj", None), "hypothesis")}:
            own = law._hypothesis_internal_use_settings
            if own is not settings.default:
                law._hypothesis_internal_use_settings = settings(
                    own, derandomize=False, max_examples=20 * own.max_examples
                )
    searching, others = [], []
    for item in items:
        if any(folder in item.path.as_posix() for folder in SEARCHING):
            item.fixturenames.insert(0, "compiled_search")
            searching.append(item)
        else:
            others.append(item)
    # One test has the search compiled at once; all others come last, when nobody waits for it any more.
    items[:] = [*searching[:1], *others, *searching[1:]]


@pytest.fixture(scope="session")
def compiled_search(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The search compiled by the first of several workers that wants it, while others wait for the files."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    from attenio.pebbling.scheduling.search import compile_scheduling
    from attenio.pebbling.solving.search.solver import compile_search

    with _alone(tmp_path_factory.getbasetemp().parent / "compiling"):
        compile_search()
        compile_scheduling()


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
