"""A driver that is not there, and interprets what a launch asks for."""

import ctypes

from tests.kernels.hopper.absent_driver import AbsentDriver
from tests.kernels.hopper.ptx.compiling import ptx_of
from tests.kernels.hopper.ptx.copies import TensorMap
from tests.kernels.hopper.ptx.machine import Launch

from attenio.kernels.hopper.cuda import launcher

__all__ = ["InterpretingDriver"]


class InterpretingDriver(AbsentDriver):
    """``structure`` is the type of the last parameter; ``edited`` changes the text before it is compiled."""

    def __init__(self, structure, *, seed=0, edited=lambda text: text, cluster=1):
        super().__init__()
        self._size, self.seed, self._edited, self._cluster = ctypes.sizeof(structure), seed, edited, cluster

    def replace(self, monkeypatch):
        super().replace(monkeypatch)
        monkeypatch.setattr(launcher, "compiled", lambda text: text)

    def _compute(self, programs, *addresses):
        (text, *_), _, threads, shared_bytes, _ = self.launches[-1]
        *maps, work = addresses
        described = [TensorMap(*self._map(at)) for at in maps]
        parameters = [b""] * len(maps) + [bytes((ctypes.c_char * self._size).from_address(work))]
        Launch(
            ptx_of(self._edited(text)), programs, threads, shared_bytes, described, parameters, seed=self.seed,
            cluster=self._cluster,
        ).run()  # fmt: skip
