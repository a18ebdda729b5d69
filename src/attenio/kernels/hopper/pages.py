"""Pages on Hopper: which runs that requests share the Gluon kernel computes, and its launch; the rest is Triton's."""

import torch
from torch import Tensor

from attenio.kernels.call.pages.plan import PagedPlan
from attenio.kernels.call.pages.problem import PagedProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.hopper.descriptors import ELEMENTS, TmaDescriptor, is_aligned
from attenio.kernels.hopper.page_runs import gluon_page_runs_kernel
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.kernels.triton import pages
from attenio.kernels.triton.pages import GluonRuns, Items, PageTiles

# Rows of two consumer warpgroups; registers of a thread at the start, and of a consumer's afterwards: where pages are
# small, finding them takes more of those that consumers leave.
_ROWS, _AT_START, _CONSUMER, _WITH_SMALL_PAGES = 128, 168, 240, 232
_PANEL = 64
_TILES = {
    64: PageTiles(rows=_ROWS, keys=128, warps=12, stages=4, gluon=True),
    128: PageTiles(rows=_ROWS, keys=128, warps=12, stages=3, gluon=True),
}


def attend(problem: PagedProblem, plan: PagedPlan | None) -> tuple[Tensor, Tensor]:
    """Outputs (tokens, heads, width) and log-sum-exps (tokens, heads), the natural ones."""
    runs = None if plan is None or why_not(problem) else GluonRuns(_TILES[problem.width], run_items)
    return pages.attend(problem, plan, runs)


def why_not(problem: PagedProblem) -> str | None:
    """Why runs are left to the portable kernel."""
    d, query = int(problem.query.shape[2]), problem.query
    if query.dtype not in ELEMENTS or not problem.key.dtype == problem.value.dtype == query.dtype:
        return "tensor cores take 16-bit heads"
    if d != problem.width or d not in _TILES:
        return "heads of 64 or 128 columns are taken"
    if problem.softcap:
        return "caps are computed by portable kernels"
    if problem.group > _ROWS:
        return f"a block has {_ROWS} rows"
    if problem.page_size not in (16, 32, 64, 128, 256):
        return "a tile of keys is made of whole pages of 16 to 256 tokens, a power of two"
    if not (is_aligned(problem.key) and is_aligned(problem.value) and is_aligned(query)):
        return "TMA cannot load pages that lie so"
    return None


def run_items(problem: PagedProblem, items: Items, tiles: PageTiles, into: tuple[Tensor, Tensor]) -> None:
    """Partial results of the runs among the items."""
    query, table, d = problem.query, problem.placement.table, problem.width
    piece = min(problem.page_size, tiles.keys)
    launch(
        gluon_page_runs_kernel, items.runs * problem.kv_heads,
        (_descriptor(problem.key, piece), _descriptor(problem.value, piece)),
        (query, *into, table, items.items, items.tokens, query.stride(0) // 8, query.stride(1) // 8, table.stride(0),
         problem.kv_heads, problem.key.shape[0], problem.scale * LOG2_E),
        (tiles.keys, tiles.stages, d, problem.page_size, piece, problem.group, True,
         _CONSUMER if tiles.keys <= 2 * piece else _WITH_SMALL_PAGES),
        CompileOptions(registers=_AT_START, overlaps=True),
    )  # fmt: skip


def _descriptor(pool: Tensor, rows: int) -> TmaDescriptor:
    """Of some keys of one head of a page, 64 columns wide."""
    shape, steps = tuple(pool.shape), pool.stride()
    strides = *(step if size > 1 else shape[-1] for size, step in zip(shape[:3], steps, strict=False)), 1
    return TmaDescriptor(pool, torch.Size(shape), strides, (1, rows, 1, _PANEL))
