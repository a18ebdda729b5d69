"""Gluon kernels run as the Python they are: partitions are threads, barriers really wait, copies really copy.

The module of a kernel is loaded once more with ``triton.experimental`` replaced by this one, so what runs is its own
source. Layouts mean nothing here, and asynchronous copies and products are done when they are issued: this shows
what a kernel computes and that it does not lock up, not that its waits are early or late enough.
"""

import copy
import itertools
import random
import sys
import threading
import types

import torch
from tests.kernels.hopper.plain_source import without_layouts

__all__ = ["Pointer", "TmaDescriptor", "interpreted", "launch"]

# A barrier that nobody completes for this long is a deadlock.
_PATIENCE_SECONDS = 20.0
_here = threading.local()
# By the first word of their text: a block of several rescales rows, one with a comment changes nothing.
_INSTRUCTIONS = {"tanh.approx.f32": torch.tanh, "{": torch.mul, "//": lambda numbers: numbers}


class Deadlock(RuntimeError):
    """A partition waited for a barrier that was never completed."""


class Pointer:
    """A tensor's memory and a place (or places) in it."""

    def __init__(self, tensor, at=0):
        behind = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
        self.memory, self.at = tensor.as_strided((behind,), (1,)), at

    def __add__(self, steps):
        moved = copy.copy(self)
        moved.at = self.at + steps
        return moved

    def __sub__(self, steps):
        return self + -steps

    @property
    def dtype(self):
        return types.SimpleNamespace(element_ty=self.memory.dtype)

    def add(self, value):
        before = self.load()
        self.store(before + value)
        return before

    def load(self, mask=None, other=0):
        if not isinstance(self.at, torch.Tensor):
            return other if mask is False else self.memory[self.at].item()
        if mask is None:
            return self.memory[self.at]
        return torch.where(
            mask, self.memory[torch.where(mask, self.at, 0)], torch.as_tensor(other).to(self.memory.dtype)
        )

    def store(self, value, mask=None):
        if not isinstance(self.at, torch.Tensor):
            self.memory[self.at] = value
            return
        at, value = torch.broadcast_tensors(self.at, torch.as_tensor(value))
        shown = torch.ones_like(at, dtype=torch.bool) if mask is None else mask.expand(at.shape)
        self.memory[at[shown]] = value[shown].to(self.memory.dtype)


class TmaDescriptor:
    """A TMA descriptor: which tensor, and how much of it a copy takes; what lies outside reads as zero."""

    def __init__(self, tensor, shape):
        self.tensor, self.shape, self.dtype, self.layout = tensor, tuple(shape), tensor.dtype, None
        self.block_type = types.SimpleNamespace(nbytes=torch.Size(shape).numel() * tensor.element_size())

    def _cut(self, place):
        starts = [int(x) for x in place]
        stops = [min(s + n, size) for s, n, size in zip(starts, self.shape, self.tensor.shape, strict=True)]
        inside = tuple(slice(s, max(s, e)) for s, e in zip(starts, stops, strict=True))
        return inside, tuple(slice(0, max(0, e - s)) for s, e in zip(starts, stops, strict=True))

    def read(self, place):
        inside, part = self._cut(place)
        tile = torch.zeros(self.shape, dtype=self.dtype)
        tile[part] = self.tensor[inside]
        return tile

    def write(self, place, tile):
        inside, part = self._cut(place)
        self.tensor[inside] = tile.reshape(self.shape)[part]


class Shared:
    """Shared memory, or a view of it."""

    def __init__(self, tensor):
        self.tensor, self.dtype, self.shape = tensor, tensor.dtype, tuple(tensor.shape)

    def index(self, which):
        return Shared(self.tensor[which])

    def _reinterpret(self, dtype, shape, _layout):
        return Shared(self.tensor.reshape(-1).view(dtype)[: torch.Size(shape).numel()].view(shape))

    def reshape(self, shape):
        return Shared(self.tensor.view(shape))

    def permute(self, order):
        return Shared(self.tensor.permute(order))

    def slice(self, start, length, dim=0):
        return Shared(self.tensor.narrow(dim, start, length))

    def store(self, value):
        self.tensor.copy_(value)

    def load(self, _layout=None):
        return self.tensor.clone()


