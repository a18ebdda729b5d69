"""Attention on pages on a GPU: tiles and runs of keys, the list of items where requests share pages, the launches."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call.pages.plan import PagedPlan, PagePart
from attenio.kernels.call.pages.problem import FAR, PagedProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.cpu.tiles import cuts
from attenio.kernels.gpu.capability import capability_of, is_hopper, processors_of
from attenio.kernels.gpu.counters import counters
from attenio.kernels.gpu.tuning import tuned
from attenio.kernels.triton.launching import launch_noted
from attenio.kernels.triton.page_results import merge_pages_kernel
from attenio.kernels.triton.pages_kernels import page_runs_kernel, paged_kernel

# Blocks that an SM has room for at once, and what a block costs besides its tiles, in tiles.
_RESIDENT, _OVERHEAD, _JOIN = 2, 2, 0.1
_MOST_SPLITS = 32
_MOST_ROWS = 128
_MERGED_HEADS, _MERGED_SLOTS = 4, 8
# Tiles are measured where keys and values are at least so many bytes; it is what a GPU reads in some 30 us.
_WORTH_BYTES, _MEASURED_FLOPS = 2**27, 2**40


@dataclass(frozen=True, kw_only=True)
class PageTiles:
    """Rows and keys of a tile; warps of a block, and stages: half of them find pages, the other half reads them.

    ``gluon`` where a kernel of one kind of GPU computes the runs that requests share, or what each reads for itself.
    """

    rows: int
    keys: int
    warps: int
    stages: int
    gluon: bool = False


class Items(NamedTuple):
    """What programs of ``page_runs_kernel`` do, and what is merged of it; on a GPU."""

    runs: int
    own: int
    slots: int
    items: Tensor
    tokens: Tensor
    positions: Tensor
    token_slots: Tensor
    slot_starts: Tensor


# Computes the first items, those of runs, into sums and statistics, with tiles of its own.
RunsOfItems: TypeAlias = Callable[[PagedProblem, Items, PageTiles, tuple[Tensor, Tensor]], None]


class GluonRuns(NamedTuple):
    """Tiles of a kernel for runs that requests share, and what launches it."""

    tiles: PageTiles
    launch: RunsOfItems


class GluonApart(NamedTuple):
    """Tiles of a kernel for requests that each read their own pages, and what launches it into outputs and sums."""

    tiles: PageTiles
    launch: Callable[[PagedProblem, PageTiles, tuple[Tensor, Tensor]], None]


def attend(
    problem: PagedProblem, plan: PagedPlan | None, gluon: GluonRuns | None = None, apart: GluonApart | None = None
) -> tuple[Tensor, Tensor]:
    """Outputs (tokens, heads, width) and log-sum-exps (tokens, heads), the natural ones."""
    if problem.key.stride(3) != 1 or problem.value.stride(3) != 1:
        raise InvalidInput("the columns of a page are not next to each other; give pages that are contiguous in d")
    if problem.scales is not None and problem.width % 2:
        raise InvalidInput(f"pages of 8 bits are {problem.width} wide; a GPU takes them in pairs: give an even width")
    if problem.query.stride(2) != 1:
        problem = replace(problem, query=problem.query.contiguous())
    if problem.new == 1 and problem.starts is None and problem.right < FAR and problem.left >= FAR:
        problem = replace(problem, right=FAR)  # one token sees all keys
    tokens, heads, _ = problem.query.shape
    device = problem.query.device
    output = torch.empty((tokens, heads, problem.width), dtype=problem.query.dtype, device=device)
    lse = torch.empty((tokens, heads), dtype=torch.float32, device=device)
    if problem.starts is not None and problem.known_starts is None:
        output.fill_(torch.nan)  # rows that impossible starts leave out
        lse.fill_(torch.nan)
    if not tokens:
        return output, lse
    together = plan is not None and not plan.tree.is_flat
    bytes_read = problem.requests * problem.placement.table.shape[1] * problem.page_size * problem.kv_heads
    bytes_read *= (problem.query.shape[2] + problem.width) * problem.key.dtype.itemsize
    name = _kind(problem, "shared" if together else "paged" if apart is None else "paged, by TMA")

    def run(tiles: PageTiles) -> None:
        if together:
            assert plan is not None
            _run_together(problem, plan, tiles, (output, lse), gluon)
        elif tiles.gluon:
            assert apart is not None
            apart.launch(problem, tiles, (output, lse))
        else:
            _run_apart(problem, tiles, (output, lse))

    candidates = tiles_of(problem, together=together)
    if together and gluon is not None:
        candidates = [gluon.tiles, *candidates]
    if not together and apart is not None:
        candidates = [apart.tiles, *candidates]
    tuned(name, candidates, run, device, _MEASURED_FLOPS if bytes_read >= _WORTH_BYTES else 0)
    return output, lse


def tiles_of(problem: PagedProblem, *, together: bool) -> list[PageTiles]:
    """Tiles to choose from, the first where nothing is measured; ``together`` those of requests that share pages."""
    rows = problem.group * (_MOST_ROWS if together else problem.new)
    row_tile = max(16, min(_MOST_ROWS, 1 << (rows - 1).bit_length()), 1 << (problem.group - 1).bit_length())
    narrow = max(int(problem.query.shape[2]), problem.width) <= 128 and problem.query.dtype.itemsize == 2
    forms: tuple[tuple[int, int, int], ...]
    if row_tile >= 64:
        forms = ((64, 8, 5), (64, 4, 5))
    elif problem.scales is not None:  # measured on an H200: bytes of 8 bits are half as many, and take converting
        forms = ((64, 4, 5), (64, 1, 5), (64, 2, 5), (128, 4, 5))
        forms = forms if problem.page_size >= 64 else (forms[2], forms[3], forms[0])
    else:
        forms = ((64, 4, 7), (128, 4, 5), (32, 1, 7), (64, 4, 5), (32, 4, 7))
        forms = forms if problem.page_size >= 64 else forms[1:]
    tiles = [PageTiles(rows=row_tile, keys=keys, warps=warps, stages=stages) for keys, warps, stages in forms]
    if together and row_tile == _MOST_ROWS and problem.group <= 64:
        tiles.append(PageTiles(rows=64, keys=64, warps=4, stages=5))
    small = PageTiles(rows=row_tile, keys=32, warps=4, stages=2)
    return [*tiles, small] if narrow else [small, replace(small, keys=16), replace(small, keys=16, stages=1)]


def _kind(problem: PagedProblem, name: str) -> str:
    parts = (
        name, problem.query.dtype, problem.key.dtype, problem.page_size, *problem.query.shape[1:], problem.kv_heads,
        problem.width, problem.new.bit_length(), problem.requests.bit_length(), problem.right < FAR,
        (problem.placement.table.shape[1] * problem.page_size).bit_length(),
    )  # fmt: skip
    return " ".join(str(part) for part in parts)


def _run_apart(problem: PagedProblem, tiles: PageTiles, into: tuple[Tensor, Tensor]) -> None:
    """Every request reads its own pages: one launch."""
    tokens, heads, device = problem.query.shape[0], problem.query.shape[1], problem.query.device
    places = problem.placement.table.shape[1]
    if problem.starts is None:
        count = problem.requests * -(-problem.new * problem.group // tiles.rows)
    else:
        count = tokens * problem.group // tiles.rows + problem.requests
    tile_heads = count * problem.kv_heads
    blocks = processors_of(device) * (_RESIDENT if problem.key.element_size() == 1 else 1)  # 8 bits take conversions
    splits = splits_for(tile_heads, -(-places * problem.page_size // tiles.keys), blocks)
    apart = splits > 1
    sums = torch.empty(tile_heads * splits * tiles.rows * problem.width if apart else 0, device=device)
    statistics = sums.new_empty(tile_heads * splits * tiles.rows * 2 if apart else 0)
    launch_noted(
        paged_kernel, tile_heads * splits, (
            problem.query, *_pools(problem), *into, sums, statistics, counters(device, tile_heads),
            problem.placement.table, problem.placement.lengths, problem.starts, *(problem.scales or (None, None)),
            sinks_of(problem), *_strides(problem), *into[0].stride()[:2], problem.placement.table.stride(0),
            problem.requests, tokens, problem.new, problem.kv_heads, problem.key.shape[0], places, splits,
            *_score_numbers(problem),
        ), {**_constants(problem, tiles), "JOINS": apart, "LOG2_E": LOG2_E},
    )  # fmt: skip
    assert heads == problem.kv_heads * problem.group


def _run_together(
    problem: PagedProblem, plan: PagedPlan, tiles: PageTiles, into: tuple[Tensor, Tensor], gluon: GluonRuns | None
) -> None:
    """Runs of pages for all requests that share them, what each has for itself, and both merged."""
    rows = problem.group * max(1, problem.new)
    small = PageTiles(
        rows=max(16, min(tiles.rows, 1 << (rows - 1).bit_length()), 1 << (problem.group - 1).bit_length()),
        keys=min(64, tiles.keys), warps=4, stages=5 if tiles.gluon else tiles.stages,
    )  # fmt: skip
    items = _items(problem, plan, tiles, small)
    heads = problem.query.shape[1]
    sums = torch.empty((items.slots, heads, problem.width), device=problem.query.device)
    statistics = sums.new_empty((items.slots, heads, 2))
    if items.runs and tiles.gluon:
        assert gluon is not None
        gluon.launch(problem, items, tiles, (sums, statistics))
    elif items.runs:
        constants = {**_constants(problem, tiles), "HIDES": False}
        _launch_items(problem, items, slice(0, items.runs), constants, sums, statistics)
    if items.own:
        _launch_items(problem, items, slice(items.runs, None), _constants(problem, small), sums, statistics)
    blocks = -(-heads // _MERGED_HEADS)
    launch_noted(
        merge_pages_kernel, problem.query.shape[0] * blocks,
        (*into, sums, statistics, items.token_slots, items.slot_starts, sinks_of(problem),
         *into[0].stride()[:2], heads),
        {"HEADS": _MERGED_HEADS, "AT_ONCE": _MERGED_SLOTS, "WIDTH": problem.width, "W_PADDED": _padded(problem.width),
         "LOG2_E": LOG2_E, **_overlaps(problem)},
    )  # fmt: skip


def _launch_items(
    problem: PagedProblem, items: Items, which: slice, constants: dict[str, Any], sums: Tensor, statistics: Tensor
) -> None:
    """Some of the items, by the portable kernel."""
    some, table = items.items[which], problem.placement.table
    launch_noted(
        page_runs_kernel, len(some) * problem.kv_heads, (
            problem.query, *_pools(problem), sums, statistics, table, some, items.tokens,
            items.positions, *(problem.scales or (None, None)), *_strides(problem), table.stride(0),
            problem.kv_heads, problem.key.shape[0], table.shape[1], *_score_numbers(problem),
        ), constants,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def splits_for(tile_heads: int, tiles: int, slots: int) -> int:
    """Runs of keys of a request: what ends soonest where so many blocks run at once."""
    best = (float("inf"), 1)
    for splits in range(1, min(tiles, _MOST_SPLITS, max(1, 4 * slots // tile_heads)) + 1):
        waves = -(-tile_heads * splits // slots)
        best = min(best, (waves * (-(-tiles // splits) + _OVERHEAD) + _JOIN * splits, splits))
    return best[1]


def _items(problem: PagedProblem, plan: PagedPlan, tiles: PageTiles, small: PageTiles) -> Items:
    """The list of a plan, made once for a table and on this device."""
    known, starts, device = problem.placement.known, problem.known_starts, problem.query.device
    assert known is not None and starts is not None
    key = ("items", id(plan), device, tiles, small, problem.kv_heads, problem.group)
    if key not in known.plans:
        slots = processors_of(device)
        count = len(plan.tree.runs)
        runs, own = list(plan.parts[:count]), list(plan.parts[count:])
        rows = [
            [*_cut(runs, tiles, problem, slots if tiles.rows > 64 else 2 * slots)],
            [*_cut(own, small, problem, _RESIDENT * slots)],
        ]
        known.plans[key] = _uploaded(problem, rows, known.lengths, starts)
    uploaded: Items = known.plans[key]
    return uploaded


def _cut(parts: list[PagePart], tiles: PageTiles, problem: PagedProblem, slots: int) -> list[PagePart]:
    """Parts in tiles of rows, and in runs of keys that fill the GPU about evenly."""
    per_tile = tiles.rows // problem.group
    cut = [part._replace(tokens=part.tokens[some]) for part in parts for some in cuts(len(part.tokens), per_tile)]
    step = max(tiles.keys, problem.page_size)
    counts = [-(-(part.stop - part.first) // step) for part in cut]
    share = max(4 * tiles.keys / step, sum(counts) * problem.kv_heads / slots)  # of one block, in steps
    return [
        part._replace(first=run.start, stop=run.stop)
        for part, count in zip(cut, counts, strict=True)
        for run in cuts(part.stop, -(-count // max(1, int(count / share))) * step, part.first)
    ]


def _uploaded(problem: PagedProblem, parts: list[list[PagePart]], lengths: Any, starts: Any) -> Items:
    """Arrays of 32-bit integers, in one copy."""
    every = [part for some in parts for part in some]
    counts = np.array([len(part.tokens) for part in every])
    slots = np.concatenate([[0], np.cumsum(counts)])
    tokens = np.concatenate([part.tokens for part in every])
    numbers = [
        (slot, count, part.request, part.first, part.stop, slot)
        for slot, count, part in zip(slots, counts, every, strict=False)
    ]
    order = np.argsort(tokens, kind="stable")
    begins = np.searchsorted(tokens[order], np.arange(int(starts[-1]) + 1))
    new = np.diff(starts)
    positions = np.arange(int(starts[-1])) + np.repeat(lengths - new - starts[:-1], new)
    arrays = [np.array(numbers).ravel(), tokens, positions, order, begins]
    whole = torch.from_numpy(np.concatenate(arrays).astype(np.int32)).to(problem.query.device)
    items, on_device, at, token_slots, slot_starts = whole.split([len(array) for array in arrays])
    return Items(
        len(parts[0]), len(parts[1]), int(slots[-1]), items.view(-1, 6), on_device, at, token_slots, slot_starts
    )


def sinks_of(problem: PagedProblem) -> Tensor | None:
    """As kernels read them: one number after the other, in single precision."""
    return None if problem.sinks is None else problem.sinks.detach().float().contiguous()


def _pools(problem: PagedProblem) -> tuple[Tensor, Tensor]:
    """Keys and values as kernels take them: 8 bits of a key as they are where a GPU converts them, values in pairs."""
    if problem.scales is None:
        return problem.key, problem.value
    converts = problem.key.dtype == torch.float8_e4m3fn and _converts_by_ptx(problem)
    key = problem.key if converts else problem.key.view(torch.uint8)
    return key, problem.value.view(torch.int16)


def _converts_by_ptx(problem: PagedProblem) -> bool:
    """Whether bytes are converted by instructions of the GPU: e4m3 numbers from compute capability 8.9 on."""
    supported = capability_of(problem.query.device)
    return supported is not None and (problem.key.dtype != torch.float8_e4m3fn or supported >= (8, 9))


def _strides(problem: PagedProblem) -> tuple[int, ...]:
    return (*problem.query.stride()[:2], *(step for pool in _pools(problem) for step in pool.stride()[:3]))


def _score_numbers(problem: PagedProblem) -> tuple[Any, ...]:
    return problem.left, problem.right, problem.scale * LOG2_E, problem.softcap * LOG2_E


def _padded(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


def _constants(problem: PagedProblem, tiles: PageTiles) -> dict[str, Any]:
    d, width = int(problem.query.shape[2]), problem.width
    return {
        "ROW_TILE": tiles.rows, "KEY_TILE": tiles.keys, "PAGE": problem.page_size, "PACK": problem.group, "D": d,
        "WIDTH": width, "D_PADDED": _padded(d), "W_PADDED": max(_padded(width), 16 if problem.scales is None else 32),
        "HIDES": problem.left < FAR or problem.right < FAR,
        "CAPS": problem.softcap > 0.0, "FLOATS": problem.key.dtype == torch.float8_e4m3fn, "PRECISION": "ieee",
        "PTX": _converts_by_ptx(problem),
        "num_warps": tiles.warps, "num_stages": tiles.stages, **_overlaps(problem),
    }  # fmt: skip


def _overlaps(problem: PagedProblem) -> dict[str, bool]:
    """Whether a launch may begin beside the end of the one before it, which kernels then wait for."""
    return {"OVERLAPS": True, "launch_pdl": True} if is_hopper(problem.query.device) else {"OVERLAPS": False}
