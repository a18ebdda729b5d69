"""The forward pass on Hopper: which problems it takes, and with which tiles and lists they run."""

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.catalogue import machine_named
from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.arguments import scaled
from attenio.kernels.gpu.band import FAR, Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.attenio import attenio_kernel
from attenio.kernels.hopper.attenio_256_rows import attenio_256_rows_kernel
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda.tiles import cuda_columns
from attenio.kernels.hopper.descriptors import ELEMENTS, aligned, padded_descriptors
from attenio.kernels.hopper.proving import forward_by_definition, is_right, small_problem
from attenio.kernels.hopper.ranges import VisibleKeys
from attenio.kernels.hopper.ranking import Extent, ranked_tiles
from attenio.kernels.hopper.schedule import Lists, key_tiles, paced_schedule, schedule
from attenio.kernels.hopper.tiles import (
    ROWS,
    WIDE_TILES,
    WIDE_WIDTHS,
    WIDTHS,
    HopperTiles,
    computed_width,
    hopper_tiles,
    side_by_side,
)
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.planning import Dataflow, Tiles
from attenio.planning.shared_cache import Grid

_GROUPS = (
    "each consumer warpgroup has 64 rows, their outputs and scores in fp32, and keys on their way take room as well;"
    " of the tiles that fit so these take the least time"
)
# Programs that walk keys together synchronise every PACE key tiles, and are at most LAG such stretches from each other.
PACE = 32
LAG = 4
# So many programs at one head read its keys from memory once, more or less: heads of a run need not fit in L2 then, and
# programs of a long run end nearer together (measured: 7 percent at 11 causal heads of 16K x 192, all in one run).
_WALK_TOGETHER = 12


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
    if _captures(query.device) and _Kind.of(problem) not in _settled:
        return "a CUDA graph is captured, and takes what has run before"
    return None


def supports(problem: KernelProblem) -> bool:
    """Whether this kernel computes the problem."""
    return why_not(problem) is None


def choose(problem: KernelProblem, processors: int | None = None) -> Choice:
    """What runs for a problem that ``supports`` accepts."""
    kind = _Kind.of(problem)
    settled = _settled.get(kind) if processors is None else None
    tiles = candidates(kind, processors)[0] if settled is None else settled.tiles
    return _choice(tiles, kind.queries, kind.keys)


@lru_cache(maxsize=1024)
def _choice(tiles: HopperTiles, queries: int, keys: int) -> Choice:
    return Choice(
        dataflow=Dataflow.ATTENIO,
        tiles=Tiles.of(query_tile=min(queries, tiles.row_tile), key_tile=min(keys, tiles.key_tile)),
        language="CUDA C++" if tiles.cuda else "Gluon",
        name="attenio_256_rows_kernel" if tiles.wide else "attenio_kernel", kernel=tiles, why=_GROUPS,
    )  # fmt: skip


def attend(problem: KernelProblem, choice: Choice | None = None) -> Attended:
    """Attention of a problem that ``supports`` accepts."""
    query, kind = problem.query, _Kind.of(problem)
    shape, device = query.shape[:-1], query.device
    output = torch.empty((*shape, kind.width), dtype=query.dtype, device=device)
    largest, total = (torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2))
    attended, plan = Attended(output, largest, total), _settled.get(kind)
    tiles = (choose(problem) if choice is None else choice).kernel
    if plan is None or plan.tiles != tiles:
        plan = _plan(kind, tiles)
        _settle(kind, plan)
    elif _captures(device):
        _captured[kind] = plan
    _launch(problem, attended, kind, plan)
    return attended


def run(problem: KernelProblem, attended: Attended, tiles: HopperTiles) -> None:
    """Attention with these tiles, whichever are the best."""
    kind = _Kind.of(problem)
    _launch(problem, attended, kind, _plan(kind, tiles))


class _Kind(NamedTuple):
    """What tiles and schedules depend on."""

    batch_heads: int
    queries: int
    keys: int
    band: Band
    d: int
    width: int
    dtype: torch.dtype
    device: torch.device
    capped: bool = False

    @classmethod
    def of(cls, problem: KernelProblem) -> "_Kind":
        batch, kv_heads, group, queries, d = problem.query.shape
        return cls(
            batch * kv_heads * group, queries, problem.keys, Band.of(problem), d, problem.value.shape[3],
            problem.query.dtype, problem.query.device, bool(problem.softcap),
        )  # fmt: skip

    @property
    def columns(self) -> tuple[int, int]:
        """Columns of keys and of values that are computed with."""
        return computed_width(self.d), computed_width(self.width)

    @property
    def head_bytes(self) -> int:
        """Keys and values of one head."""
        return self.keys * int(self.dtype.itemsize) * (self.d + self.width)

    @property
    def leaves_cache(self) -> bool:
        """Whether a head fills more than half of L2, whose two halves hold copies for the SMs near them."""
        return 2 * self.head_bytes > _cache_bytes()


