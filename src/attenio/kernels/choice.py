"""What ``attention()`` would choose for a call, in the planner's words: on this CPU, or on a GPU."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from attenio.elements import ElementType
from attenio.errors import InvalidInput, MissingExtra
from attenio.granularity import FREE_TILES, Granularity
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.stacking import can_stack, stacked
from attenio.kernels.cpu.compiled_rows import can_compile
from attenio.kernels.cpu.few_rows import TILE
from attenio.kernels.cpu.host import host_machine, private_boundary
from attenio.kernels.cpu.library import Library, Sizes, library_first, library_seconds, library_tiles, tiles_seconds
from attenio.kernels.cpu.tiling import PRODUCT_KEYS, Tiling, tiling_of
from attenio.kernels.gpu.capability import gpu_at, gpu_named, is_hopper
from attenio.machine import Machine, MemoryLevel
from attenio.planning import Dataflow
from attenio.planning.plan import Tiles

LIBRARY = "PyTorch's own scaled_dot_product_attention"

_READ_ONCE = "rows are few, so keys are read once whatever the tiles; runs are as long as workers have keys to share"
_WIDE_PRODUCTS = (
    f"a product reaches its rate with {PRODUCT_KEYS} keys at once; these are the most rows that fit beside them"
)
_POWERS = "a kernel keeps outputs and scores in fp32 and whole powers of two; of such tiles that fit these move least"
_GROUPS = (
    "each group of four warps has 64 rows, their outputs and scores in fp32, and keys on their way take room as well;"
    " of the tiles that fit so these take the least time"
)
_TYPES = {torch.float16: ElementType.FP16, torch.bfloat16: ElementType.BF16}


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Dataflow and tiles as they run, the fast memory that they were chosen for, and the type of a word in it; what the
    kernel is written in and how it is set, and why tiles that move fewer words are not taken."""

    dataflow: Dataflow
    tiles: Tiles
    language: str
    kernel: Any
    why: str
    level: MemoryLevel
    dtype: ElementType
    workers: str
    machine_name: str
    granularity: Granularity = FREE_TILES


def choice_for(problem: KernelProblem, machine: str | Machine | None, sizes: Sizes | None = None) -> Choice:
    """For the device of the tensors, or for a machine of the catalogue with SMs, which need not be here.

    ``sizes`` are those by which a CPU's call may go to PyTorch's own attention.
    """
    if machine is None and problem.query.device.type != "cuda":
        return _on_cpu(problem, sizes)
    return _on_gpu(problem, gpu_at(problem.query.device) if machine is None else gpu_named(machine))


def _on_cpu(problem: KernelProblem, sizes: Sizes | None) -> Choice:
    stacks, level = can_stack(problem), private_boundary(host_machine()).fast
    tiling = tiling_of(stacked(problem) if stacks else problem)
    dataflow, tiles = _cpu_plan(problem, tiling, stacks=stacks)
    workers = f"{torch.get_num_threads()} threads"
    if sizes is not None and library_first(sizes):
        rows, keys = library_tiles(problem.queries, problem.keys)
        tiles = Tiles.of(query_tile=min(rows, tiling.query_tile), key_tile=min(keys, tiling.key_tile))
        return Choice(
            dataflow=Dataflow.ATTENIO, tiles=tiles, language=LIBRARY, level=level,
            kernel=Library(is_fused=sizes.fuses), dtype=ElementType.FP32,
            why=f"expected to take {library_seconds(sizes) * 1e6:,.0f} us by PyTorch's own attention and"
            f" {tiles_seconds(sizes) * 1e6:,.0f} us by tiles of products called from Python",
            workers=workers, machine_name="this machine",
        )  # fmt: skip
    return Choice(
        dataflow=dataflow, tiles=tiles, language="PyTorch", kernel=tiling, level=level, dtype=ElementType.FP32,
        why=_READ_ONCE if tiling.has_few_rows else _WIDE_PRODUCTS, workers=workers, machine_name="this machine",
    )  # fmt: skip


