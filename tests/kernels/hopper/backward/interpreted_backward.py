"""The backward pass launched by its host as it is, with kernels interpreted; those of rows are, by Triton itself."""

import torch
from gluon_interpreter import Box, interpreted, launch

from attenio.kernels.hopper.backward import config, spilled_gradients

__all__ = ["interpret"]

_HOME = "attenio.kernels.hopper."
_MODULES = {
    "narrow_gradients_kernel": ("backward.key_stationary_d64", "producer", "backward.block"),
    "middle_gradients_kernel": ("backward.key_stationary_d128", "producer", "backward.probabilities", "backward.block"),
    "wide_gradients_kernel": ("backward.spilled_key_gradients", "producer", "backward.probabilities", "backward.block"),
    "query_gradients_kernel": ("backward.spilled_query_gradients", "producer"),
}
_kernels = {}


class _Sums(Box):
    """A box that can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


def interpret(monkeypatch, *, shuffled=None, left=None):
    """Let launches run interpreted, on memory that is not a number where nothing was written; the kernels' names.

    Blocks come in an order that the seed ``shuffled`` gives, and ``left`` is told what a launch leaves in its last box.
    """
    names = []

    def run(kernel, programs, described, arguments, constants, _registers, kinds=()):
        names.append(kernel.__name__)
        boxes = (None if box is None else _Sums(box.base, box.block_shape) for box in described)
        launch(_kernel(kernel.__name__), (programs,), *boxes, *arguments, *constants, shuffled=shuffled)
        if left is not None:
            left.append(described[-1].base.clone())

    for host in (config, spilled_gradients):
        monkeypatch.setattr(host, "launch", run)
    monkeypatch.setattr(torch, "empty", _unwritten)
    return names


def _kernel(name):
    if name not in _kernels:
        module, *needed = _MODULES[name]
        loaded = interpreted(_HOME + module, needing=tuple(_HOME + each for each in needed))
        if "backward.block" in needed:  # additions by the copy engine have no word in Gluon, and are said here
            loaded.add_sums.__globals__["_reduce_add"] = lambda box, place, source: box.add(place, source.tensor)
        if (
            module == "backward.key_stationary_d128"
        ):  # pairs in registers are the machine's, and numbers of 16 bits here
            loaded.rounded = _rounded
            loaded.each = loaded.whole.__globals__["each"] = lambda numbers, _dtype: numbers
        if module == "backward.spilled_key_gradients":
            loaded.as_fp16 = lambda numbers: numbers.clamp(max=65504.0).half()
        _kernels[name] = getattr(loaded, name)
    return _kernels[name]


def _rounded(numbers, dtype):
    half = numbers.clamp(max=torch.finfo(torch.float16).max).half()
    return (numbers.bfloat16(), half) if dtype == torch.bfloat16 else (half, (numbers - half).bfloat16())


def _unwritten(*size, dtype=torch.float32, device=None):
    shape = size if isinstance(size[0], int) else size[0]
    return torch.full(shape, torch.nan if dtype.is_floating_point else -(2**30), dtype=dtype, device=device)
