"""Pages on Hopper: which of them the Gluon kernels read, those that requests share and those of single requests, and
their launches; the rest is Triton's."""

import torch
from torch import Tensor

from attenio.kernels.call.pages.plan import PagedPlan
from attenio.kernels.call.pages.problem import FAR, PagedProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.gpu.counters import counters
from attenio.kernels.hopper.decode import DecodeTiles, splits_for
from attenio.kernels.hopper.descriptors import ELEMENTS, TmaDescriptor, is_aligned
from attenio.kernels.hopper.page_runs import gluon_page_runs_kernel
from attenio.kernels.hopper.split_pages import split_pages_kernel
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.kernels.triton import pages
from attenio.kernels.triton.pages import GluonApart, GluonRuns, Items, PageTiles

# Rows of two consumer warpgroups; registers of a thread at the start, and of a consumer's afterwards: where pages are
# small, finding them takes more of those that consumers leave.
_ROWS, _AT_START, _CONSUMER, _WITH_SMALL_PAGES = 128, 168, 240, 232
_PANEL = 64
_TILES = {
    64: PageTiles(rows=_ROWS, keys=128, warps=12, stages=4, gluon=True),
    128: PageTiles(rows=_ROWS, keys=128, warps=12, stages=3, gluon=True),
}
# Where every request reads its own pages: three tiles of keys and values in flight, so that two blocks fit an SM. Six
# in flight were slower on an H200, and so were runs for two blocks on every SM.
_APART = DecodeTiles(rows=16, key_tile=64, stages=3, row_warps=1, key_warps=4)
APART_TILES = PageTiles(
    rows=_APART.rows, keys=_APART.key_tile, warps=_APART.key_warps, stages=_APART.stages, gluon=True
)


def attend(problem: PagedProblem, plan: PagedPlan | None) -> tuple[Tensor, Tensor]:
    """Outputs (tokens, heads, width) and log-sum-exps (tokens, heads), the natural ones."""
    runs = None if plan is None or why_not(problem) else GluonRuns(_TILES[problem.width], run_items)
    apart = None if why_not_apart(problem) else GluonApart(APART_TILES, run_apart)
    return pages.attend(problem, plan, runs, apart)


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


def why_not_apart(problem: PagedProblem) -> str | None:
    """Why requests that read their own pages are left to the portable kernel."""
    widths, query = (int(problem.query.shape[2]), problem.width), problem.query
    if query.dtype not in ELEMENTS or not problem.key.dtype == problem.value.dtype == query.dtype:
        return "tensor cores take 16-bit heads"
    if not all(32 <= size <= 256 and size % 8 == 0 for size in widths):
        return "heads of 32 to 256 columns, a multiple of 8, are taken"
    if problem.new != 1 or problem.starts is not None or problem.left < FAR:
        return "one new token that sees all keys is taken"
    if problem.softcap:
        return "caps are computed by portable kernels"
    if problem.group > _APART.rows:
        return f"a block has {_APART.rows} rows"
    if problem.page_size % _APART.key_tile:
        return f"a tile of {_APART.key_tile} keys is a part of one page"
    if not problem.placement.table.shape[1]:
        return "the table has no places"
    if not (is_aligned(problem.key) and is_aligned(problem.value)):
        return "TMA cannot load pages that lie so"
    return None


def run_apart(problem: PagedProblem, tiles: PageTiles, into: tuple[Tensor, Tensor]) -> None:
    """One new token of each request, every request by itself: one launch."""
    query, table, lengths = problem.query, problem.placement.table, problem.placement.lengths
    d, width, device = int(query.shape[2]), problem.width, query.device
    d_padded, w_padded = (max(32, 1 << (size - 1).bit_length()) for size in (d, width))
    batch_heads, places = problem.requests * problem.kv_heads, table.shape[1]
    _, splits = splits_for(_APART, batch_heads, places * problem.page_size, processors_of(device))
    part_rows = 1 << (problem.group - 1).bit_length()
    parts = batch_heads * splits * part_rows if splits > 1 else 0
    partial = torch.empty(parts * (w_padded + 2), dtype=torch.float32, device=device)
    at_once = max(2, min(16, 64 * 32 * tiles.warps // (part_rows * w_padded)))
    sinks = pages.sinks_of(problem)
    launch(
        split_pages_kernel, batch_heads * splits,
        (_descriptor(problem.key, tiles.keys, d_padded), _descriptor(problem.value, tiles.keys, w_padded)),
        (query, *into, partial, partial[parts * w_padded :], counters(device, batch_heads), table, lengths, sinks,
         query.stride(0), query.stride(1), table.stride(0), problem.kv_heads, problem.key.shape[0], places, splits,
         problem.scale * LOG2_E),
        (tiles.rows, tiles.keys, tiles.stages, tiles.warps, problem.page_size, problem.group, d, width,
         d_padded, w_padded, LOG2_E, part_rows, splits > 1, at_once, splits % at_once == 0),
        CompileOptions(warps=tiles.warps, overlaps=True, kinds=(sinks is None,)),
    )  # fmt: skip


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


def _descriptor(pool: Tensor, rows: int, columns: int = _PANEL) -> TmaDescriptor:
    """Of some keys of one head of a page, and some of their columns."""
    shape, steps = tuple(pool.shape), pool.stride()
    strides = *(step if size > 1 else shape[-1] for size, step in zip(shape[:3], steps, strict=False)), 1
    return TmaDescriptor(pool, torch.Size(shape), strides, (1, rows, 1, columns))