class Barriers:
    """An array of barriers, or one of them."""

    def __init__(self, shape):
        self.each = [Barrier() for _ in range(shape[0])]

    def index(self, which):
        return self.each[int(which)]


class Barrier:
    """Counts arrivals and bytes of the current phase; the phase ends when both are complete."""

    def __init__(self):
        self.condition = threading.Condition()
        self.count = self.left = self.bytes = self.phase = 0

    def begin(self, count):
        self.count = self.left = count

    def change(self, *, arrivals=0, bytes_left=0):
        with self.condition:
            self.left, self.bytes = self.left - arrivals, self.bytes + bytes_left
            if self.left < 0:
                raise AssertionError("more arrivals than the barrier counts")
            if self.left == 0 and self.bytes == 0:
                self.left, self.phase = self.count, self.phase ^ 1
                self.condition.notify_all()

    def wait(self, phase):
        with self.condition:
            if not self.condition.wait_for(lambda: self.phase != phase, timeout=_PATIENCE_SECONDS):
                raise Deadlock("a barrier was never completed")


def _copy_in(descriptor, place, barrier, result, pred=True):
    if pred:
        result.store(descriptor.read(place).reshape(result.shape))
        barrier.change(bytes_left=-descriptor.block_type.nbytes)


def _expect(barrier, size, pred=True):
    if pred:
        barrier.change(arrivals=1, bytes_left=size)


def _product(a, b, total, use_acc=True, is_async=False):
    left, right = (x.tensor if isinstance(x, Shared) else x for x in (a, b))
    product = left.float() @ right.float()
    return product + total if use_acc else product


