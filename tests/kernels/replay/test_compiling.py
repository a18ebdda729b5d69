"""Triton is hashed once, on a thread, and kernels that are only compiled do not run."""

import threading

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

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


def test_triton_is_hashed_once_on_a_thread(monkeypatch):
    threads = []
    monkeypatch.setattr(cache, "triton_key", lambda: threads.append(threading.current_thread().name))
    monkeypatch.setattr(compiling, "_hashing", [])
    compiling.wait_for_hash()  # nothing to wait for
    for _ in range(2):
        compiling.begin_hashing()
    compiling.wait_for_hash()
    assert threads == ["triton-key"]


def test_within_compiling_only_no_kernel_runs(monkeypatch):
    monkeypatch.setattr(launches, "_launchers", {})
    kernel, tensor = Kernel(), torch.zeros(3)
    with compiling.compiling_only(), launches.recording_launches() as heard:
        assert compiling.compiles_only()
        launch(kernel, 5, (None,), (tensor, 7), (16,), CompileOptions(registers=24, warps=8))
        launch_specialized(kernel, 2, (tensor,), (32,), warps=1)
        launch_compiled(NoLauncher(), "kernel", 1, (), (), {})
    first, second = kernel.compiled
    assert first[1:] == ((5,), {"num_warps": 8, "maxnreg": 24, "launch_pdl": False})
    assert first[0][0] is None and first[0][1] is tensor and first[0][2:] == (7, 16)
    assert second[1:] == ((2,), {"num_warps": 1}) and second[0][1:] == (32,)
    assert heard == [] and launches._launchers == {} and not compiling.compiles_only()


def test_what_fails_to_compile_ends_it():
    with pytest.raises(ValueError, match="no such type"), compiling.compiling_only():
        raise ValueError("no such type")
    assert not compiling.compiles_only()