def _cpu_plan(problem: KernelProblem, tiling: Tiling, *, stacks: bool) -> tuple[Dataflow, Tiles]:
    """The planner's name for what runs, and its tiles."""
    positions, keys = tiling.query_tile, tiling.key_tile
    if tiling.has_few_rows:  # the product passes over more keys than fit; what it holds of them at a time does fit
        d, width = problem.query.shape[-1], problem.value.shape[-1]
        words, rows = (private_boundary(host_machine()).fast.capacity_bytes or 0) // 4, positions * problem.group
        keys = max(1, min(keys, (words - rows * (d + width + 3)) // (rows + max(d, width))))
        if can_compile(problem, problem.keys) and problem.visible.is_whole(problem.everything):
            keys = min(keys, TILE)
    if stacks:
        return Dataflow.STACKED_GROUPS, Tiles.of(query_tile=positions, head_tile=problem.group, key_tile=keys)
    if tiling.has_few_rows and problem.keys > 1:
        units = -(-problem.batch * problem.kv_heads // tiling.units_at_once)
        splits = -(-torch.get_num_threads() // units)
        tiles = {"query_tile": positions, "head_tile": problem.group, "key_tile": keys}
        return Dataflow.SPLIT_KEYS, Tiles.of(**tiles, keys_per_split=max(keys, -(-problem.keys // splits)))
    if problem.group > 1:
        return Dataflow.STACKED_GROUPS, Tiles.of(query_tile=positions, head_tile=problem.group, key_tile=keys)
    return Dataflow.ATTENIO, Tiles.of(query_tile=positions, key_tile=keys)


def _on_gpu(problem: KernelProblem, machine: Machine) -> Choice:
    try:
        from attenio.kernels.triton.tiles import forward_tiles, splits_for
    except ImportError:
        raise MissingExtra("explaining what runs on a GPU", "triton") from None
    level = machine.levels[0]
    stacks = can_stack(problem)
    run = stacked(problem) if stacks else problem
    hopper = None if stacks else _on_hopper(run, machine)
    if hopper is not None:
        return hopper
    kernel = forward_tiles(run, splits_keys=True if stacks else None, processors=level.units)[0]
    positions = max(1, min(run.queries, kernel.row_tile // kernel.pack))
    key_tile = min(kernel.key_tile, run.keys)
    grouped = {"query_tile": positions, "head_tile": problem.group, "key_tile": key_tile}
    if stacks:
        dataflow, tiles = Dataflow.STACKED_GROUPS, Tiles.of(**grouped)
    elif kernel.splits_keys:
        units = run.batch * run.kv_heads * -(-run.group * run.queries // kernel.row_tile)
        length, _ = splits_for(run, kernel, units, run.keys, processors=level.units)
        dataflow, tiles = Dataflow.SPLIT_KEYS, Tiles.of(**grouped, keys_per_split=min(length, run.keys))
    else:
        dataflow, tiles = Dataflow.ATTENIO, Tiles.of(query_tile=positions, key_tile=key_tile)
    return _chosen(problem, machine, dataflow, tiles, ("Triton", kernel, _READ_ONCE if kernel.splits_keys else _POWERS))


def _chosen(
    problem: KernelProblem, machine: Machine, dataflow: Dataflow, tiles: Tiles, kernel: tuple[str, Any, str]
) -> Choice:
    level, (language, settings, why) = machine.levels[0], kernel
    dtype = _TYPES.get(problem.query.dtype, ElementType.FP32)
    return Choice(
        dataflow=dataflow, tiles=tiles, language=language, kernel=settings, why=why, level=level,
        workers=f"{level.units} SMs", dtype=dtype, machine_name=machine.name,
        granularity=machine.granularity_of(dtype),
    )  # fmt: skip


def _on_hopper(problem: KernelProblem, machine: Machine) -> Choice | None:
    """What one of the Hopper kernels does where it is the one that runs, or None."""
    if not is_hopper(machine):
        return None
    from attenio.kernels.gpu.arguments import widths_of
    from attenio.kernels.hopper import decode, forward

    queries, keys, group = problem.queries, problem.keys, problem.group
    if decode.supports(problem):
        few = decode.decode_tiles(group * queries, *widths_of(problem)[2:])
        length, _ = decode.splits_for(few, problem.batch * problem.kv_heads, keys, machine.levels[0].units)
        tiles = Tiles.of(
            query_tile=queries, head_tile=group, key_tile=min(few.key_tile, keys), keys_per_split=min(length, keys)
        )
        return _chosen(problem, machine, Dataflow.SPLIT_KEYS, tiles, ("Gluon", few, _READ_ONCE))
    if forward.supports(problem):
        found = forward.planned(problem)
        tiles = Tiles.of(query_tile=min(queries, found.row_tile), key_tile=min(keys, found.key_tile))
        return _chosen(problem, machine, Dataflow.ATTENIO, tiles, ("Gluon", found, _GROUPS))
    return None


def backend_of(tensor: Tensor) -> ModuleType:
    """A module with ``attend`` and ``gradients``."""
    if tensor.device.type == "cpu":
        from attenio.kernels import cpu

        return cpu
    if tensor.dtype == torch.float64:
        raise InvalidInput("attention in float64 runs on the CPU only; move the tensors there, or use float32")
    try:
        from attenio.kernels import triton
    except ImportError:
        raise MissingExtra("attention on a GPU", "triton") from None
    if is_hopper(tensor.device):
        from attenio.kernels import hopper

        return hopper
    return triton


def features_of(tensor: Tensor) -> ModuleType:
    """A module with ``promise_for``, ``approximate_operations`` and ``attend_by_features``."""
    if tensor.device.type == "cpu":
        from attenio.kernels.cpu import features

        return features
    if tensor.dtype == torch.float64:
        raise InvalidInput("use exact: features on a GPU are summed in float32")
    try:
        from attenio.kernels.triton import feature_function
    except ImportError:
        raise MissingExtra("attention on a GPU", "triton") from None
    return feature_function
