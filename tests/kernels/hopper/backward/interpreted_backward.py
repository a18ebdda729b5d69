"""The backward pass launched by its host as it is, with kernels interpreted; those of rows are, by Triton itself."""

import torch
from gluon_interpreter import TmaDescriptor, interpreted, launch

from attenio.kernels.hopper.backward import config, fixed_point, spilled_gradients

__all__ = ["FEW_PARTS", "interpret"]

# Programs of a head that look for its maxima: a GPU wants many, and an interpreter takes as long for an empty one.
FEW_PARTS = 4
# Row tiles that neighbouring blocks begin apart, 16 on a GPU: more than these are few rows here.
_APART = 4

_HOME = "attenio.kernels.hopper."
_BLOCKS = ("producer", "backward.block", "backward.producer")
_MODULES = {
    "key_stationary_d64_kernel": ("backward.key_stationary_d64", *_BLOCKS),
    "key_stationary_d128_kernel": ("backward.key_stationary_d128", *_BLOCKS, "backward.probabilities"),
    "spilled_key_gradients_kernel": ("backward.spilled_key_gradients", *_BLOCKS, "backward.probabilities"),
    "spilled_query_gradients_kernel": ("backward.spilled_query_gradients", "producer"),
}
_kernels = {}


class _Accumulator(TmaDescriptor):
    """A descriptor whose tensor can be added to."""

    def add(self, place, tile):
        self.write(place, self.read(place) + tile.reshape(self.shape))


def interpret(monkeypatch, *, shuffled=None, left=None):
    """Let launches run interpreted, on memory that is NaN where nothing was written; the kernels' names.

    Blocks come in an order that the seed ``shuffled`` gives, and ``left`` is told what a launch leaves in its last
    descriptor's tensor.
    """
    names = []

    def run(kernel, programs, described, arguments, constants, _options):
        names.append(kernel.__name__)
        descriptors = (None if each is None else _Accumulator(each.base, each.block_shape) for each in described)
        launch(_kernel(kernel.__name__), (programs,), *descriptors, *arguments, *constants, shuffled=shuffled)
        if left is not None:
            left.append([each for each in described if each is not None][-1].base.clone())

    monkeypatch.setattr(fixed_point, "_PARTS", FEW_PARTS)
    for host in (config, spilled_gradients):
        monkeypatch.setattr(host, "launch", run)
    monkeypatch.setattr(torch, "empty", _unwritten)
    return names


def _kernel(name):
    if name not in _kernels:
        module, *needed = _MODULES[name]
        loaded = interpreted(_HOME + module, needing=tuple(_HOME + each for each in needed))
        if "backward.block" in needed:  # Gluon has no name for additions by TMA
            loaded.accumulate.__globals__["_reduce_add"] = lambda to, place, source: to.add(place, source.tensor)
            assert "_APART" in loaded.accumulate.__globals__
            loaded.accumulate.__globals__["_APART"] = _APART
        if module == "backward.key_stationary_d128":  # pairs in a register are numbers of 16 bits here
            loaded.rounded = _rounded
            loaded.unpacked = loaded.for_ds.__globals__["unpacked"] = lambda numbers, _dtype: numbers
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
