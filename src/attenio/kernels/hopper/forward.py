"""The forward pass on Hopper: which problems it takes, and with which tiles and lists they run."""

from contextlib import nullcontext
from functools import lru_cache, partial

import torch

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.band import FAR
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper import launch_plans, standing_in
from attenio.kernels.hopper.candidates import candidates, cuda_is_proven, is_tried, ranked_for, takes_cuda
from attenio.kernels.hopper.cuda.driver import loads_while_capturing
from attenio.kernels.hopper.cuda.tiles import CudaTiles
from attenio.kernels.hopper.descriptors import ELEMENTS
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.ranking import ordered_tiles
from attenio.kernels.hopper.schedule import LaunchPlan
from attenio.kernels.hopper.tiles import (
    ROWS,
    WIDE_TILES,
    WIDTHS,
    GluonTiles,
    HopperTiles,
    computed_width,
    hopper_tiles,
)
from attenio.kernels.replay.standing_in import Awaited, may_stand_in, note_stand_in, waiting
from attenio.planning import Dataflow, Tiles
from attenio.planning.shared_cache import Grid

_GROUPS = (
    "each consumer warpgroup has 64 rows, their outputs and scores in fp32, and keys on their way take room as well;"
    " of the tiles that fit so these take the least time"
)


def why_not(problem: KernelProblem, processors: int | None = None) -> str | None:
    """Why this kernel does not compute a problem: it takes 16-bit heads that TMA can load, rows enough, and ranges.

    While a CUDA graph is captured, only what has run before: a new schedule could not be copied to the device then.
    """
    seen, query = problem.visible, problem.query
    widths = query.shape[-1], problem.value.shape[-1]
    if query.dtype not in ELEMENTS:
        return "tensor cores take 16-bit heads"
    if not all(0 < columns <= WIDTHS[-1] and columns % 8 == 0 for columns in widths):
        return f"TMA loads heads of up to {WIDTHS[-1]} columns, a multiple of 8"
    if not hopper_tiles(*map(computed_width, widths)):
        return "no tiles of such heads fit an SM"
    if not (seen.bias is None and seen.query_ids is None and seen.blocks is None and problem.dropout is None):
        return "masks, ids, blocks and dropout are computed by portable kernels"
    batch_heads = problem.batch * problem.kv_heads * problem.group
    if problem.scale == 0.0 or not (problem.keys and batch_heads):
        return "there are no scores"
    # Fewer rows than a tile leave some of it empty, but many heads fill the SMs all the same.
    if problem.queries < ROWS and batch_heads < (processors or processors_of(query.device)):
        return f"there are fewer than {ROWS} rows, and fewer heads than SMs"
    if problem.prefix and can_stack(problem):
        return "a shared prefix is computed for all requests at once"
    if launch_plans.captures(query.device) and ForwardKind.of(problem) not in launch_plans.settled:
        return "a CUDA graph is captured, and takes what has run before"
    return None


def supports(problem: KernelProblem) -> bool:
    """Whether this kernel computes the problem."""
    return why_not(problem) is None


def choose(problem: KernelProblem, processors: int | None = None) -> Choice:
    """What runs for a problem that ``supports`` accepts; here that may be what stands in for it."""
    kind = ForwardKind.of(problem)
    if processors is not None:
        return _choice(candidates(kind, processors)[0], kind.queries, kind.keys)
    settled = launch_plans.settled.get(kind)
    if settled is None:
        tiles, awaited = _first_tiles(problem, kind)
    elif settled.awaited is None:
        tiles, awaited = settled.tiles, None
    else:
        tiles, awaited = _tiles_meanwhile(problem, kind, settled, settled.awaited)
    return _choice(tiles, kind.queries, kind.keys, awaited)


def _first_tiles(problem: KernelProblem, kind: ForwardKind) -> tuple[HopperTiles, HopperTiles | None]:
    """Tiles that run for a kind that has not run yet, and those that they stand in for.

    Where nothing is compiled that could, tiles with masks are compiled first: they can for every other length. NVRTC
    takes a third of the time that Triton does.
    """
    waits = launch_plans.captures(kind.device) or not may_stand_in(deterministic=problem.deterministic)
    if waits or not standing_in.compiles_for(kind.device):
        return candidates(kind)[0], None
    best = candidates(kind, tries=False)[0]
    if best != WIDE_TILES and not standing_in.is_compiled(problem, kind, best, to_be_tried=not is_tried(best, kind)):
        ordered = ordered_tiles(*kind.columns, *ranked_for(kind), cuda=takes_cuda(kind))
        other = standing_in.compiled_of(ordered, problem, kind, partial(is_tried, kind=kind))
        if other is not None:
            return other, best
        by_nvrtc = (tiles for tiles in ordered if isinstance(tiles, CudaTiles))
        sooner = next((standing_in.with_masks(kind, tiles) or tiles for tiles in by_nvrtc), None)
        if isinstance(best, GluonTiles) and isinstance(sooner, CudaTiles) and cuda_is_proven(sooner, kind):
            return sooner, best
        masked = standing_in.with_masks(kind, best)
        if masked is not None and candidates(kind)[0] == best:
            return masked, best
    return candidates(kind)[0], None