def grid_of(problem: KernelProblem) -> Grid:
    """The programs of a problem that ``supports`` accepts, for a prediction of the bytes that they move below L2."""
    kind, tiles = _Kind.of(problem), choose(problem).kernel
    element, programs = int(kind.dtype.itemsize), tiles.blocks * processors_of(kind.device)
    return Grid(
        units=kind.batch_heads, rows=kind.queries, passing=min(kind.keys, kind.band.width), tile=tiles.row_tile,
        resident=programs, read_bytes=kind.d * element, written_bytes=kind.width * element + 8,
        passing_bytes=(kind.d + kind.width) * element, sharing=problem.group, causal=kind.band.above < FAR, turns=True,
    )  # fmt: skip


class _Plan(NamedTuple):
    """A schedule on a device, and what a launch with it takes besides the tensors."""

    starts: Tensor
    entries: Tensor
    programs: int
    # Stretches of key tiles at which programs keep pace, 0 where they need not.
    stretches: int
    tiles: HopperTiles
    # Columns of keys and of values that are computed with.
    columns: tuple[int, int]
    constants: tuple[int, ...]


# Plans of the kinds that have run, the older half of which is forgotten when they are many, and of those that a CUDA
# graph was captured with: a graph holds addresses only, and what it reads must stay.
_settled: dict[_Kind, _Plan] = {}
_captured: dict[_Kind, _Plan] = {}
_MOST_SETTLED = 512


