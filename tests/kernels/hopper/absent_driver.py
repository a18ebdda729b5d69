"""A driver that is not there: it computes what a launch asks for, from the addresses and numbers that it hands over."""

import ctypes
from contextlib import contextmanager

import torch

from attenio.kernels.hopper.cuda import driver, launcher
from attenio.kernels.replay import native

__all__ = ["AbsentDriver", "memory"]

# Tensor maps that kernels take, and those that overlap the launch before them.
MAPS = {"attenio_kernel": 3, "key_stationary_kernel": 4, "split_latents_kernel": 2}
OVERLAPPING = {"attenio_kernel", "split_latents_kernel"}


def memory(address, count, dtype):
    """A tensor of so many entries at an address."""
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=dtype)


class AbsentDriver:
    """Kernels differ in what ``_compute`` does with the addresses of tensor maps and of the last structure."""

    def __init__(self):
        self.maps, self.launches, self.functions, self._memory = {}, [], {}, []

    def replace(self, monkeypatch):
        """Stand in for the driver; nothing is compiled."""
        monkeypatch.setattr(driver, "loaded_function", self.loaded_function)
        monkeypatch.setattr(driver, "tensor_map", self.tensor_map)
        monkeypatch.setattr(driver, "enqueuing", lambda: self.enqueue)
        monkeypatch.setattr(launcher, "compiled", lambda text: b"cubin")
        monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 7, raising=False)
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)

    def loaded_function(self, cubin, name, shared_bytes):
        number = 1 + len(self.functions)
        self.functions[number] = cubin, name, shared_bytes
        return ctypes.c_void_p(number)

    def tensor_map(self, element, address, sizes, strides, box):
        """128 bytes that begin with a number, by which also a copy of them is known."""
        number = 1000 + len(self.maps)
        self.maps[number] = (element, address, sizes, strides, box)
        self._memory.append(ctypes.create_string_buffer(number.to_bytes(8, "little"), 128))
        return ctypes.addressof(self._memory[-1])

    def enqueue(self, config, function, parameters, extra):
        function = self.functions[getattr(function, "value", function)]
        sizes = (ctypes.c_uint * 7).from_address(config)
        stream, attributes = (ctypes.c_void_p * 2).from_address(config + 32)
        count = ctypes.c_uint.from_address(config + 48).value
        assert list(sizes)[1:3] == list(sizes)[4:6] == [1, 1] and extra is None
        if function[1] in OVERLAPPING:  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, and its value
            assert count == 1 and list((ctypes.c_int * 3).from_address(attributes)) == [6, 0, 1]
        else:
            assert count == 0
        self.launches.append((function, sizes[0], sizes[3], sizes[6], stream))
        addresses = (ctypes.c_void_p * (MAPS[function[1]] + 1)).from_address(parameters)
        with torch.utils._python_dispatch._disable_current_modes():
            self._compute(sizes[0], *addresses)
        return 0

    @contextmanager
    def in_c(self):
        """The compiled half of replay launches here; None where it is not to be had."""
        module, failures = native.loaded() if native.why_not() is None else None, []

        def enqueue(config, function, parameters, extra):
            try:
                return self.enqueue(config, function, parameters, extra)
            except BaseException as error:
                failures.append(error)
                return 1

        kind = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_void_p,) * 4)(enqueue)
        if module is None:
            yield None
            return
        native.set_up(module, ctypes.cast(kind, ctypes.c_void_p).value)
        try:
            yield module
        finally:
            native.set_up(module, 0)
        assert not failures, failures

    def _compute(self, programs, *addresses):
        raise NotImplementedError

    def _tensor(self, at):
        element, address, sizes, strides, box = self._map(at)
        assert element == "bf16" and box[:2] == (1, 1)
        reach = 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
        return memory(address, reach, torch.bfloat16).as_strided(sizes, strides)

    def _map(self, at):
        return self.maps[ctypes.c_uint64.from_address(at).value]

    @staticmethod
    def _structure(kind, address):
        return kind.from_buffer_copy((ctypes.c_char * ctypes.sizeof(kind)).from_address(address))
