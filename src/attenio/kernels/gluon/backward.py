"""The backward pass on Hopper: which problems it takes, and how they are launched."""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from attenio.kernels import triton
from attenio.kernels.gluon.backward_grains import extremes_of, grains_suffice
from attenio.kernels.gluon.backward_narrow import narrow_gradients_kernel
from attenio.kernels.gluon.backward_rows import convert_kernel, prepare_kernel
from attenio.kernels.gluon.backward_wide import wide_gradients_kernel
from attenio.kernels.gluon.proving import is_right, small_problem
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import LOG2_E, grouped_heads, restrictions_of
from attenio.kernels.triton.two_pass import Gradients
from attenio.planning.shared_cache import Grid

__all__ = ["BackwardForm", "backward_form", "gradient_grids", "is_proven", "supports", "two_pass"]

# Tiles of rows divide this, and log-sum-exp is there for so many rows more.
_PADDING = 128
_PREPARED_ROWS = 64
# Shares of dQ are added to its sums, gradients of keys are whole.
_ADDED = {"SPILLS": False, "ADDS": False}


class BackwardForm(NamedTuple):
    """A kernel and its tiles: ``d`` is the width it works in, wider than the heads where columns are zeros."""

    kernel: Any
    d: int
    rows: int
    keys: int
    stages: int
    slots: int
    registers: int
    choices: dict[str, bool]


def backward_form(width: int) -> BackwardForm:
    """The form for heads of at most this width.

    Registers of a computing thread, of 64 keys: two gradients of 64 x d, scores and their slopes of 64 x rows. 128 rows
    halve the reads of keys out of shared memory, but fit only beside heads of 64. ``slots`` are tiles of dS at once.
    """
    if width <= 64:
        return BackwardForm(narrow_gradients_kernel, 64, 128, 128, 2, 3, 240, _ADDED)
    if width <= 128:
        return BackwardForm(narrow_gradients_kernel, 128, 64, 128, 2, 4, 240, _ADDED)
    return BackwardForm(wide_gradients_kernel, 256, 64, 64, 2, 2, 240, {})


def supports(problem: KernelProblem) -> bool:
    """Whether these kernels compute the problem: 16-bit heads up to 256 wide, and no mask but a band."""
    seen = problem.visible
    restricted = (seen.bias, seen.query_ids, seen.blocks, seen.first, problem.dropout)
    widths = problem.query.shape[-1], problem.value.shape[-1]
    return (
        problem.query.dtype in (torch.bfloat16, torch.float16)
        and all(0 < width <= 256 and width % 8 == 0 for width in widths)
        and all(given is None for given in restricted)
        and min(problem.query.numel(), problem.key.numel()) > 0
        and (not problem.deterministic or (max(widths) <= 128 and grains_suffice(problem)))
        and problem.scale > 0.0  # hidden scores are -inf before they are scaled
    )


def is_proven(problem: KernelProblem) -> bool:
    """Whether the kernel for this problem has given the gradients of the portable ones on this device."""
    dtype, device = problem.query.dtype, problem.query.device
    form, hides = backward_form(max(problem.query.shape[-1], problem.value.shape[-1])), _hides(problem)

    def both() -> tuple[list[Tensor], list[Tensor]]:
        queries, keys = (2 * form.rows + 40, 3 * form.keys + 24) if hides else (4 * form.rows, 4 * form.keys)
        trial = small_problem(
            queries, keys, form.d, dtype, device, hides=hides, deterministic=problem.deterministic
        )  # fmt: skip
        attended = triton.attend(trial)
        saved = (*attended, trial.query.flip(2, 3))
        return list(two_pass(trial, saved)[:3]), list(triton.two_pass(trial, saved)[:3])

    sums = "integer" if problem.deterministic else "float"
    name = f"gradients {form.d} wide, {'masked' if hides else 'whole'} tiles, {sums} sums"
    return is_right(name, dtype, device, both)