def _specialize(functions, _warps, _registers=None):
    failures = []
    program, grid = _here.program, _here.grid

    def partition(function, arguments):
        _here.program, _here.grid = program, grid
        try:
            function(*arguments)
        except BaseException as problem:  # whatever it is, the launching thread raises it
            failures.append(problem)

    threads = [threading.Thread(target=partition, args=each, daemon=True) for each in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _elementwise(on_tensors, on_numbers):
    def apply(*values):
        if any(isinstance(value, torch.Tensor) for value in values):
            return on_tensors(*(torch.as_tensor(value) for value in values))
        return on_numbers(*values)

    return apply


def _reduced(on_tensor):
    def apply(value, axis=None):
        found = on_tensor(value, axis)
        return found.item() if found.dim() == 0 else found

    return apply


def _cast(value, dtype, bitcast=False):
    if not isinstance(value, torch.Tensor):
        return value
    return value.view(dtype) if bitcast else value.to(dtype)


def _language():
    gl = types.ModuleType("gl")
    gl.constexpr = lambda value: value
    gl.static_range = gl.range = range
    gl.float32, gl.bfloat16, gl.float16, gl.int32, gl.int64 = (
        torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64,
    )  # fmt: skip
    gl.minimum = _elementwise(torch.minimum, min)
    gl.maximum = _elementwise(torch.maximum, max)
    gl.where = _elementwise(torch.where, lambda condition, yes, no: yes if condition else no)
    gl.cast = _cast
    gl.exp2, gl.log2 = torch.exp2, torch.log2
    gl.max = _reduced(lambda x, axis: x.amax() if axis is None else x.amax(axis))
    gl.min = _reduced(lambda x, axis: x.amin() if axis is None else x.amin(axis))
    gl.sum = _reduced(lambda x, axis: x.sum() if axis is None else x.sum(axis))
    gl.arange = lambda start, stop, _layout=None: torch.arange(start, stop)
    gl.full = lambda shape, value, dtype, _layout=None: torch.full(shape, value, dtype=dtype)
    gl.zeros = lambda shape, dtype, _layout=None: torch.zeros(shape, dtype=dtype)
    gl.convert_layout = lambda value, _layout, assert_trivial=False: value
    gl.load = lambda pointer, mask=None, other=0, **_: pointer.load(mask, other)
    gl.store = lambda pointer, value, mask=None, **_: pointer.store(value, mask)
    gl.atomic_add = lambda pointer, value, **_: pointer.add(value)
    gl.inline_asm_elementwise = lambda text, _constraints, arguments, **_: _INSTRUCTIONS[text.split()[0]](*arguments)
    gl.expand_dims = lambda value, axis: value.unsqueeze(axis)
    gl.reshape = lambda value, shape: value.reshape(shape)
    gl.broadcast = torch.broadcast_tensors
    gl.cdiv = lambda a, b: -(-a // b)
    gl.program_id = lambda axis: _here.program[axis]
    gl.num_programs = lambda axis: _here.grid[axis]
    gl.allocate_shared_memory = _allocate
    gl.warp_specialize = _specialize
    for layout in (
        "NVMMADistributed",
        "DotOperand",
        "Slice",
        "Blocked",
        "NVMMAShared",
        "SwizzledShared",
        "PaddedShared",
    ):
        setattr(gl, f"{layout}Layout", lambda *_args, **_options: None)
    gl.NVMMASharedLayout.get_default_for = gl.PaddedSharedLayout.with_identity_for = lambda *_args: None
    return gl


def _allocate(dtype, shape, layout, value=None):
    if layout == "barrier":
        return Barriers(shape) if len(shape) > 1 else Barrier()
    if value is not None:
        return Shared(value.clone())
    filled = torch.full(shape, torch.nan if dtype.is_floating_point else 0, dtype=dtype)
    return Shared(filled)


def _hopper():
    hopper = types.ModuleType("hopper")
    hopper.fence_async_shared = lambda *_args, **_options: None
    hopper.warpgroup_mma = hopper.mma_v2 = _product
    hopper.warpgroup_mma_init = lambda value: value
    hopper.warpgroup_mma_wait = lambda _pending=0, deps=(): deps[0] if len(deps) == 1 else tuple(deps)
    hopper.tma = types.SimpleNamespace(
        async_copy_global_to_shared=_copy_in,
        async_copy_shared_to_global=lambda descriptor, place, source: descriptor.write(place, source.tensor),
        store_wait=lambda _pending: None,
    )
    hopper.mbarrier = types.SimpleNamespace(
        MBarrierLayout=lambda: "barrier",
        init=lambda barrier, count: barrier.begin(count),
        expect=_expect,
        wait=lambda barrier, phase: barrier.wait(phase),
        arrive=lambda barrier, count=1, pred=True: barrier.change(arrivals=count) if pred else None,
    )
    return hopper


def interpreted(module_name, needing=()):
    """A kernel's module whose functions are plain Python, and so are those of the modules that it needs, in order."""
    gluon = types.ModuleType("gluon")
    gluon.jit = lambda function=None, **_: function if function is not None else (lambda each: each)
    gluon.language = _language()
    standing_in = {
        "triton.experimental": types.SimpleNamespace(gluon=gluon),
        "triton.experimental.gluon": gluon,
        "triton.experimental.gluon.language": gluon.language,
        "triton.experimental.gluon.language.nvidia": types.ModuleType("nvidia"),
        "triton.experimental.gluon.language.nvidia.hopper": _hopper(),
        "triton.language": types.SimpleNamespace(debug_barrier=lambda: None),
        "triton.language.extra.cuda": types.SimpleNamespace(gdc_wait=lambda: None, gdc_launch_dependents=lambda: None),
    }
    kept = {name: sys.modules.get(name) for name in (*standing_in, *needing)}
    sys.modules.update(standing_in)
    try:
        for name in (*needing, module_name):
            module = types.ModuleType(name + " interpreted")
            exec(without_layouts(name), module.__dict__)
            if name in needing:
                sys.modules[name] = module
    finally:
        for name, old in kept.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old
    return module


def _pointed(argument):
    return Pointer(argument) if isinstance(argument, torch.Tensor) else argument


def launch(kernel, grid, *arguments, shuffled=None, **constants):
    """Run every program of a grid, one after another; ``shuffled`` is the seed of another order of them."""
    _here.grid = grid
    programs = list(itertools.product(*(range(size) for size in grid)))
    if shuffled is not None:
        random.Random(shuffled).shuffle(programs)
    for program in programs:
        _here.program = program
        kernel(*map(_pointed, arguments), **{name: _pointed(x) for name, x in constants.items()})
