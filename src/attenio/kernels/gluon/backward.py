"""The backward pass on Hopper: which problems it takes, and how they are launched."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from attenio.kernels.gluon.backward_narrow import narrow_gradients_kernel
from attenio.kernels.gluon.backward_prepare import prepare_kernel
from attenio.kernels.gluon.backward_wide import wide_gradients_kernel
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import LOG2_E, grouped_heads, restrictions_of
from attenio.kernels.triton.two_pass import Gradients

__all__ = ["BackwardForm", "Slots", "backward_form", "supports", "two_pass"]

_ELEMENTS = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
# Tiles of rows divide this, and log-sum-exp is there for so many rows more.
_PADDING = 128
_PREPARED_ROWS = 64


class BackwardForm(NamedTuple):
    """A kernel and its tiles: ``d`` is the width it works in, wider than the heads where columns are zeros."""

    kernel: Any
    d: int
    rows: int
    keys: int
    stages: int
    registers: int


def backward_form(width: int) -> BackwardForm:
    """The form for heads of at most this width.

    Registers of a computing thread, of 64 keys: two gradients of 64 x d, scores and their slopes of 64 x rows. 128 rows
    halve the reads of keys out of shared memory, but fit only beside heads of 64.
    """
    if width <= 64:
        return BackwardForm(narrow_gradients_kernel, 64, 128, 128, 2, 232)
    if width <= 128:
        return BackwardForm(narrow_gradients_kernel, 128, 64, 128, 2, 232)
    return BackwardForm(wide_gradients_kernel, 256, 64, 64, 2, 232)


class Slots(NamedTuple):
    """How many units' sums of dQ exist at once, and how many units later they are converted."""

    held: int
    lag: int

    @classmethod
    def of(cls, units: int, tiles: int, multiprocessors: int) -> "Slots":
        """A unit has so many tiles of keys; each multiprocessor works on one.

        Blocks that start together span ``lag`` units. A block converts when it ends, what all who were there when it
        started have finished; and a unit that starts finds free what those before it have converted.
        """
        lag = min(units, -(-multiprocessors // tiles))
        return cls(min(units, 2 * lag), lag)


def supports(problem: KernelProblem) -> bool:
    """Whether this kernel computes the problem: 16-bit heads up to 256 wide, and no mask but a band."""
    seen = problem.visible
    restricted = (seen.bias, seen.query_ids, seen.blocks, seen.first, problem.dropout)
    widths = problem.query.shape[-1], problem.value.shape[-1]
    return (
        problem.query.dtype in _ELEMENTS
        and all(0 < width <= 256 and width % 8 == 0 for width in widths)
        and all(given is None for given in restricted)
        and min(problem.query.numel(), problem.key.numel()) > 0
    )


def two_pass(problem: KernelProblem, saved: tuple[Tensor, ...]) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group.

    To be deterministic, blocks add to dQ in a fixed order, each after the one before it.
    """
    output, largest, total, gradient = saved[0], saved[1].contiguous(), saved[2].contiguous(), saved[3]
    query, key, value = grouped_heads(problem.query), problem.key, problem.value
    device, heads = query.device, problem.kv_heads * problem.group
    d, width = int(query.shape[-1]), int(value.shape[-1])
    form = backward_form(max(d, width))
    below, above, scale = restrictions_of(problem, problem.scale * LOG2_E).band
    found = Gradients(
        query=torch.empty(query.shape, dtype=query.dtype, device=device),
        key=torch.empty(key.shape, dtype=query.dtype, device=device),
        value=torch.empty(value.shape, dtype=query.dtype, device=device),
        bias=None,
    )
    padded, tiles = -(-problem.queries // _PADDING) * _PADDING, -(-problem.keys // form.keys)
    units = problem.batch * problem.kv_heads
    slots = Slots.of(units, tiles, _multiprocessors(device))
    work = _Work.allocate(slots, padded, form, units, problem.group, device)
    flat = [grouped_heads(tensor).flatten(1, 2) for tensor in (output, gradient)]
    output, gradient = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in flat)
    programs = padded // _PREPARED_ROWS * problem.batch * heads
    prepare_kernel[(programs,)](
        output, gradient, largest, total, work.lse, work.delta, work.cleared,
        work.cleared.numel(), -(-work.cleared.numel() // (1024 * programs)) * 1024,
        *output.stride()[:3], *gradient.stride()[:3], heads, problem.queries, padded,
        ROWS=_PREPARED_ROWS, WIDTH=width, PADDED_WIDTH=max(16, 1 << (width - 1).bit_length()), num_warps=4,
    )  # fmt: skip
    hides = below > -problem.queries or above < problem.keys - 1 or problem.keys % form.keys != 0
    form.kernel[(tiles * (units + slots.lag),)](
        _boxes(query.flatten(1, 2), form.rows, form.d), _boxes(key, 64, form.d), _boxes(value, 64, form.d),
        _boxes(gradient, form.rows, form.d), _boxes(found.key, 64, form.d), _boxes(found.value, 64, form.d),
        work.sums, found.query, work.lse, work.delta, work.counters, work.added, work.converted,
        scale, problem.scale, units, problem.kv_heads, problem.group, problem.queries, problem.keys, below, above,
        padded, slots.held, slots.lag,
        ROWS=form.rows, KEYS=form.keys, WIDTH=d, D=form.d, STAGES=form.stages, HIDES=hides,
        ORDERED=problem.deterministic, REGISTERS=form.registers, num_warps=4, maxnreg=168,
    )  # fmt: skip
    return found


class _Work(NamedTuple):
    """Memory of one call: sums of dQ, what has been added and converted, and two numbers of every row."""

    cleared: Tensor
    sums: Tensor
    counters: Tensor
    added: Tensor
    converted: Tensor
    lse: Tensor
    delta: Tensor

    @classmethod
    def allocate(
        cls, slots: Slots, padded: int, form: BackwardForm, units: int, group: int, device: torch.device
    ) -> "_Work":
        rows, kept = units * group * padded, slots.held * group * padded
        words = (kept * form.d, kept // form.rows, slots.held, slots.held, rows, rows)
        sizes = [-(-size // 32) * 32 for size in words]
        whole = torch.empty(sum(sizes), dtype=torch.float32, device=device)
        sums, counters, added, converted, lse, delta = whole.split(sizes)
        counters, added, converted = (part.view(torch.int32) for part in (counters, added, converted))
        return cls(whole[: sum(sizes[:4])], sums, counters, added, converted, lse, delta)


@lru_cache(maxsize=64)
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _boxes(tensor: Tensor, rows: int, width: int) -> TensorDescriptor:
    """(batch, heads, tokens, width) in boxes of rows of a head; what lies outside reads as zero."""
    steps = [stride * tensor.element_size() for stride in tensor.stride()[:3]]
    if tensor.stride(-1) != 1 or any(step % 16 for step in steps) or tensor.data_ptr() % 16:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    box = [1, 1, rows, width]
    layout = gl.NVMMASharedLayout.get_default_for(box, _ELEMENTS[tensor.dtype])
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), box, layout)
