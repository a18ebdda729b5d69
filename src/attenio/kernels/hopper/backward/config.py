"""Kernels of the backward pass and their tiles, and how they are launched on the heads of a call."""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.hopper.backward.chunks import Chunk
from attenio.kernels.hopper.backward.key_stationary_d64 import narrow_gradients_kernel
from attenio.kernels.hopper.backward.key_stationary_d128 import middle_gradients_kernel
from attenio.kernels.hopper.backward.masks import SeenRows
from attenio.kernels.hopper.backward.preprocess import Rows
from attenio.kernels.hopper.backward.spilled_key_gradients import wide_gradients_kernel
from attenio.kernels.hopper.launch import Box, aligned, launch, padded_box, padded_boxes
from attenio.kernels.hopper.tiles import side_by_side
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.launch import LOG2_E, grouped_heads
from attenio.kernels.triton.two_pass import Gradients

__all__ = ["BackwardCall", "BackwardForm", "backward_form", "form_of", "processors_of"]


class BackwardForm(NamedTuple):
    """A kernel and its tiles: it works in columns ``d`` of queries and ``width`` of values, some of them zeros.

    ``slots`` are tiles of dS at once.
    """

    kernel: Any
    d: int
    width: int
    rows: int
    keys: int
    stages: int
    slots: int
    registers: int = 240

    @property
    def spills(self) -> bool:
        """Whether slopes leave a block as they are, or multiplied with its keys."""
        return self.kernel is wide_gradients_kernel

    def constants(self, *, hides: bool, packed: bool, adds: bool) -> tuple[int, ...]:
        """What the kernel is compiled for; gradients of keys are added where slopes are spilled in several launches."""
        rings = (self.stages, self.slots, hides, packed)
        if not self.spills:
            return (self.rows, self.keys, self.d, *rings, self.registers)
        columns = (*side_by_side(self.d), *side_by_side(self.width))
        return (self.rows, self.keys, *columns, *rings, adds, self.registers)

    def boxes(self, tensor: Tensor, rows: int, width: int) -> tuple[Box | None, ...]:
        """Boxes of so many rows as the kernel takes them: one, or side-by-side tiles where slopes are spilled."""
        return padded_boxes(tensor, rows, width) if self.spills else (padded_box(tensor, rows, width),)

    def key_boxes(self, tensor: Tensor, width: int) -> tuple[Box | None, ...]:
        """Boxes of keys or values; 256 columns of them come in two halves."""
        return self.boxes(tensor, 64, 128 if width == 256 else width)


def form_of(problem: KernelProblem) -> BackwardForm:
    """The form for a problem."""
    return backward_form(problem.query.shape[-1], problem.value.shape[-1])


def backward_form(d: int, width: int) -> BackwardForm:
    """The form for heads of at most these widths: slopes of wide ones are spilled, others multiplied and added to dQ.

    Registers of a computing thread, of 64 keys: two gradients of 64 x d (one, of wide heads), scores and their slopes
    of 64 x rows. 128 rows halve the reads of keys out of shared memory, but fit only beside heads of 64. Threads of
    middle heads have fewer, because a third group multiplies slopes with keys. Those of heads up to 192 wide also hold
    all of K or V, and what these leave of shared memory holds more tiles of rows.
    """
    widest = max(d, width)
    if widest <= 64:
        return BackwardForm(narrow_gradients_kernel, 64, 64, 128, 128, 2, 3)
    if widest <= 128:
        return BackwardForm(middle_gradients_kernel, 128, 128, 64, 128, 2, 3, 216)
    if widest <= 192:
        return BackwardForm(wide_gradients_kernel, 192, 128 if width <= 128 else 192, 64, 64, 4, 3)
    return BackwardForm(wide_gradients_kernel, 256, 256, 64, 64, 3, 2)


class BackwardCall(NamedTuple):
    """What all launches of a call share: tensors (batch, heads, tokens, width) as the copy engine takes them."""

    problem: KernelProblem
    form: BackwardForm
    seen: SeenRows
    rows: Rows
    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor
    found: Gradients

    @classmethod
    def of(cls, problem: KernelProblem, form: BackwardForm, seen: SeenRows, rows: Rows) -> "BackwardCall":
        """With room for the gradients."""
        query, key, value = grouped_heads(problem.query), problem.key, problem.value
        d_query, d_key, d_value = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (query, key, value))
        return cls(
            problem, form, seen, rows, aligned(query.flatten(1, 2)), aligned(key), aligned(value),
            aligned(rows.gradient), Gradients(d_query, d_key, d_value, bias=None),
        )  # fmt: skip

    @property
    def key_gradients(self) -> tuple[Box | None, ...]:
        """Where gradients of keys and of values are written."""
        form, found = self.form, self.found
        return *form.boxes(found.key, 64, form.d), *form.boxes(found.value, 64, form.width)

    def launch_keys(self, chunk: Chunk, written: tuple[Box | None, ...], left: Box) -> None:
        """Gradients of keys and values of a chunk; slopes that it spills, or its additions to dQ, are ``left``."""
        problem, form, seen, rows = self.problem, self.form, self.seen, self.rows
        none = rows.lse.view(torch.int32)
        fineness = () if form.spills else (rows.lse if rows.fineness is None else rows.fineness,)
        launch(
            form.kernel, chunk.blocks, (
                *form.boxes(self.query, form.rows, form.d), *form.key_boxes(self.key, form.d),
                *form.key_boxes(self.value, form.width), *form.boxes(self.gradient, form.rows, form.width),
                *written, left,
            ), (
                rows.lse, rows.delta, none if seen.first_rows is None else seen.first_rows,
                none if seen.stop_rows is None else seen.stop_rows, problem.scale * LOG2_E, problem.scale,
                chunk.units.start * -(-problem.keys // form.keys) + chunk.tiles.start, chunk.together,
                problem.kv_heads, problem.group, problem.keys, seen.band.below, seen.band.above,
                chunk.rows.start, min(chunk.rows.stop, problem.queries), rows.padded, *fineness,
            ), form.constants(
                hides=seen.band.hides(problem.queries, problem.keys, form.keys), packed=seen.band.packed,
                adds=chunk.carries_keys,
            ), 168, kinds=(left.base.dtype,),
        )  # fmt: skip


@cache
def processors_of(device: torch.device) -> int:
    """Multiprocessors of a GPU; some number where there is none."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4
