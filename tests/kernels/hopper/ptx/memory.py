"""Global memory: that of tensors of this process, and nothing beside it."""

import bisect
import ctypes
import gc

import numpy as np
import torch
from tests.kernels.hopper.ptx.shared import Fault

__all__ = ["GlobalMemory"]


class GlobalMemory:
    """Memory of all tensors that there are."""

    def __init__(self):
        found = {}
        for each in gc.get_objects():
            if type(each) in (torch.Tensor, torch.nn.Parameter) and each.device.type == "cpu":
                storage = each.untyped_storage()
                if storage.nbytes():
                    found[storage.data_ptr()] = storage.nbytes()
        self._starts, self._sizes = sorted(found), found
        self._views = {}

    def bytes_at(self, address, count):
        """A view of some bytes, which must be those of one tensor."""
        start = self._start(address, address + count)
        return self._view(start, "u1")[address - start : address - start + count]

    def indices(self, addresses, count, kind):
        """A view of the tensor's memory as numbers, and where ``count`` of them from each address on are in it."""
        size = int(kind[1])
        low, high = int(addresses.min()), int(addresses.max())
        start = self._start(low, high + size * count)
        if (addresses % np.uint64(size * count)).any():
            raise Fault(f"an address is not aligned to {size * count} bytes")
        at = ((addresses - np.uint64(start)) // np.uint64(size)).astype("i8")
        return self._view(start, kind), at[:, None] + np.arange(count)

    def _start(self, first, last):
        place = bisect.bisect_right(self._starts, first) - 1
        start = self._starts[place] if place >= 0 else 0
        if place < 0 or last > start + self._sizes[start]:
            raise Fault(f"global memory at {first:#x} is accessed, {first - start} bytes from the begin of a tensor")
        return start

    def _view(self, start, kind):
        if (start, kind) not in self._views:
            size = self._sizes[start] // int(kind[1]) * int(kind[1])
            self._views[start, kind] = np.frombuffer((ctypes.c_char * size).from_address(start), kind)
        return self._views[start, kind]
