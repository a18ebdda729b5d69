"""The dataflow ``attenio`` by ``attenio.cu``: which problems it takes, and its launch."""

import ctypes
from concurrent.futures import Future
from functools import lru_cache

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.gpu.arguments import scaled
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.counters import counters
from attenio.kernels.hopper.cuda.compiler import begin_compiling, is_at_hand
from attenio.kernels.hopper.cuda.launcher import ELEMENTS, WARPGROUP, CudaKernel, CudaLauncher
from attenio.kernels.hopper.cuda.source import Product, source
from attenio.kernels.hopper.cuda.tiles import CudaTiles, panel
from attenio.kernels.hopper.descriptors import TmaDescriptor, aligned, padded_descriptor
from attenio.kernels.hopper.ranges import ends_of, longest_first
from attenio.kernels.hopper.schedule import LaunchPlan
from attenio.kernels.hopper.tiles import ROWS
from attenio.kernels.replay.launches import launch_compiled

KERNEL = "attenio_kernel"
# What the producer tells each consumer of a row tile of packed sequences.
_ENTRY_BYTES = 32


class Work(ctypes.Structure):
    """The last parameter of the kernel: addresses, then numbers."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "Largest", "Total", "Output", "Starts", "Entries", "Sinks", "First", "Stop", "Order", "Counters",
            )
        ),
        *(
            (name, ctypes.c_int)
            for name in (
                "heads", "group", "queries", "keys", "below", "above", "width", "missing", "row_tiles", "batch_heads",
                "together", "row_step",
            )
        ),
        ("scale_log2", ctypes.c_float),
    )  # fmt: skip


@lru_cache(maxsize=256)
def constants_of(
    tiles: CudaTiles, stored: tuple[int, int], columns: tuple[int, int], band: Band, keys: int
) -> tuple[tuple[str, int], ...]:
    """What the kernel is compiled for: heads of so many columns of keys and values, ``stored`` as so many."""
    masked = tiles.masks or not band.is_dense or keys % tiles.key_tile != 0
    assert not any(each % panel(each) for each in stored), "whole panels are stored"
    (d, width), (used_d, used_width) = stored, (-(-each // 16) * 16 for each in columns)
    return (
        ("CONSUMERS", tiles.consumers), ("BLOCKS", tiles.blocks), ("CLUSTER", tiles.cluster),
        ("KEY_TILE", tiles.key_tile), ("STAGES", tiles.stages), ("Q_BUFFERS", tiles.query_buffers),
        ("D", used_d), ("V", used_width), ("STORED_D", d), ("STORED_V", width),
        ("MASKED", int(masked)), ("BELOW", int(band.cuts_before)), ("PACKED", int(band.packed)),
        ("REGISTERS", tiles.registers),
    )  # fmt: skip


def launch_attenio(problem: KernelProblem, attended: Attended, tiles: CudaTiles, plan: LaunchPlan) -> None:
    """Launch the lists of programs, queries and outputs by heads."""
    (query, scale), (d, width), band = scaled(problem), plan.columns, plan.band
    share = tiles.key_tile // tiles.cluster
    described = (
        _panels(aligned(query.flatten(1, 2)), ROWS, d), _panels(aligned(problem.key), share, d),
        _panels(aligned(problem.value), share, width),
    )  # fmt: skip
    sinks = 0 if problem.sinks is None else problem.sinks.detach().float()
    statistics, heads = (0, 0) if problem.only_output else attended[1:], problem.kv_heads * problem.group
    ranges: tuple[Tensor | int, ...] = (0, 0, 0, 0)
    row_step = 0
    if band.packed:
        assert tiles.cluster == 1, "blocks of a cluster would each take a row tile of their own"
        first, stop = ends_of(problem)
        ranges = (first, stop, longest_first(first, stop, tiles.row_tile), counters(query.device, 2))
        row_step = problem.queries if first.shape[0] > 1 else 0
    arguments = (
        *statistics, attended.output, plan.starts, plan.entries, sinks, *ranges,
        heads, problem.group, problem.queries, problem.keys, band.below, band.above,
        problem.value.shape[-1], tiles.missing_rows(problem.queries, band), -(-problem.queries // tiles.row_tile),
        problem.batch * heads, plan.together, row_step, scale,
    )  # fmt: skip
    constants = constants_of(tiles, plan.columns, (query.shape[-1], problem.value.shape[-1]), band, problem.keys)
    launcher = launcher_of(ELEMENTS[query.dtype], tiles, constants, query.device)
    launch_compiled(launcher, KERNEL, tiles.cluster * plan.programs, described, arguments, dict(constants))


@lru_cache(maxsize=256)
def launcher_of(
    element: str, tiles: CudaTiles, constants: tuple[tuple[str, int], ...], device: torch.device
) -> CudaLauncher:
    """Compiled and loaded once for each device."""
    del device  # a module belongs to the current one
    numbers, threads = dict(constants), WARPGROUP * (tiles.consumers + 1)
    shared_bytes = tiles.shared_bytes(numbers["STORED_D"], numbers["STORED_V"])
    if numbers["PACKED"]:
        shared_bytes += _ENTRY_BYTES * tiles.query_buffers * tiles.consumers
    text = attenio_source(element, numbers)
    return CudaLauncher(
        CudaKernel(KERNEL, text, element, threads, shared_bytes, Work, overlaps=True, may_leave_out=True)
    )


def begin_compiling_attenio(dtype: torch.dtype, constants: tuple[tuple[str, int], ...]) -> Future[bytes]:
    """Compile it beside whatever comes before its launch."""
    return begin_compiling(attenio_source(ELEMENTS[dtype], dict(constants)))


def is_compiled(dtype: torch.dtype, constants: tuple[tuple[str, int], ...]) -> bool:
    """Whether it is compiled, here or on disk."""
    return is_at_hand(attenio_source(ELEMENTS[dtype], dict(constants)))


def attenio_source(element: str, constants: dict[str, int]) -> str:
    """The kernel's text."""
    return source("attenio", element, constants, products_of(constants["KEY_TILE"], constants["V"]))


def products_of(key_tile: int, width: int) -> tuple[Product, ...]:
    """S = Q K^T, and O += P V with P in registers."""
    return (
        Product("scores_product", key_tile),
        Product("outputs_product", width, a_in_registers=True, b_by_columns=True),
    )


def _panels(tensor: Tensor, rows: int, width: int) -> TmaDescriptor:
    return padded_descriptor(tensor, rows, panel(width))
