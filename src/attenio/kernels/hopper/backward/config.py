"""Kernels of the backward pass with their tiles, and how they are launched on the heads of a call."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Gradients
from attenio.kernels.gpu.arguments import grouped_heads
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.backward.chunks import Chunk
from attenio.kernels.hopper.backward.fixed_point import fixed_point_suffices
from attenio.kernels.hopper.backward.group_parts import group_parts_of
from attenio.kernels.hopper.backward.key_stationary_d64 import key_stationary_d64_kernel
from attenio.kernels.hopper.backward.key_stationary_d128 import key_stationary_d128_kernel
from attenio.kernels.hopper.backward.masks import VisibleRows
from attenio.kernels.hopper.backward.preprocess import RowStatistics
from attenio.kernels.hopper.backward.spilled_key_gradients import spilled_key_gradients_kernel
from attenio.kernels.hopper.cuda import key_stationary as cuda
from attenio.kernels.hopper.cuda.proving import can_compile
from attenio.kernels.hopper.descriptors import TmaDescriptor, aligned, padded_descriptor, padded_descriptors
from attenio.kernels.hopper.schedule import key_tiles
from attenio.kernels.hopper.tiles import side_by_side
from attenio.kernels.replay.launches import CompileOptions, launch

# Of programs that take whole heads: how often a tile of rows may be visited at most, by the columns that are stored
# (each visit takes longer, and what all of them save is the same); bytes of sums of dQ that were seen to gain; and how
# much longer rounds of whole heads may take than of blocks. With them, and with consumers that run the same code,
# gradients of up to 512 tokens take up to 43 percent less than before (run 53 of ``studies/hopper/tuning.json``); that
# no other limits would be better is not shown.
_MOST_VISITS = {32: 4.0, 64: 4.0, 96: 3.0, 128: 2.5}
_SUMS_BYTES, _MOST_ROUNDS = 56 * 2**20, 1.35
# Registers of every thread before the producer gives some of its own to the consumers.
REGISTERS_AT_START = 168


class BackwardConfig(NamedTuple):
    """A kernel and its tiles: it works in columns ``d`` of queries and ``width`` of values, some of them zeros.

    ``slots`` are tiles of dS at once. With ``fixed_point`` accumulators of dQ are integers, which repeat to the bit; an
    outlier of keys or values makes these coarser. With ``masks`` it is compiled for scores that are hidden, though
    there are none: it takes every length. Programs that take ``whole_heads`` write dQ themselves.
    """

    kernel: Any
    d: int
    width: int
    rows: int
    keys: int
    stages: int
    slots: int
    registers: int = 240
    fixed_point: bool = False
    masks: bool = False
    whole_heads: bool = False

    @property
    def spills(self) -> bool:
        """Whether dS leaves a block as it is, or multiplied with its keys."""
        return self.kernel is spilled_key_gradients_kernel

    @property
    def is_cuda(self) -> bool:
        """Whether the kernel is one in CUDA C++, given as what launches it."""
        return self.kernel is cuda.launch_key_stationary

    @property
    def repeats(self) -> bool:
        """Whether gradients repeat to the bit without fixed point."""
        return self.spills or self.whole_heads

    @property
    def kernel_name(self) -> str:
        """As profilers show it."""
        return cuda.KERNEL if self.is_cuda else str(self.kernel.fn.__name__)

    @property
    def stored_columns(self) -> int:
        """Columns of the dQ accumulators."""
        return cuda.stored_columns(self.d) if self.is_cuda else self.d

    @property
    def planned_rows(self) -> int:
        """Rows whose time launches are planned by: the tile of Gluon's kernel for such heads."""
        return backward_config(self.d, self.width).rows if self.is_cuda else self.rows

    def constants(self, *, masked: bool, packed: bool, adds: bool) -> tuple[int, ...]:
        """What the kernel is compiled for; gradients of keys are added where dS is spilled in several launches."""
        rings = (self.stages, self.slots, masked, packed)
        if self.kernel is key_stationary_d64_kernel:
            return (self.rows, self.keys, self.d, *rings, self.registers)
        if not self.spills:
            return (self.rows, self.keys, *side_by_side(self.d), *rings, self.registers)
        columns = (*side_by_side(self.d), *side_by_side(self.width))
        return (self.rows, self.keys, *columns, *rings, adds, self.registers)

    def descriptors(self, tensor: Tensor, rows: int, width: int) -> tuple[TmaDescriptor | None, ...]:
        """Descriptors as the kernel takes them: one of narrow heads, or those of side-by-side tiles."""
        if self.kernel is key_stationary_d64_kernel:
            return (padded_descriptor(tensor, rows, width),)
        return padded_descriptors(tensor, rows, width)

    def key_descriptors(self, tensor: Tensor, width: int) -> tuple[TmaDescriptor | None, ...]:
        """Descriptors of keys or values; 256 columns of them come in two halves."""
        return self.descriptors(tensor, 64, 128 if width == 256 else width)


