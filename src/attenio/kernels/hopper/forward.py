"""The forward pass on Hopper: which problems it takes, and with which tiles and lists they run."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache, partial

import torch
from torch import Tensor

from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.band import FAR
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper import gluon_attenio as gluon
from attenio.kernels.hopper import standing_in
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda.driver import loads_while_capturing
from attenio.kernels.hopper.cuda.proving import can_compile, is_known, is_proven
from attenio.kernels.hopper.cuda.tiles import CudaTiles
from attenio.kernels.hopper.descriptors import ELEMENTS
from attenio.kernels.hopper.kind import ForwardKind, cache_bytes
from attenio.kernels.hopper.proving import forward_by_definition, is_right, small_problem
from attenio.kernels.hopper.ranking import Extent, extent_of, ordered_tiles, ranked_tiles
from attenio.kernels.hopper.schedule import LaunchPlan, key_tiles, paced_schedule, schedule
from attenio.kernels.hopper.tiles import (
    ROWS,
    WIDE_TILES,
    WIDE_WIDTHS,
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
# So many programs at one head read its keys from memory once, more or less: heads of a run need not fit in L2 then, and
# programs of a long run end nearer together (measured: 7 percent at 11 causal heads of 16K x 192, all in one run).
_WALK_TOGETHER = 12
# The share of L2 that keys and values of a run of heads may take, beside queries and outputs that pass. With half of it
# causal heads of 197 to 512 tokens took 2 to 8 percent longer than with a tenth: the keys of a head were gone when its
# next row tile came. From 1K tokens on it makes no difference. One after the other all tiles of a head begin together:
# with other tiles too, causal heads of up to 256 tokens take 1 to 13 percent less (run 53, ``studies/hopper``).
_OF_HEADS, _OF_SHORT_HEADS, _SHORT_TILES = 0.5, 0.1, 8


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
    if _captures(query.device) and ForwardKind.of(problem) not in _settled:
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
    settled = _settled.get(kind)
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
    waits = _captures(kind.device) or not may_stand_in(deterministic=problem.deterministic)
    if waits or not standing_in.compiles_for(kind.device):
        return candidates(kind)[0], None
    best = candidates(kind, tries=False)[0]
    if best != WIDE_TILES and not standing_in.is_compiled(problem, kind, best, to_be_tried=not _is_known(best, kind)):
        ordered = ordered_tiles(*kind.columns, *_ranked_for(kind), cuda=_takes_cuda(kind))
        other = standing_in.compiled_of(ordered, problem, kind, partial(_is_known, kind=kind))
        if other is not None:
            return other, best
        by_nvrtc = (tiles for tiles in ordered if isinstance(tiles, CudaTiles))
        sooner = next((standing_in.with_masks(kind, tiles) or tiles for tiles in by_nvrtc), None)
        if isinstance(best, GluonTiles) and isinstance(sooner, CudaTiles) and _cuda_is_proven(sooner, kind):
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
    if _captures(kind.device):
        awaited.wait()
        is_usable = not awaited.has_failed and _is_known(better, kind)
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
    before, plan = _settled.get(kind), _planned(kind, choice)
    captures = _captures(device)
    if captures:
        _captured[kind, plan.entries.data_ptr()] = plan
    is_new = before is None or before.tiles != plan.tiles
    with loads_while_capturing() if captures and is_new else nullcontext():
        _launch(problem, attended, plan)
    if choice.awaited is not None:
        _await(problem, kind, plan, choice.awaited)
    return attended


def _planned(kind: ForwardKind, choice: Choice) -> LaunchPlan:
    """The plan of a choice, which is settled unless it stands in for another."""
    plan = _settled.get(kind)
    awaited = None if plan is None else plan.awaited
    if plan is not None and plan.tiles == choice.kernel and (awaited is None or choice.awaited is not None):
        return plan
    is_made = awaited is not None and awaited.better.tiles == choice.kernel
    plan = awaited.better if awaited is not None and is_made else _plan(kind, choice.kernel)
    if choice.awaited is None:
        _settle(kind, plan)
    return plan


def _await(problem: KernelProblem, kind: ForwardKind, plan: LaunchPlan, tiles: HopperTiles) -> None:
    """After a launch: compile what it stands in for, unless that was begun.

    Its plan is made here, too: while a CUDA graph is captured it could not be.
    """
    awaited = plan.awaited
    if awaited is None:
        better = _plan(kind, tiles)
        begun = standing_in.begin_compiling(problem, kind, better, to_be_tried=not _is_known(tiles, kind))
        awaited = Awaited(better, begun)
        _settle(kind, plan._replace(awaited=awaited))
    if not awaited.has_failed:
        note_stand_in()


def run(problem: KernelProblem, attended: Attended, tiles: HopperTiles) -> None:
    """Attention with these tiles, whichever are the best."""
    _launch(problem, attended, _plan(ForwardKind.of(problem), tiles))


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


# Plans of the kinds that have run, the older half of which is forgotten when they are many, and of those that a CUDA
# graph was captured with: a graph holds addresses only, and what it reads must stay, though the kind has another since.
_settled: dict[ForwardKind, LaunchPlan] = {}
_captured: dict[tuple[ForwardKind, int], LaunchPlan] = {}
_MOST_SETTLED = 512
# Those of stand-ins that others have taken the place of.
_left: list[LaunchPlan] = []


def _settle(kind: ForwardKind, plan: LaunchPlan) -> None:
    if kind in _settled:
        _left.append(_settled[kind])
    if max(len(_settled), len(_left)) >= _MOST_SETTLED and not _captures(kind.device):
        if kind.device.type == "cuda":
            torch.cuda.synchronize(kind.device)  # launches of other streams may still read them
        _left.clear()
        for old in list(_settled)[: _MOST_SETTLED // 2]:
            del _settled[old]
    _settled[kind] = plan


def _launch(problem: KernelProblem, attended: Attended, plan: LaunchPlan) -> None:
    if isinstance(plan.tiles, CudaTiles):
        return cuda.launch_attenio(problem, attended, plan.tiles, plan)
    assert isinstance(plan.tiles, GluonTiles)
    return gluon.launch_attenio(problem, attended, plan.tiles, plan)


@lru_cache(maxsize=64)
def _plan(kind: ForwardKind, tiles: HopperTiles) -> LaunchPlan:
    """Schedule of a kind, kept on its device."""
    programs = tiles.programs(processors_of(kind.device))
    pace = kind.pace_of(tiles)
    if pace:
        rows, length = -(-kind.queries // tiles.row_tile), kind.keys // tiles.key_tile
        lists = paced_schedule(rows, length, kind.batch_heads, programs=programs, pace=pace)
    else:
        lengths = key_tiles(
            kind.queries, kind.keys, kind.band, row_tile=tiles.row_tile, key_tile=tiles.key_tile,
            missing=tiles.missing_rows(kind.queries, kind.band),
        )  # fmt: skip
        is_short = len(lengths) <= _SHORT_TILES
        share = _OF_SHORT_HEADS if is_short else _OF_HEADS
        at_once = max(int(share * cache_bytes()) // kind.head_bytes, programs // _WALK_TOGETHER)
        lists = schedule(lengths, kind.batch_heads, programs=programs, heads_at_once=at_once, one_by_one=is_short)
    starts, entries = (torch.from_numpy(x).to(kind.device) for x in (lists.starts, lists.entries))
    columns = tiles.columns(*kind.columns)
    return LaunchPlan(starts, entries, lists.programs, pace, lists.stretches, tiles, columns, kind.band)


def candidates(kind: ForwardKind, processors: int | None = None, *, tries: bool = True) -> Sequence[HopperTiles]:
    """Tiles that may run: for dense heads much larger than L2 those that read them from memory least often.

    Unless this ``tries`` them, they are taken to be right until they are tried.
    """
    (d, width), whole = kind.columns, kind.keys % WIDE_TILES.key_tile == 0
    large = kind.band.is_dense and kind.head_bytes > 2 * cache_bytes() and kind.queries >= WIDE_TILES.row_tile
    wide = large and whole and d == width and d in WIDE_WIDTHS and not kind.capped
    if wide and _wide_is_proven(d, kind, tries=tries):
        return (WIDE_TILES,)
    ranked = _ranked(kind, processors, cuda=_takes_cuda(kind))
    if isinstance(ranked[0], CudaTiles) and not _cuda_is_proven(ranked[0], kind, tries=tries):
        return _ranked(kind, processors, cuda=False)
    return ranked


def _ranked(kind: ForwardKind, processors: int | None, *, cuda: bool) -> Sequence[HopperTiles]:
    ranked = ranked_tiles(*kind.columns, *_ranked_for(kind, processors), cuda=cuda)
    return [standing_in.with_masks(kind, tiles) or tiles for tiles in ranked] if kind.repeats else ranked


def _takes_cuda(kind: ForwardKind) -> bool:
    """The CUDA kernel has neither ranges nor caps, and its programs do not keep pace with each other."""
    can = not (kind.band.packed or kind.capped or (kind.band.is_dense and kind.leaves_cache))
    return can and can_compile(kind.device)


def _ranked_for(kind: ForwardKind, processors: int | None = None) -> tuple[Extent, int]:
    """What tiles are ranked for: an extent, and so many SMs."""
    processors = processors or processors_of(kind.device)
    return extent_of(kind, processors), processors


def _is_known(tiles: HopperTiles, kind: ForwardKind) -> bool:
    """Whether tiles were tried on this device and found right, or need not be tried."""
    if isinstance(tiles, CudaTiles):
        return is_known(_name(tiles, kind), kind.dtype, kind.device)
    return tiles != WIDE_TILES


def _name(tiles: CudaTiles, kind: ForwardKind) -> str:
    blocks = f" of {tiles.cluster} blocks" if tiles.cluster > 1 else ""
    return f"{tiles.consumers} consumers{blocks} and {tiles.key_tile} keys of {kind.d}/{kind.width}"


def _wide_is_proven(d: int, kind: ForwardKind, *, tries: bool = True) -> bool:
    """Whether wide rows have given what the definition gives on this device."""
    lengths = 2 * WIDE_TILES.row_tile, 5 * WIDE_TILES.key_tile
    both = partial(_computed_twice, WIDE_TILES, kind, lengths, masked=False) if tries else None
    return is_right(f"wide rows of {d}", kind.dtype, kind.device, both, instead="tiles of fewer rows")


def _cuda_is_proven(tiles: CudaTiles, kind: ForwardKind, *, tries: bool = True) -> bool:
    """The same of the tiles of the CUDA kernel, on lengths that none of them divides; all rows see a key."""
    lengths = 2 * tiles.row_tile + 40, (2 * tiles.row_tile // tiles.key_tile + 2) * tiles.key_tile + 24

    def both() -> tuple[list[Tensor], list[Tensor]]:
        stored, columns = tiles.columns(*kind.columns), (kind.d, kind.width)
        constants = cuda.constants_of(tiles, stored, columns, kind.band, kind.keys)
        cuda.begin_compiling_attenio(kind.dtype, constants)  # it may be another than the one that is tried
        return _computed_twice(tiles, kind, lengths, masked=True)

    return is_proven(_name(tiles, kind), kind.dtype, kind.device, both if tries else None)


def _computed_twice(
    tiles: HopperTiles, kind: ForwardKind, lengths: tuple[int, int], *, masked: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and log-sum-exps of a small problem by these tiles, and by the definition."""
    trial = small_problem(lengths, (kind.d, kind.width), kind.dtype, kind.device, masked=masked)
    theirs = Attended(*forward_by_definition(trial))
    mine = Attended(*(torch.full_like(part, torch.nan) for part in theirs))
    run(trial, mine, tiles)
    return [mine.output, mine.largest + mine.total.log2()], [theirs.output, theirs.largest + theirs.total.log2()]


def _captures(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())
