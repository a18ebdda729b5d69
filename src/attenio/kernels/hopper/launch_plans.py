"""Schedules of forward kinds, kept on their devices: those that are settled, and those that CUDA graphs read."""

from functools import lru_cache

import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper import gluon_attenio as gluon
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda.tiles import CudaTiles
from attenio.kernels.hopper.kind import ForwardKind, cache_bytes
from attenio.kernels.hopper.schedule import LaunchPlan, key_tiles, paced_schedule, schedule
from attenio.kernels.hopper.tiles import GluonTiles, HopperTiles

# So many programs at one head read its keys from memory once, more or less: heads of a run need not fit in L2 then, and
# programs of a long run end nearer together (measured: 7 percent at 11 causal heads of 16K x 192, all in one run).
_WALK_TOGETHER = 12
# The share of L2 that keys and values of a run of heads may take, beside queries and outputs that pass. With half of it
# causal heads of 197 to 512 tokens took 2 to 8 percent longer than with a tenth: the keys of a head were gone when its
# next row tile came. From 1K tokens on it makes no difference. One after the other all tiles of a head begin together:
# with other tiles too, causal heads of up to 256 tokens take 1 to 13 percent less (run 53, ``studies/hopper``).
_OF_HEADS, _OF_SHORT_HEADS, _SHORT_TILES = 0.5, 0.1, 8

# Row tiles of packed sequences for each program in a run of heads: the longest come first, and of a short last run they
# began late (5 sequences of 4K tokens in all, 256 columns, 15 heads: 105 us in runs of 11 and 4, 83 in one).
_MANY_TURNS = 16

# Plans of the kinds that have run, the older half of which is forgotten when they are many, and of those that a CUDA
# graph was captured with: a graph holds addresses only, and what it reads must stay, though the kind has another since.
settled: dict[ForwardKind, LaunchPlan] = {}
captured: dict[tuple[ForwardKind, int], LaunchPlan] = {}
MOST_SETTLED = 512
# Those of stand-ins that others have taken the place of.
_left: list[LaunchPlan] = []


def settle(kind: ForwardKind, plan: LaunchPlan) -> None:
    """From now on a kind runs by this plan."""
    if kind in settled:
        _left.append(settled[kind])
    if max(len(settled), len(_left)) >= MOST_SETTLED and not captures(kind.device):
        if kind.device.type == "cuda":
            torch.cuda.synchronize(kind.device)  # launches of other streams may still read them
        _left.clear()
        for old in list(settled)[: MOST_SETTLED // 2]:
            del settled[old]
    settled[kind] = plan


def launch(problem: KernelProblem, attended: Attended, plan: LaunchPlan) -> None:
    """Attention of a problem, by the kernel that its plan is for."""
    if isinstance(plan.tiles, CudaTiles):
        return cuda.launch_attenio(problem, attended, plan.tiles, plan)
    assert isinstance(plan.tiles, GluonTiles)
    return gluon.launch_attenio(problem, attended, plan.tiles, plan)


def _of_equal_runs(heads: int, at_once: int) -> int:
    return -(-heads // -(-heads // at_once))


@lru_cache(maxsize=64)
def plan_of(kind: ForwardKind, tiles: HopperTiles) -> LaunchPlan:
    """Schedule of a kind, kept on its device."""
    programs = tiles.programs(processors_of(kind.device))
    pace, at_once = kind.pace_of(tiles), 1
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
        if kind.band.packed:
            at_once = _of_equal_runs(kind.batch_heads, max(at_once, -(-_MANY_TURNS * programs // len(lengths))))
        lists = schedule(lengths, kind.batch_heads, programs=programs, heads_at_once=at_once, one_by_one=is_short)
    starts, entries = (torch.from_numpy(x).to(kind.device) for x in (lists.starts, lists.entries))
    columns = tiles.columns(*kind.columns)
    together = max(1, min(at_once, kind.batch_heads))
    return LaunchPlan(starts, entries, lists.programs, pace, lists.stretches, tiles, columns, kind.band, together)


def run(problem: KernelProblem, attended: Attended, tiles: HopperTiles) -> None:
    """Attention with these tiles, whichever are the best."""
    launch(problem, attended, plan_of(ForwardKind.of(problem), tiles))


def captures(device: torch.device) -> bool:
    """Whether a CUDA graph is captured on the present stream."""
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())