def _tiles_meanwhile(
    problem: KernelProblem, kind: ForwardKind, settled: LaunchPlan, awaited: Awaited
) -> tuple[HopperTiles, HopperTiles | None]:
    """The same for a kind that a stand-in has computed.

    While a CUDA graph is captured nothing is tried: tiles that are not known to be right leave it to the stand-in.
    """
    better: HopperTiles = awaited.better.tiles
    if launch_plans.captures(kind.device):
        awaited.wait()
        is_usable = not awaited.has_failed and is_tried(better, kind)
        return (better, None) if is_usable else (settled.tiles, better)
    if may_stand_in(deterministic=problem.deterministic) and not awaited.is_ready:
        return settled.tiles, better
    awaited.wait()
    return candidates(kind)[0], None


@lru_cache(maxsize=1024)
def _choice(tiles: HopperTiles, queries: int, keys: int, awaited: HopperTiles | None = None) -> Choice:
    return Choice(
        dataflow=Dataflow.ATTENIO,
        tiles=Tiles.of(query_tile=min(queries, tiles.row_tile), key_tile=min(keys, tiles.key_tile)),
        language=tiles.language,
        name=tiles.kernel_name,
        kernel=tiles,
        why=_GROUPS,
        awaited=awaited,
    )


def attend(problem: KernelProblem, choice: Choice | None = None) -> Attended:
    """Attention of a problem that ``supports`` accepts."""
    query, kind = problem.query, ForwardKind.of(problem)
    shape, device = query.shape[:-1], query.device
    output = torch.empty((*shape, kind.width), dtype=query.dtype, device=device)
    largest, total = (torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2))
    attended, choice = Attended(output, largest, total), choose(problem) if choice is None else choice
    before, plan = launch_plans.settled.get(kind), _planned(kind, choice)
    captures = launch_plans.captures(device)
    if captures:
        launch_plans.captured[kind, plan.entries.data_ptr()] = plan
    is_new = before is None or before.tiles != plan.tiles
    with loads_while_capturing() if captures and is_new else nullcontext():
        launch_plans.launch(problem, attended, plan)
    if choice.awaited is not None:
        _await(problem, kind, plan, choice.awaited)
    return attended


def _planned(kind: ForwardKind, choice: Choice) -> LaunchPlan:
    """The plan of a choice, which is settled unless it stands in for another."""
    plan = launch_plans.settled.get(kind)
    awaited = None if plan is None else plan.awaited
    if plan is not None and plan.tiles == choice.kernel and (awaited is None or choice.awaited is not None):
        return plan
    is_made = awaited is not None and awaited.better.tiles == choice.kernel
    plan = awaited.better if awaited is not None and is_made else launch_plans.plan_of(kind, choice.kernel)
    if choice.awaited is None:
        launch_plans.settle(kind, plan)
    return plan


def _await(problem: KernelProblem, kind: ForwardKind, plan: LaunchPlan, tiles: HopperTiles) -> None:
    """After a launch: compile what it stands in for, unless that was begun.

    Its plan is made here, too: while a CUDA graph is captured it could not be.
    """
    awaited = plan.awaited
    if awaited is None:
        better = launch_plans.plan_of(kind, tiles)
        begun = standing_in.begin_compiling(problem, kind, better, to_be_tried=not is_tried(tiles, kind))
        awaited = Awaited(better, begun)
        launch_plans.settle(kind, plan._replace(awaited=awaited))
    if not awaited.has_failed:
        note_stand_in()


def grid_of(problem: KernelProblem) -> Grid:
    """The programs of a problem that ``supports`` accepts, for a prediction of the bytes that they move below L2."""
    with waiting():
        kind, tiles = ForwardKind.of(problem), choose(problem).kernel
    element, programs = int(kind.dtype.itemsize), tiles.programs(processors_of(kind.device))
    return Grid(
        units=kind.batch_heads, rows=kind.queries, passing=min(kind.keys, kind.band.width), tile=tiles.row_tile,
        resident=programs, read_bytes=kind.d * element, written_bytes=kind.width * element + 8,
        passing_bytes=(kind.d + kind.width) * element, sharing=problem.group, causal=kind.band.above < FAR, turns=True,
    )  # fmt: skip