def config_of(problem: KernelProblem) -> BackwardConfig:
    """The configuration for a problem."""
    config = backward_config(problem.query.shape[-1], problem.value.shape[-1])
    device, columns = problem.query.device, cuda.columns_of(problem)
    if columns is not None and can_compile(device) and device not in _not_proven:
        whole_heads = takes_whole_heads(problem, columns)
        if whole_heads or not problem.deterministic:
            return _cuda_config(columns, whole_heads)
    whole = problem.deterministic and not config.spills and fixed_point_suffices(problem)
    return config._replace(fixed_point=True) if whole else config


def backward_config(d: int, width: int) -> BackwardConfig:
    """The configuration for heads of at most these widths: wide ones spill dS, others multiply it and add to dQ.

    Registers of a consumer thread, of 64 keys: two gradients of 64 x d (one, of wide heads), S and dP of 64 x rows. 128
    rows halve the reads of keys from shared memory, but fit only beside heads of 64. Consumers of heads up to 128 have
    fewer, because the producer computes dQ. Those of heads up to 192 also hold all of K or V, and the shared memory
    that this leaves holds more tiles of rows.
    """
    widest = max(d, width)
    if widest <= 64:
        return BackwardConfig(key_stationary_d64_kernel, 64, 64, 128, 128, 2, 3)
    if widest <= 96:
        return BackwardConfig(key_stationary_d128_kernel, 96, 96, 64, 128, 3, 3, 216)
    if widest <= 128:
        return BackwardConfig(key_stationary_d128_kernel, 128, 128, 64, 128, 2, 3, 216)
    if widest <= 192:
        return BackwardConfig(spilled_key_gradients_kernel, 192, 128 if width <= 128 else 192, 64, 64, 4, 3)
    return BackwardConfig(spilled_key_gradients_kernel, 256, 256, 64, 64, 3, 2)


@lru_cache(maxsize=16)
def _cuda_config(d: int, whole_heads: bool) -> BackwardConfig:
    stages, slots, _ = cuda.rings_of(d)
    config = BackwardConfig(cuda.launch_key_stationary, d, d, cuda.ROWS, cuda.KEYS, stages, slots)
    return config._replace(whole_heads=whole_heads)


