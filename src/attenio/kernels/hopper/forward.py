"""The forward pass on Hopper: which problems it takes, and with which tiles and lists they run."""

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.catalogue import machine_named
from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.band import FAR, Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper import gluon_attenio as gluon
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda.proving import can_compile, is_proven
from attenio.kernels.hopper.cuda.tiles import CudaTiles
from attenio.kernels.hopper.descriptors import ELEMENTS
from attenio.kernels.hopper.proving import forward_by_definition, is_right, small_problem
from attenio.kernels.hopper.ranking import Extent, ranked_tiles
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
from attenio.planning import Dataflow, Tiles
from attenio.planning.shared_cache import Grid

_GROUPS = (
    "each consumer warpgroup has 64 rows, their outputs and scores in fp32, and keys on their way take room as well;"
    " of the tiles that fit so these take the least time"
)
# Programs that walk keys together synchronise every PACE key tiles.
PACE = 32
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
        language=tiles.language,
        name=tiles.kernel_name,
        kernel=tiles,
        why=_GROUPS,
    )


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
    _launch(problem, attended, plan)
    return attended


def run(problem: KernelProblem, attended: Attended, tiles: HopperTiles) -> None:
    """Attention with these tiles, whichever are the best."""
    kind = _Kind.of(problem)
    _launch(problem, attended, _plan(kind, tiles))


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


# Plans of the kinds that have run, the older half of which is forgotten when they are many, and of those that a CUDA
# graph was captured with: a graph holds addresses only, and what it reads must stay.
_settled: dict[_Kind, LaunchPlan] = {}
_captured: dict[_Kind, LaunchPlan] = {}
_MOST_SETTLED = 512


def _settle(kind: _Kind, plan: LaunchPlan) -> None:
    if len(_settled) >= _MOST_SETTLED:
        if kind.device.type == "cuda":
            torch.cuda.synchronize(kind.device)  # launches of other streams may still read them
        for old in list(_settled)[: _MOST_SETTLED // 2]:
            del _settled[old]
    _settled[kind] = plan


def _launch(problem: KernelProblem, attended: Attended, plan: LaunchPlan) -> None:
    if isinstance(plan.tiles, CudaTiles):
        return cuda.launch_attenio(problem, attended, plan.tiles, plan)
    assert isinstance(plan.tiles, GluonTiles)
    return gluon.launch_attenio(problem, attended, plan.tiles, plan)


@lru_cache(maxsize=16)
def _plan(kind: _Kind, tiles: HopperTiles) -> LaunchPlan:
    """Schedule of a kind, kept on its device."""
    programs = tiles.blocks * processors_of(kind.device)
    if tiles.keeps_pace and kind.band.is_dense and kind.leaves_cache and kind.keys % tiles.key_tile == 0:
        rows, length = -(-kind.queries // tiles.row_tile), kind.keys // tiles.key_tile
        lists, pace = paced_schedule(rows, length, kind.batch_heads, programs=programs, pace=PACE), PACE
    else:
        lengths = key_tiles(
            kind.queries, kind.keys, kind.band, row_tile=tiles.row_tile, key_tile=tiles.key_tile,
            missing=tiles.missing_rows(kind.queries, kind.band),
        )  # fmt: skip
        at_once = max(_cache_bytes() // 2 // kind.head_bytes, programs // _WALK_TOGETHER)
        lists, pace = schedule(lengths, kind.batch_heads, programs=programs, heads_at_once=at_once), 0
    starts, entries = (torch.from_numpy(x).to(kind.device) for x in (lists.starts, lists.entries))
    columns = tiles.columns(*kind.columns)
    return LaunchPlan(starts, entries, lists.programs, pace, lists.stretches, tiles, columns, kind.band)


def candidates(kind: _Kind, processors: int | None = None) -> Sequence[HopperTiles]:
    """Tiles that may run: for dense heads much larger than L2 those that read them from memory least often."""
    (d, width), whole = kind.columns, kind.keys % WIDE_TILES.key_tile == 0
    large = kind.band.is_dense and kind.head_bytes > 2 * _cache_bytes() and kind.queries >= WIDE_TILES.row_tile
    wide = large and whole and d == width and d in WIDE_WIDTHS and not kind.capped
    if wide and _wide_is_proven(d, kind):
        return (WIDE_TILES,)
    extent = Extent(kind.batch_heads, kind.queries, kind.keys, kind.band)
    # The CUDA kernel has neither ranges nor caps, and its programs do not keep pace with each other.
    takes = not (kind.band.packed or kind.capped or (kind.band.is_dense and kind.leaves_cache))
    takes = takes and can_compile(kind.device)
    ranked = ranked_tiles(d, width, extent, processors or processors_of(kind.device), cuda=takes)
    if isinstance(ranked[0], CudaTiles) and not _cuda_is_proven(ranked[0], kind):
        return ranked_tiles(d, width, extent, processors or processors_of(kind.device))
    return ranked


def _wide_is_proven(d: int, kind: _Kind) -> bool:
    """Whether wide rows have given what the definition gives on this device."""
    lengths = 2 * WIDE_TILES.row_tile, 5 * WIDE_TILES.key_tile
    both = partial(_computed_twice, WIDE_TILES, kind, lengths, masked=False)
    return is_right(f"wide rows of {d}", kind.dtype, kind.device, both, instead="tiles of fewer rows")


def _cuda_is_proven(tiles: CudaTiles, kind: _Kind) -> bool:
    """The same of the tiles of the CUDA kernel, on lengths that none of them divides; all rows see a key."""
    lengths = 2 * tiles.row_tile + 40, (2 * tiles.row_tile // tiles.key_tile + 2) * tiles.key_tile + 24

    def both() -> tuple[list[Tensor], list[Tensor]]:
        stored, columns = tiles.columns(*kind.columns), (kind.d, kind.width)
        constants = cuda.constants_of(tiles, stored, columns, kind.band, kind.keys)
        cuda.begin_compiling_attenio(kind.dtype, constants)  # it may be another than the one that is tried
        return _computed_twice(tiles, kind, lengths, masked=True)

    name = f"{tiles.consumers} consumers and {tiles.key_tile} keys of {kind.d}/{kind.width}"
    return is_proven(name, kind.dtype, kind.device, both)


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
