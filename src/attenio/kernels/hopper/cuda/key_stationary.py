"""The dataflow ``key_stationary`` by ``key_stationary.cu``: which problems gain by it, and its launch."""

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.cuda.launcher import ELEMENTS, WARPGROUP, CudaKernel, CudaLauncher
from attenio.kernels.hopper.cuda.source import Product, source
from attenio.kernels.hopper.descriptors import padded_descriptor
from attenio.kernels.replay.launches import launch_compiled

if TYPE_CHECKING:
    from attenio.kernels.hopper.backward.chunks import Chunk
    from attenio.kernels.hopper.backward.config import BackwardCall

KERNEL = "key_stationary_kernel"
# As in the kernel.
D, ROWS, KEYS, STAGES, SLOTS = 64, 64, 128, 4, 4
_WARPGROUPS = 4
# Q and dO of every stage, K twice and V, slots of dS, two numbers of every row, barriers.
SHARED_BYTES = (
    2 * D * (2 * STAGES * ROWS + 3 * KEYS)
    + 2 * SLOTS * KEYS * ROWS
    + 8 * STAGES * ROWS
    + 8 * (3 * STAGES + 2 * SLOTS + 6)
)
# A tile of keys meets so many rows on average, or fewer: blocks that follow each other in one program gain 8 to 18
# percent at 1K tokens and 2 at 4K causal; at 4K full Gluon's kernel is 4 percent faster.
_FEW_ROWS = 17 * 128
# Key tiles of causal heads come in pairs of a long and a short one if a processor has so many of them.
_MANY = 4


class GradientWork(ctypes.Structure):
    """The last parameter of the kernel: addresses, then numbers."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("QueryGradients", "KeyGradients", "ValueGradients", "Lse", "Delta")),
        *(
            (name, ctypes.c_int)
            for name in (
                "places", "pairs", "first_head", "together", "kv_heads", "group_parts", "group", "queries", "keys",
                "above", "padded", "width", "v_width",
            )
        ),
        *((name, ctypes.c_float) for name in ("scale_log2", "scale")),
    )  # fmt: skip


def gains(problem: KernelProblem) -> bool:
    """Whether it computes the gradients of a problem, and faster than Gluon's kernel: full and causal heads in bf16."""
    if problem.query.dtype != torch.bfloat16 or max(problem.query.shape[-1], problem.value.shape[-1]) > D:
        return False
    return _meets_few_rows(Band.of(problem), problem.queries, problem.keys, problem.group)


@lru_cache(maxsize=512)
def _meets_few_rows(band: Band, queries: int, keys: int, group: int) -> bool:
    if band.cuts_before:
        return False
    spans = band.spans(queries, keys, KEYS, ROWS)
    return group * sum(map(len, spans)) <= _FEW_ROWS * len(spans)


def launch_key_stationary(call: "BackwardCall", chunk: "Chunk") -> None:
    """Gradients of keys and values of a chunk; dQ is added to the accumulators."""
    problem, band, statistics, device = call.problem, call.visible.band, call.statistics, call.query.device
    described = tuple(
        padded_descriptor(tensor, rows, D)
        for tensor, rows in ((call.query, ROWS), (call.key, KEYS), (call.value, KEYS), (call.gradient, ROWS))
    )
    processors = processors_of(device)
    pairs = band.is_causal and chunk.blocks >= _MANY * processors
    places = len(chunk.batch_heads) * -(-len(chunk.tiles) // 2) if pairs else chunk.blocks
    arguments = (
        statistics.dq_acc, call.gradients.key, call.gradients.value, statistics.lse, statistics.delta, places,
        int(pairs), chunk.batch_heads.start, chunk.together, problem.kv_heads, call.group_parts, problem.group,
        problem.queries, problem.keys, band.above, statistics.padded, problem.key.shape[-1], problem.value.shape[-1],
        problem.scale * LOG2_E, problem.scale,
    )  # fmt: skip
    masked = band.masks(problem.queries, problem.keys, KEYS)
    launcher = launcher_of(ELEMENTS[call.query.dtype], device, masked=masked)
    launch_compiled(launcher, KERNEL, min(places, processors), described, arguments, {"MASKED": int(masked)})


@lru_cache(maxsize=64)
def launcher_of(element: str, device: torch.device, *, masked: bool) -> CudaLauncher:
    """Compiled and loaded once for each device."""
    del device  # a module belongs to the current one
    text = gradient_source(element, masked=masked)
    return CudaLauncher(CudaKernel(KERNEL, text, element, WARPGROUP * _WARPGROUPS, SHARED_BYTES, GradientWork))


def gradient_source(element: str, *, masked: bool) -> str:
    """The kernel's text, with products that make scores, dP, gradients of keys or values, and dQ."""
    products = (
        Product("scores_product", ROWS), Product("dp_product", ROWS, a_in_registers=True),
        Product("gradient_product", D, a_in_registers=True, b_by_columns=True),
        Product("query_product", D, a_by_columns=True, b_by_columns=True),
    )  # fmt: skip
    return source("key_stationary.cu", element, {"MASKED": int(masked)}, products)