def _settle(kind: _Kind, plan: _Plan) -> None:
    if len(_settled) >= _MOST_SETTLED:
        if kind.device.type == "cuda":
            torch.cuda.synchronize(kind.device)  # launches of other streams may still read them
        for old in list(_settled)[: _MOST_SETTLED // 2]:
            del _settled[old]
    _settled[kind] = plan


def _launch(problem: KernelProblem, attended: Attended, kind: _Kind, plan: _Plan) -> None:
    """Launch a plan, queries and outputs by heads."""
    if plan.tiles.cuda:
        return cuda.launch(problem, attended, plan.tiles, plan.columns, Lists(plan.starts, plan.entries, plan.programs))
    (query, scale), tiles, whole, (d, width) = scaled(problem), plan.tiles, plan.starts, plan.columns
    progress = torch.zeros(plan.stretches, dtype=torch.int32, device=kind.device) if plan.stretches else whole
    described = (
        *padded_descriptors(aligned(query.flatten(1, 2)), ROWS, d),
        *padded_descriptors(aligned(problem.key), tiles.key_tile, d),
        *padded_descriptors(aligned(problem.value), tiles.key_tile, width),
        *padded_descriptors(attended.output.flatten(1, 2), ROWS, width),
    )  # fmt: skip
    given = (attended.largest, attended.total, plan.starts, plan.entries)
    sizes = (problem.kv_heads * problem.group, problem.group, kind.queries, kind.keys)
    options = CompileOptions(registers=tiles.registers_at_start)
    if tiles.wide:
        arguments: tuple[Any, ...] = (*given, progress, *sizes, scale)
        return launch(attenio_256_rows_kernel, plan.programs, described[::2], arguments, plan.constants, options)
    seen, steps = (whole, whole, whole), (0, 0)
    below, above, packed = kind.band
    if packed:
        seen = ranges = VisibleKeys.of(problem, kind.band)
        steps = (ranges.first.stride(0), ranges.bounds.stride(0)) if ranges.first.shape[0] > 1 else (0, 0)
    sinks = attended.total if problem.sinks is None else problem.sinks.detach().float()
    inner, scale = (scale / LOG2_E / problem.softcap, problem.softcap * LOG2_E) if problem.softcap else (1.0, scale)
    arguments = (*given, *seen, progress, sinks, *steps, *sizes, below, above, scale, inner)
    constants = (*plan.constants, problem.sinks is not None, kind.capped, tiles.shared)
    return launch(attenio_kernel, plan.programs, described, arguments, constants, options)


@lru_cache(maxsize=16)
def _plan(kind: _Kind, tiles: HopperTiles) -> _Plan:
    """Schedule and constants of a kind, kept on its device."""
    programs = tiles.blocks * processors_of(kind.device)
    if kind.band.is_dense and kind.leaves_cache and kind.keys % tiles.key_tile == 0 and not tiles.cuda:
        rows, length = -(-kind.queries // tiles.row_tile), kind.keys // tiles.key_tile
        lists = paced_schedule(rows, length, kind.batch_heads, programs=programs, pace=PACE)
    else:
        lengths = key_tiles(kind.queries, kind.keys, kind.band, row_tile=tiles.row_tile, key_tile=tiles.key_tile)
        at_once = max(_cache_bytes() // 2 // kind.head_bytes, programs // _WALK_TOGETHER)
        lists = schedule(lengths, kind.batch_heads, programs=programs, heads_at_once=at_once)
    starts, entries = (torch.from_numpy(x).to(kind.device) for x in (lists.starts, lists.entries))
    restricted, pace = kind.band.cuts_before, PACE if lists.stretches else 0
    masked = not kind.band.is_dense or kind.keys % tiles.key_tile != 0
    d, width = columns = (cuda_columns(*kind.columns) if tiles.cuda else None) or kind.columns
    constants: tuple[int, ...] = (
        tiles.consumers, tiles.key_tile, tiles.stages, *side_by_side(d), *side_by_side(width),
        masked, restricted, kind.band.packed, tiles.ping_pong, tiles.staged, tiles.held, pace, LAG, tiles.registers,
    )  # fmt: skip
    if tiles.wide:
        constants = (tiles.key_tile, tiles.stages, d, width, pace, LAG, tiles.registers)
    return _Plan(starts, entries, lists.programs, lists.stretches, tiles, columns, constants)


def candidates(kind: _Kind, processors: int | None = None) -> Sequence[HopperTiles]:
    """Tiles that may run: for dense heads much larger than L2 those that read them from memory least often."""
    (d, width), whole = kind.columns, kind.keys % WIDE_TILES.key_tile == 0
    large = kind.band.is_dense and kind.head_bytes > 2 * _cache_bytes() and kind.queries >= WIDE_TILES.row_tile
    wide = large and whole and d == width and d in WIDE_WIDTHS and not kind.capped
    if wide and _wide_is_proven(d, kind):
        return (WIDE_TILES,)
    extent = Extent(kind.batch_heads, kind.queries, kind.keys, kind.band)
    # Programs of the CUDA kernel do not keep pace with each other, and it has neither ranges nor caps.
    takes = not (kind.band.packed or kind.capped or (kind.band.is_dense and kind.leaves_cache))
    takes = takes and cuda.can_compile(kind.device)
    ranked = ranked_tiles(d, width, extent, processors or processors_of(kind.device), cuda=takes)
    if ranked[0].cuda and not _cuda_is_proven(ranked[0], kind):
        return ranked_tiles(d, width, extent, processors or processors_of(kind.device))
    return ranked


def _wide_is_proven(d: int, kind: _Kind) -> bool:
    """Whether wide rows have given what the definition gives on this device."""
    lengths = 2 * WIDE_TILES.row_tile, 5 * WIDE_TILES.key_tile
    both = partial(_computed_twice, WIDE_TILES, kind, lengths, masked=False)
    return is_right(f"wide rows of {d}", kind.dtype, kind.device, both)


def _cuda_is_proven(tiles: HopperTiles, kind: _Kind) -> bool:
    """The same of the tiles of the CUDA kernel, on lengths that none of them divides."""
    lengths = 2 * tiles.row_tile + 40, 5 * tiles.key_tile + 24
    both = partial(_computed_twice, tiles, kind, lengths, masked=True)
    name = f"{tiles.consumers} consumers and {tiles.key_tile} keys of {kind.d}/{kind.width}"
    return cuda.is_proven(name, kind.dtype, kind.device, both)


def _computed_twice(
    tiles: HopperTiles, kind: _Kind, lengths: tuple[int, int], *, masked: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and log-sum-exps of a small problem by these tiles, and by the definition."""
    trial = small_problem(lengths, (kind.d, kind.width), kind.dtype, kind.device, masked=masked)
    theirs = Attended(*forward_by_definition(trial))
    mine = Attended(*(torch.full_like(part, torch.nan) for part in theirs))
    run(trial, mine, tiles)
    return [mine.output, mine.largest + mine.total.log2()], [theirs.output, theirs.largest + theirs.total.log2()]


@cache
def _cache_bytes() -> int:
    return machine_named("h200").levels[1].capacity_bytes or 0


def _captures(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())