def takes_whole_heads(problem: KernelProblem, d: int) -> bool:
    """Whether programs of the CUDA kernel take all keys of a head.

    Every row has to see the first key, and heads to fill all programs; but one key tile needs neither sums nor more
    heads than it has. Full heads of few key tiles gain, and causal ones of about twice as many.
    """
    band, heads, programs = Band.of(problem), problem.batch * problem.kv_heads, processors_of(problem.query.device)
    tiles, stored = -(-problem.keys // cuda.KEYS), cuda.stored_columns(d)
    if band.packed or band.above < 0:
        return False
    if problem.group > 1 and heads < programs:  # parts of groups fill more programs
        return False
    if tiles == 1:
        return True
    seen = key_tiles(problem.queries, problem.keys, band, row_tile=cuda.ROWS, key_tile=cuda.KEYS)
    summed = problem.group * cuda.ROWS * int((seen > 1).sum())
    even = -(-heads // programs) * tiles <= _MOST_ROUNDS * -(-heads * tiles // programs)
    return bool(even and seen.mean() <= _MOST_VISITS[stored] and 4 * programs * summed * stored <= _SUMS_BYTES)


_not_proven: set[torch.device] = set()


def give_up_cuda(device: torch.device) -> None:
    """From now on Gluon's kernels compute all gradients of a device, whose CUDA C++ was not right."""
    _not_proven.add(device)


class BackwardCall(NamedTuple):
    """What all launches of a call share: tensors (batch, heads, tokens, width) as TMA takes them."""

    problem: KernelProblem
    config: BackwardConfig
    visible: VisibleRows
    statistics: RowStatistics
    query: Tensor
    key: Tensor
    value: Tensor
    gradient: Tensor
    gradients: Gradients

    @classmethod
    def of(
        cls, problem: KernelProblem, config: BackwardConfig, visible: VisibleRows, statistics: RowStatistics
    ) -> "BackwardCall":
        """With room for the gradients."""
        query, key, value = grouped_heads(problem.query), problem.key, problem.value
        d_query = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        d_key, d_value = (
            torch.empty((problem.batch, problem.kv_heads, *x.shape[2:]), dtype=x.dtype, device=x.device)
            for x in (key, value)
        )
        return cls(
            problem, config, visible, statistics, aligned(query.flatten(1, 2)), aligned(key), aligned(value),
            aligned(statistics.gradient), Gradients(d_query, d_key, d_value, bias=None),
        )  # fmt: skip

    @property
    def group_parts(self) -> int:
        """KV heads that have the same keys: parts of a group."""
        return group_parts_of(self.problem)

    @property
    def key_gradients(self) -> tuple[TmaDescriptor | None, ...]:
        """Where gradients of keys and of values are written."""
        config, gradients = self.config, self.gradients
        return (
            *config.descriptors(gradients.key, 64, config.d), *config.descriptors(gradients.value, 64, config.width)
        )  # fmt: skip

    def launch_keys(
        self, chunk: Chunk, outputs: tuple[TmaDescriptor | None, ...], *ds_or_dq: TmaDescriptor | None
    ) -> None:
        """Gradients of keys and values of a chunk; it spills dS, or adds to the dQ accumulator."""
        assert ds_or_dq[0] is not None
        problem, config, visible, statistics = self.problem, self.config, self.visible, self.statistics
        unused = statistics.lse.view(torch.int32)
        dq_scale = () if config.spills else (statistics.lse if statistics.dq_scale is None else statistics.dq_scale,)
        launch(
            config.kernel, chunk.blocks, (
                *config.descriptors(self.query, config.rows, config.d), *config.key_descriptors(self.key, config.d),
                *config.key_descriptors(self.value, config.width),
                *config.descriptors(self.gradient, config.rows, config.width), *outputs, *ds_or_dq,
            ), (
                statistics.lse, statistics.delta, unused if visible.first_rows is None else visible.first_rows,
                unused if visible.stop_rows is None else visible.stop_rows, problem.scale * LOG2_E, problem.scale,
                chunk.batch_heads.start * -(-problem.keys // config.keys) + chunk.tiles.start, chunk.together,
                problem.kv_heads, self.group_parts, problem.group, problem.keys, visible.band.below, visible.band.above,
                chunk.rows.start, min(chunk.rows.stop, problem.queries), statistics.padded, *dq_scale,
            ), config.constants(
                masked=visible.band.masks(problem.queries, problem.keys, config.keys), packed=visible.band.packed,
                adds=chunk.carries_keys,
            ), CompileOptions(registers=REGISTERS_AT_START, kinds=(ds_or_dq[0].base.dtype,)),
        )  # fmt: skip