def two_pass(problem: KernelProblem, saved: tuple[Tensor, ...]) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group.

    Blocks add to dQ in any order; to be deterministic, what they add are integers.
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
    work = _Work.allocate(problem.batch * heads * padded, form, device, whole=problem.deterministic)
    extremes = extremes_of(problem) if problem.deterministic else None
    flat = [grouped_heads(tensor).flatten(1, 2) for tensor in (output, gradient)]
    output, gradient = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in flat)
    programs = padded // _PREPARED_ROWS * problem.batch * heads
    prepare_kernel[(programs,)](
        output, gradient, largest, total, work.lse, work.delta, work.fineness, extremes, work.sums,
        work.sums.numel(), -(-work.sums.numel() // (1024 * programs)) * 1024,
        *output.stride()[:3], *gradient.stride()[:3], heads, problem.group, problem.queries, padded,
        ROWS=_PREPARED_ROWS, WIDTH=width, PADDED_WIDTH=max(16, 1 << (width - 1).bit_length()),
        SHARES=0 if extremes is None else extremes.shape[1], num_warps=4,
    )  # fmt: skip
    whole = {"Fineness": work.fineness} if problem.deterministic else {}
    form.kernel[(tiles * problem.batch * problem.kv_heads,)](
        _boxes(query.flatten(1, 2), form.rows, form.d), _boxes(key, 64, form.d), _boxes(value, 64, form.d),
        _boxes(gradient, form.rows, form.d), _boxes(found.key, 64, form.d), _boxes(found.value, 64, form.d),
        _boxes(work.sums, 64, 64, 0), work.lse, work.delta, None, None,
        scale, problem.scale, 0, problem.kv_heads, problem.group, problem.keys, below, above,
        0, problem.queries, padded,
        ROWS=form.rows, KEYS=form.keys, D=form.d, STAGES=form.stages, SLOTS=form.slots, HIDES=_hides(problem),
        PACKED=False, **form.choices, REGISTERS=form.registers, num_warps=4, maxnreg=168, **whole,
    )  # fmt: skip
    convert_kernel[(work.sums.numel() // 4096,)](
        work.sums, work.fineness, found.query, problem.scale, problem.queries, padded, WIDTH=d, D=form.d, num_warps=4
    )
    return found


def _hides(problem: KernelProblem) -> bool:
    """Whether some tile holds a score that is not required."""
    seen, form = problem.visible, backward_form(max(problem.query.shape[-1], problem.value.shape[-1]))
    return seen.below > -problem.queries or seen.above < problem.keys - 1 or problem.keys % form.keys != 0


def gradient_grids(problem: KernelProblem) -> tuple[Grid, Grid, Grid]:
    """The programs of the three kernels, for a prediction of the bytes that they move below L2."""
    element, d, width = problem.query.element_size(), int(problem.query.shape[-1]), int(problem.value.shape[-1])
    form, units = backward_form(max(d, width)), problem.batch * problem.kv_heads
    processors = torch.cuda.get_device_properties(problem.query.device).multi_processor_count
    heads, sums, both = units * problem.group, 4 * form.d, (d + width) * element
    single = Grid(
        units=heads, rows=problem.queries, passing=1, tile=64, resident=16 * processors,
        read_bytes=2 * width * element + 8, written_bytes=sums + 8, passing_bytes=0, drops_reads=True,
    )  # fmt: skip
    gradients = Grid(
        units=units, rows=problem.keys, passing=problem.group * problem.queries, tile=form.keys, resident=processors,
        read_bytes=both, written_bytes=both, passing_bytes=both + 8, updated_bytes=sums,
        causal=problem.visible.above < problem.keys and problem.group == 1,
    )  # fmt: skip
    return single, gradients, replace(single, read_bytes=sums, written_bytes=d * element)


class _Work(NamedTuple):
    """Memory of one call: sums of dQ, two numbers of every row, and a third one where sums are integers."""

    sums: Tensor
    lse: Tensor
    delta: Tensor
    fineness: Tensor | None

    @classmethod
    def allocate(cls, rows: int, form: BackwardForm, device: torch.device, *, whole: bool) -> "_Work":
        sizes = [rows * form.d, rows, rows, rows if whole else 0]
        sums, lse, delta, fineness = torch.empty(sum(sizes), dtype=torch.float32, device=device).split(sizes)
        sums = sums.view(1, 1, -1, 64)
        return cls(sums.view(torch.int32) if whole else sums, lse, delta, fineness if whole else None)


def _boxes(tensor: Tensor, rows: int, width: int, swizzle: int = 128) -> TensorDescriptor:
    """(batch, heads, tokens, width) in boxes of rows of a head; what lies outside reads as zero."""
    steps = [stride * tensor.element_size() for stride in tensor.stride()[:3]]
    if tensor.stride(-1) != 1 or any(step == 0 or step % 16 for step in steps) or tensor.data_ptr() % 16:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    layout = gl.NVMMASharedLayout(swizzle, tensor.element_size() * 8, rank=4)
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [1, 1, rows, width], layout)
