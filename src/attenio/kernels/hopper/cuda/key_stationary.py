"""The dataflow ``key_stationary`` by ``key_stationary.cu``: which problems it takes, and its launch."""

import ctypes
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.gpu.counters import counters
from attenio.kernels.hopper.cuda.compiler import begin_compiling, is_at_hand
from attenio.kernels.hopper.cuda.launcher import ELEMENTS, WARPGROUP, CudaKernel, CudaLauncher
from attenio.kernels.hopper.cuda.source import Product, source
from attenio.kernels.hopper.cuda.tiles import panel
from attenio.kernels.hopper.descriptors import padded_descriptor
from attenio.kernels.replay.launches import launch_compiled

if TYPE_CHECKING:
    from attenio.kernels.hopper.backward.chunks import Chunk
    from attenio.kernels.hopper.backward.config import BackwardCall

KERNEL = "key_stationary_kernel"
# As in the kernel; offsets are numbers of bf16 of each row, three of lse, three of delta and zeros; dS and dQ come
# 2^SHIFT times too large.
ROWS, KEYS, OFFSETS, SHIFT = 64, 128, 8, 14
_K_BUFFERS, _PLACES, _MINUS_BYTES = 2, 4, 3 * 128
# Columns that products have, and those of whole panels that shared memory and accumulators have.
WIDTHS, STORED_WIDTHS = range(16, 129, 16), (32, 64, 96, 128)


