"""The forward pass on Hopper: which problems it takes, and with which tiles and lists they run."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.catalogue import machine_named
from attenio.kernels import triton
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.arguments import flops_of, kind_of, scaled
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.gpu.results import Attended
from attenio.kernels.gpu.tuning import tuned
from attenio.kernels.hopper.attenio import attenio_kernel
from attenio.kernels.hopper.attenio_256_rows import attenio_256_rows_kernel
from attenio.kernels.hopper.descriptors import ELEMENTS, aligned, padded_descriptors
from attenio.kernels.hopper.proving import is_right, small_problem
from attenio.kernels.hopper.ranking import Extent, ranked_tiles
from attenio.kernels.hopper.schedule import key_tiles, paced_schedule, schedule
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
from attenio.planning.shared_cache import Grid

_FAR = 2**30
# Programs that walk keys together look at each other every PACE key tiles, and stay LAG such stretches apart at most.
PACE = 32
LAG = 4


def supports(problem: KernelProblem) -> bool:
    """Whether this kernel computes the problem: 16-bit heads that TMA can load, rows enough, ranges of keys only.

    While a CUDA graph is captured, only what has run before: a new schedule could not be copied to the device then.
    """
    seen, query = problem.visible, problem.query
    d, width = query.shape[-1], problem.value.shape[-1]
    ranges_only = seen.bias is None and seen.query_ids is None and seen.blocks is None and problem.dropout is None
    batch_heads = problem.batch * problem.kv_heads * problem.group
    return (
        query.dtype in ELEMENTS
        and all(0 < columns <= WIDTHS[-1] and columns % 8 == 0 for columns in (d, width))
        and bool(hopper_tiles(computed_width(d), computed_width(width)))
        and ranges_only
        and problem.keys > 0
        # Fewer rows than a tile leave some of it empty, but many heads fill the SMs all the same.
        and (batch_heads > 0 if problem.queries >= ROWS else batch_heads >= processors_of(query.device))
        and problem.scale != 0.0
        and not (problem.prefix and can_stack(problem))
        and (not _captures(query.device) or _Kind.of(problem) in _settled)
    )


def attend(problem: KernelProblem) -> Attended:
    """Attention of a problem that ``supports`` accepts."""
    query, kind = problem.query, _Kind.of(problem)
    shape, device = query.shape[:-1], query.device
    output = torch.empty((*shape, kind.width), dtype=query.dtype, device=device)
    largest, total = (torch.empty(shape, dtype=torch.float32, device=device) for _ in range(2))
    attended, plan = Attended(output, largest, total), _settled.get(kind)
    if plan is not None:
        if _captures(device):
            _captured[kind] = plan
        _launch(problem, attended, kind, plan)
        return attended
    ran: list[HopperTiles] = []

    def tried(each: HopperTiles) -> None:
        _launch(problem, attended, kind, _plan(kind, each))
        ran.append(each)

    tuned(kind_of("hopper forward", problem), candidates(kind), tried, device, flops_of(problem))
    _settle(kind, _plan(kind, ran[-1]))
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
    below: int
    above: int
    ranged: bool
    d: int
    width: int
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, problem: KernelProblem) -> "_Kind":
        seen, (batch, kv_heads, group, queries, d) = problem.visible, problem.query.shape
        below, above = max(-_FAR, seen.below), min(_FAR, seen.above)
        return cls(
            batch * kv_heads * group, queries, problem.keys, below, above, seen.first is not None, d,
            problem.value.shape[3], problem.query.dtype, problem.query.device,
        )  # fmt: skip

    @property
    def columns(self) -> tuple[int, int]:
        """Columns of keys and of values that are computed with."""
        return computed_width(self.d), computed_width(self.width)

    @property
    def is_dense(self) -> bool:
        """Whether every score is required."""
        return not self.ranged and self.below <= -_FAR and self.above >= _FAR

    @property
    def head_bytes(self) -> int:
        """Keys and values of one head."""
        return self.keys * int(self.dtype.itemsize) * (self.d + self.width)

    @property
    def leaves_cache(self) -> bool:
        """Whether a head fills more than half of L2, whose two halves hold copies for the SMs near them."""
        return 2 * self.head_bytes > _cache_bytes()


def planned(problem: KernelProblem) -> HopperTiles:
    """The tiles of a problem that ``supports`` accepts: those that have run, or those that the plan puts first."""
    kind = _Kind.of(problem)
    settled = _settled.get(kind)
    return candidates(kind)[0] if settled is None else settled.tiles


def grid_of(problem: KernelProblem) -> Grid:
    """The programs of a problem that ``supports`` accepts, for a prediction of the bytes that they move below L2."""
    kind, tiles = _Kind.of(problem), planned(problem)
    element, programs = int(kind.dtype.itemsize), tiles.blocks * processors_of(kind.device)
    return Grid(
        units=kind.batch_heads,
        rows=kind.queries,
        passing=min(kind.keys, max(1, kind.above - kind.below + 1)),
        tile=tiles.row_tile,
        resident=programs,
        read_bytes=kind.d * element,
        written_bytes=kind.width * element + 8,
        passing_bytes=(kind.d + kind.width) * element,
        sharing=problem.group,
        causal=kind.above < _FAR,
        turns=True,
    )


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


class _Ranges(NamedTuple):
    """First key and the one after the last of every query (batch or 1, queries), and the least and the largest of both
    for every 64 of them (batch or 1, blocks, 4): what a consumer needs to know which key tiles it sees."""

    first: Tensor
    stop: Tensor
    bounds: Tensor

    @classmethod
    def of(cls, problem: KernelProblem, kind: _Kind) -> "_Ranges":
        seen, device = problem.visible, kind.device
        assert seen.first is not None and seen.stop is not None
        at = torch.arange(kind.queries, device=device)
        first = torch.maximum(seen.first.to(device), (at + kind.below).clamp(min=0))
        stop = torch.minimum(seen.stop.to(device), (at + kind.above + 1).clamp(max=kind.keys))
        both = torch.stack((first, stop), 1).to(torch.int32)
        padded = torch.arange(-(-kind.queries // ROWS) * ROWS, device=device).clamp(max=kind.queries - 1)
        low, high = both[:, :, padded].unflatten(2, (-1, ROWS)).aminmax(dim=3)
        bounds = torch.stack((low[:, 0], high[:, 0], low[:, 1], high[:, 1]), 2)
        return cls(both[:, 0].contiguous(), both[:, 1].contiguous(), bounds)


def prepared(problem: KernelProblem) -> Callable[..., tuple[Tensor, Tensor, Tensor]] | None:
    """Attention of queries, keys and values (batch, heads, tokens, width) with the sizes and the band of a problem
    that has run; None where sizes and band are not all there is to it."""
    kind = _Kind.of(problem)
    plan, rows = _settled.get(kind), problem.query.flatten(1, 2).shape[:-1]
    if plan is None or kind.ranged or problem.scale < 0.0:
        return None
    numbers, dtype, device = _Numbers.of(problem, kind, scaled(problem)[1]), kind.dtype, kind.device

    def run(query: Tensor, key: Tensor, value: Tensor, *_numbers: object) -> tuple[Tensor, Tensor, Tensor]:
        output = torch.empty((*rows, kind.width), dtype=dtype, device=device)
        largest = torch.empty(rows, dtype=torch.float32, device=device)
        attended = Attended(output, largest, torch.empty_like(largest))
        _start(plan, numbers, (query, key, value), attended)
        return attended

    return run


class _Numbers(NamedTuple):
    """What a kernel is told of a problem."""

    heads: int
    group: int
    queries: int
    keys: int
    below: int
    above: int
    scale: float

    @classmethod
    def of(cls, problem: KernelProblem, kind: _Kind, scale: float) -> "_Numbers":
        return cls(
            problem.kv_heads * problem.group, problem.group, kind.queries, kind.keys, kind.below, kind.above, scale
        )


def _launch(problem: KernelProblem, attended: Attended, kind: _Kind, plan: _Plan) -> None:
    query, scale = scaled(problem)
    heads = query.flatten(1, 2), problem.key, problem.value
    ranges = _Ranges.of(problem, kind) if kind.ranged else None
    by_heads = attended._replace(output=attended.output.flatten(1, 2))
    _start(plan, _Numbers.of(problem, kind, scale), heads, by_heads, ranges)


def _start(
    plan: _Plan,
    numbers: _Numbers,
    heads: tuple[Tensor, Tensor, Tensor],
    attended: Attended,
    ranges: _Ranges | None = None,
) -> None:
    """Launch a plan for queries, keys and values, by heads as the output is."""
    query, key, value = heads
    tiles, whole = plan.tiles, plan.starts
    progress = torch.zeros(plan.stretches, dtype=torch.int32, device=query.device) if plan.stretches else whole
    d, width = plan.columns
    described = (
        *padded_descriptors(aligned(query), ROWS, d), *padded_descriptors(aligned(key), tiles.key_tile, d),
        *padded_descriptors(aligned(value), tiles.key_tile, width), *padded_descriptors(attended.output, ROWS, width),
    )  # fmt: skip
    given = (attended.largest, attended.total, plan.starts, plan.entries)
    options = CompileOptions(registers=tiles.registers_at_start)
    if tiles.wide:
        arguments: tuple[Any, ...] = (*given, progress, *numbers[:4], numbers.scale)
        return launch(attenio_256_rows_kernel, plan.programs, described[::2], arguments, plan.constants, options)
    seen: tuple[Tensor, ...] = (whole, whole, whole)
    steps = (0, 0)
    if ranges is not None:
        seen = ranges
        steps = (ranges.first.stride(0), ranges.bounds.stride(0)) if ranges.first.shape[0] > 1 else (0, 0)
    arguments = (*given, *seen, progress, *steps, *numbers)
    return launch(attenio_kernel, plan.programs, described, arguments, plan.constants, options)


@lru_cache(maxsize=16)
def _plan(kind: _Kind, tiles: HopperTiles) -> _Plan:
    """Schedule and constants of a kind, kept on its device."""
    programs = tiles.blocks * processors_of(kind.device)
    if kind.is_dense and kind.leaves_cache and kind.keys % tiles.key_tile == 0:
        rows, length = -(-kind.queries // tiles.row_tile), kind.keys // tiles.key_tile
        lists = paced_schedule(rows, length, kind.batch_heads, programs=programs, pace=PACE)
    else:
        lengths = key_tiles(
            kind.queries, kind.keys, kind.below, kind.above, row_tile=tiles.row_tile, key_tile=tiles.key_tile
        )
        at_once = _cache_bytes() // 2 // kind.head_bytes
        lists = schedule(lengths, kind.batch_heads, programs=programs, heads_at_once=at_once)
    starts, entries = (torch.from_numpy(x).to(kind.device) for x in (lists.starts, lists.entries))
    restricted, pace = kind.ranged or kind.below > -_FAR, PACE if lists.stretches else 0
    masked = restricted or kind.above < _FAR or kind.keys % tiles.key_tile != 0
    d, width = kind.columns
    constants: tuple[int, ...] = (
        tiles.consumers, tiles.key_tile, tiles.stages, *side_by_side(d), *side_by_side(width),
        masked, restricted, kind.ranged, tiles.ping_pong, tiles.staged, tiles.held, pace, LAG, tiles.registers,
    )  # fmt: skip
    if tiles.wide:
        constants = (tiles.key_tile, tiles.stages, d, width, pace, LAG, tiles.registers)
    return _Plan(starts, entries, lists.programs, lists.stretches, tiles, kind.columns, constants)


def candidates(kind: _Kind) -> tuple[HopperTiles, ...]:
    """Tiles that may run: for dense heads much larger than L2 those that read them from memory least often."""
    (d, width), whole = kind.columns, kind.keys % WIDE_TILES.key_tile == 0
    large = kind.is_dense and kind.head_bytes > 2 * _cache_bytes() and kind.queries >= WIDE_TILES.row_tile
    wide = large and whole and d == width and d in WIDE_WIDTHS
    if wide and _wide_is_proven(d, kind):
        return (WIDE_TILES,)
    extent = Extent(kind.batch_heads, kind.queries, kind.keys, kind.below, kind.above, masked=not kind.is_dense)
    return ranked_tiles(d, width, extent, processors_of(kind.device))


def _wide_is_proven(d: int, kind: _Kind) -> bool:
    """Whether wide rows have given what the portable kernels give on this device."""

    def both() -> tuple[list[Tensor], list[Tensor]]:
        queries, keys = 2 * WIDE_TILES.row_tile, 5 * WIDE_TILES.key_tile
        trial = small_problem((queries, keys), (d, d), kind.dtype, kind.device, masked=False)
        theirs = triton.attend(trial)
        mine = Attended(*(torch.full_like(part, torch.nan) for part in theirs))
        run(trial, mine, WIDE_TILES)
        return [mine.output, mine.largest + mine.total.log2()], [theirs.output, theirs.largest + theirs.total.log2()]

    return is_right(f"wide rows of {d}", kind.dtype, kind.device, both)


@cache
def _cache_bytes() -> int:
    return machine_named("h200").levels[1].capacity_bytes or 0


def _captures(device: torch.device) -> bool:
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())
