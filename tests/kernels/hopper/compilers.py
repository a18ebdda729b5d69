"""A GPU of 132 SMs that is not there, for which kernels are compiled when told to."""

import threading
from concurrent.futures import Future

import pytest
from tests.kernels.hopper.test_cuda_launches import Driver

from attenio.kernels.hopper import candidates, forward, gluon_attenio, launch_plans, standing_in
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda import compiler, launcher
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.proving import forward_by_definition
from attenio.kernels.replay import set_stand_ins
from attenio.kernels.replay import standing_in as replaying


class Compilers:
    """Texts and tiles that were asked for; while ``open`` is not set they are not compiled yet."""

    def __init__(self):
        self.open, self.asked, self.tiles, self.failing = threading.Event(), [], {}, None
        self.open.set()

    def cubin(self, _nvrtc, source):
        self.asked.append(source)
        self.finish()
        return b"cubin"

    def finish(self):
        assert self.open.wait(20)
        if self.failing is not None:
            raise self.failing

    def launch_gluon(self, problem, attended, tiles, plan):
        future = self.begin_gluon(problem, plan)
        future.result()  # a launch waits for it
        for mine, right in zip(attended, forward_by_definition(problem), strict=True):
            mine.copy_(right.view(mine.shape))

    def begin_gluon(self, problem, plan):
        key = self._key(problem, plan.tiles)
        if key not in self.tiles:
            self.tiles[key] = Future()
            threading.Thread(target=self._compile, args=(self.tiles[key],)).start()
        return self.tiles[key]

    def _compile(self, future):
        try:
            self.finish()
        except Exception as problem:
            future.set_exception(problem)
        else:
            future.set_result(None)

    def has_gluon(self, problem, tiles, _kind):
        future = self.tiles.get(self._key(problem, tiles))
        return future is not None and future.done() and future.exception() is None

    @staticmethod
    def _key(problem, tiles):
        masked = ForwardKind.of(problem).has_masks(tiles) or tiles.masks
        return tiles.consumers, tiles.key_tile, tiles.ping_pong, masked


@pytest.fixture
def compilers(monkeypatch, tmp_path):
    """A GPU of 132 SMs for which nothing is compiled yet."""
    made, driver = Compilers(), Driver()
    driver.replace(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(launcher, "compiled", compiler.compiled)
    monkeypatch.setattr(compiler, "library", lambda: made)
    monkeypatch.setattr(compiler, "version", lambda: "13.0")
    monkeypatch.setattr(compiler, "_compiled", made.cubin)
    monkeypatch.setattr(compiler, "_begun", {})
    monkeypatch.setattr(compiler, "_made_here", set())
    monkeypatch.setattr(gluon_attenio, "launch_attenio", made.launch_gluon)
    monkeypatch.setattr(gluon_attenio, "begin_compiling_attenio", made.begin_gluon)
    monkeypatch.setattr(gluon_attenio, "is_compiled", made.has_gluon)
    monkeypatch.setattr(standing_in, "compiles_for", lambda _device: True)
    monkeypatch.setattr(replaying, "_said", set())
    monkeypatch.delenv("ATTENIO_WAIT", raising=False)
    set_stand_ins(True)
    for module in (forward, candidates, launch_plans):
        monkeypatch.setattr(module, "processors_of", lambda _device: 132)
    monkeypatch.setattr(launch_plans, "settled", {})
    monkeypatch.setattr(launch_plans, "captured", {})
    cached = cuda.launcher_of, launch_plans.plan_of
    for each in cached:
        each.cache_clear()
    yield made
    made.open.set()
    for each in cached:
        each.cache_clear()
