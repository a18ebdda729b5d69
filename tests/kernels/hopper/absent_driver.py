"""A driver that is not there: it computes what a launch asks for, from the addresses and numbers that it hands over."""

import ctypes
from types import SimpleNamespace

import torch

from attenio.kernels.hopper.cuda import driver, launcher

__all__ = ["AbsentDriver", "memory"]


def memory(address, count, dtype):
    """A tensor of so many entries at an address."""
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype)


class AbsentDriver:
    """Kernels differ in what ``_compute`` does with the addresses of tensor maps and of the last structure."""

    def __init__(self):
        self.maps, self.launches = {}, []

    def replace(self, monkeypatch, launch):
        """Stand in for the driver, and for what ``launch`` names there; nothing is compiled."""
        monkeypatch.setattr(driver, "loaded_function", lambda cubin, name, shared_bytes: (cubin, name, shared_bytes))
        monkeypatch.setattr(driver, "tensor_map", self.tensor_map)
        monkeypatch.setattr(driver, launch, self.launch)
        monkeypatch.setattr(launcher, "compiled", lambda text: b"cubin")
        monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 7, raising=False)
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)

    def tensor_map(self, element, address, sizes, strides, box):
        at = SimpleNamespace(address=1000 + len(self.maps))
        self.maps[at.address] = (element, address, sizes, strides, box)
        return at

    def launch(self, function, programs, threads, shared_bytes, stream, addresses):
        self.launches.append((function, programs, threads, shared_bytes, stream))
        with torch.utils._python_dispatch._disable_current_modes():
            self._compute(programs, *addresses)

    def _compute(self, programs, *addresses):
        raise NotImplementedError

    def _tensor(self, at):
        element, address, sizes, strides, box = self.maps[at]
        assert element == "bf16" and box[:2] == (1, 1)
        reach = 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
        return memory(address, reach, torch.bfloat16).as_strided(sizes, strides)

    @staticmethod
    def _structure(kind, address):
        return kind.from_buffer_copy((ctypes.c_char * ctypes.sizeof(kind)).from_address(address))
