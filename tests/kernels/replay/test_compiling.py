"""Triton is hashed once for all processes, and kernels that are only compiled do not run."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

import triton
from triton.runtime import cache

from attenio.kernels.replay import compiling, launches
from attenio.kernels.replay.launcher import Launcher
from attenio.kernels.replay.launches import CompileOptions, launch, launch_compiled, launch_specialized


class Kernel:
    """Notes what it is compiled for; a launch fails."""

    def __init__(self):
        self.compiled = []

    def warmup(self, *arguments, grid, **flags):
        self.compiled.append((arguments, grid, flags))

    def __getitem__(self, grid):
        pytest.fail("it runs")


class NoLauncher(Launcher):
    def _encoded(self, index, descriptor):
        return []

    def launch(self, programs, stream, arguments):
        pytest.fail("it runs")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("runtime/cache.py", "compiler/code.py", "backends/nvidia/driver.py", "_C/libtriton.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    return tmp_path


def test_a_key_is_hashed_again_when_a_file_of_triton_differs(folder):
    keys = iter(("one", "two", "three"))

    def key():
        return compiling.remembered_key(folder, lambda: next(keys))

    assert [key(), key()] == ["one", "one"]
    (folder / "compiler" / "code.py").write_text("another text")
    assert [key(), key()] == ["two", "two"]
    (folder / "cache" / "attenio" / "triton_key.json").write_text("not JSON")
    assert [key(), key()] == ["three", "three"]


def test_a_disk_that_cannot_be_written_to_costs_time_only(folder):
    (folder / "cache").write_text("a file where the folder would be")
    assert compiling.remembered_key(folder, lambda: "hashed") == "hashed"


def test_triton_asks_for_the_remembered_key(monkeypatch, folder):
    monkeypatch.setattr(cache, "triton_key", lambda: "hashed")
    monkeypatch.setattr(compiling, "remembered_key", lambda of, hashed: f"remembered of {of.name}, {hashed()}")
    compiling.remember_triton_key.__wrapped__()
    assert cache.triton_key() == "remembered of triton, hashed"


def test_without_replay_triton_is_left_alone(monkeypatch):
    def key():
        return "hashed"

    monkeypatch.setattr(cache, "triton_key", key)
    monkeypatch.setattr(compiling, "replay_enabled", lambda: False)
    compiling.remember_triton_key.__wrapped__()
    assert cache.triton_key is key


def test_what_is_compiled_side_by_side_does_not_run(monkeypatch):
    monkeypatch.setattr(launches, "_launchers", {})
    kernel, tensor = Kernel(), torch.zeros(3)

    def compute():
        assert compiling.compiles_only()
        launch(kernel, 5, (None,), (tensor, 7), (16,), CompileOptions(registers=24, warps=8))
        launch_specialized(kernel, 2, (tensor,), (32,), warps=1)
        launch_compiled(NoLauncher(), "kernel", 1, (), (), {})
        compiling.compile_side_by_side(lambda: pytest.fail("it is within another"))

    with launches.recording_launches() as heard:
        compiling.compile_side_by_side(compute)
    first, second = kernel.compiled
    assert first[1:] == ((5,), {"num_warps": 8, "maxnreg": 24, "launch_pdl": False})
    assert first[0][0] is None and first[0][1] is tensor and first[0][2:] == (7, 16)
    assert second[1:] == ((2,), {"num_warps": 1}) and second[0][1:] == (32,)
    assert heard == [] and launches._launchers == {} and not compiling.compiles_only()


def test_nothing_is_computed_where_kernels_would_run(monkeypatch):
    def compute():
        pytest.fail("it runs")

    with ThreadPoolExecutor(1) as pool, triton.AsyncCompileMode(pool):
        compiling.compile_side_by_side(compute)
    monkeypatch.delattr(triton, "AsyncCompileMode")
    compiling.compile_side_by_side(compute)
    monkeypatch.undo()
    monkeypatch.setattr(compiling, "replay_enabled", lambda: False)
    compiling.compile_side_by_side(compute)


def test_what_fails_to_compile_ends_it():
    def compute():
        raise ValueError("no such type")

    with pytest.raises(ValueError, match="no such type"):
        compiling.compile_side_by_side(compute)
    assert not compiling.compiles_only()