class GradientWork(ctypes.Structure):
    """The last parameter of the kernel: addresses, then numbers."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "QueryGradients", "RoundedQueryGradients", "KeyGradients", "ValueGradients", "Offsets", "Counters",
                "FirstRows", "StopRows", "Order",
            )
        ),
        *(
            (name, ctypes.c_int)
            for name in (
                "blocks", "programs", "first_head", "together", "kv_heads", "group_parts", "group", "queries", "keys",
                "above", "padded", "width", "v_width",
            )
        ),
        *((name, ctypes.c_float) for name in ("scale_log2", "scale")),
    )  # fmt: skip


def columns_of(problem: KernelProblem) -> int | None:
    """The columns that a problem is computed in, if the kernel takes it: full, causal and packed heads in bf16."""
    band = Band.of(problem)
    if problem.query.dtype != torch.bfloat16 or (band.cuts_before and band != Band(packed=True)):
        return None
    widest = max(problem.query.shape[-1], problem.value.shape[-1])
    return next((columns for columns in WIDTHS if widest <= columns), None)


def stored_columns(d: int) -> int:
    """Columns in shared memory of heads that are computed in ``d``."""
    return next(columns for columns in STORED_WIDTHS if d <= columns)


def dq_columns(d: int) -> int:
    """Columns of a product of dQ: consumers have half of 128 each, and a warpgroup of its own all of fewer."""
    return stored_columns(d) // 2 if stored_columns(d) == 128 else d


def rings_of(d: int) -> tuple[int, int, int]:
    """Stages of rows, slots of dS and tiles of dQ that leave, as in the kernel."""
    return {32: (4, 4, 2), 64: (4, 4, 2), 96: (3, 3, 1), 128: (2, 2, 2)}[stored_columns(d)]


def shared_bytes(d: int, *, whole_heads: bool, packed: bool = False) -> int:
    """Q and dO of every stage, K twice and V, slots of dS, tiles of dQ, offsets of rows, numbers and barriers."""
    stages, slots, staged = rings_of(d)
    matrices = 2 * stored_columns(d) * (2 * stages * ROWS + (_K_BUFFERS + 1) * KEYS) + 2 * slots * KEYS * ROWS
    rows = 4 * staged * ROWS * dq_columns(d) + 2 * OFFSETS * stages * ROWS
    numbers = (48 if packed else 8) * _K_BUFFERS + (16 if whole_heads else 4) * _PLACES
    barriers = 3 * stages + 2 * _K_BUFFERS + 2 + 2 * slots + (staged if whole_heads else 0)
    return matrices + rows + _MINUS_BYTES + numbers + 8 * barriers


def launch_key_stationary(call: "BackwardCall", chunk: "Chunk") -> None:
    """Gradients of keys and values of a chunk; dQ is added to the accumulators, or written by who has a whole head."""
    problem, band, statistics, device = call.problem, call.visible.band, call.statistics, call.query.device
    d = call.config.d
    described = tuple(
        padded_descriptor(tensor, rows, panel(stored_columns(d)))
        for tensor, rows in ((call.query, ROWS), (call.key, KEYS), (call.value, KEYS), (call.gradient, ROWS))
    )
    whole_heads = call.config.whole_heads
    seen = (0 if each is None else each for each in call.visible[1:])
    programs = min(len(chunk.batch_heads) if whole_heads else chunk.blocks, processors_of(device))
    arguments = (
        0 if statistics.dq_acc is None else statistics.dq_acc, call.gradients.query, call.gradients.key,
        call.gradients.value, statistics.offsets, counters(device, 2), *seen, chunk.blocks,
        programs, chunk.batch_heads.start, chunk.together, problem.kv_heads, call.group_parts, problem.group,
        problem.queries, problem.keys, band.above, statistics.padded, problem.key.shape[-1], problem.value.shape[-1],
        problem.scale * LOG2_E, problem.scale,
    )  # fmt: skip
    masked = call.config.masks or band.masks(problem.queries, problem.keys, KEYS)
    form = {"masked": masked, "whole_heads": whole_heads, "packed": band.packed}
    launcher = launcher_of(ELEMENTS[call.query.dtype], d, device, **form)
    constants = {"D": d, **{name.upper(): int(value) for name, value in form.items()}}
    launch_compiled(launcher, KERNEL, programs, described, arguments, constants)


def begin_compiling_key_stationary(
    dtype: torch.dtype, d: int, *, masked: bool, whole_heads: bool = False, packed: bool = False
) -> Future[bytes]:
    """Compile it beside whatever comes before its launch."""
    return begin_compiling(gradient_source(ELEMENTS[dtype], d, masked=masked, whole_heads=whole_heads, packed=packed))


def is_compiled(dtype: torch.dtype, d: int, *, masked: bool, whole_heads: bool = False) -> bool:
    """Whether it is compiled, here or on disk."""
    return is_at_hand(gradient_source(ELEMENTS[dtype], d, masked=masked, whole_heads=whole_heads))


@lru_cache(maxsize=64)
def launcher_of(
    element: str, d: int, device: torch.device, *, masked: bool, whole_heads: bool, packed: bool = False
) -> CudaLauncher:
    """Compiled and loaded once for each device."""
    del device  # a module belongs to the current one
    text = gradient_source(element, d, masked=masked, whole_heads=whole_heads, packed=packed)
    warpgroups = 3 if stored_columns(d) == 128 else 4
    room = shared_bytes(d, whole_heads=whole_heads, packed=packed)
    return CudaLauncher(CudaKernel(KERNEL, text, element, WARPGROUP * warpgroups, room, GradientWork))


def gradient_source(element: str, d: int, *, masked: bool, whole_heads: bool = False, packed: bool = False) -> str:
    """The kernel's text, with products that make scores, dP, gradients of keys or values, and dQ."""
    products = (
        Product("scores_product", ROWS), Product("held_product", ROWS, a_in_registers=True),
        Product("offset_product", ROWS),
        Product("gradient_product", d, a_in_registers=True, b_by_columns=True),
        Product("query_product", dq_columns(d), a_by_columns=True, b_by_columns=True),
    )  # fmt: skip
    constants = {
        "D": d, "STORED": stored_columns(d), "MASKED": int(masked), "WHOLE_HEADS": int(whole_heads),
        "PACKED": int(packed), "SHARED_BYTES": shared_bytes(d, whole_heads=whole_heads, packed=packed),
    }  # fmt: skip
    return source("key_stationary", element, constants, products)
