"""Few rows and many keys on Hopper: which problems ``split_keys`` takes, on what grid, with which tiles."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from attenio.kernels import triton
from attenio.kernels.call.choice import READ_ONCE, Choice, Split
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, Attended
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.arguments import Shape, grouped_heads, restrictions_of, scaled, widths_of
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.gpu.counters import counters
from attenio.kernels.hopper.descriptors import ELEMENTS, is_aligned, padded_descriptor
from attenio.kernels.replay.launches import CompileOptions, launch
from attenio.kernels.triton.forward import prefix_results
from attenio.planning import Dataflow, Tiles

# Most rows of a block. Warps that share rows read the same keys from shared memory: past 32 rows the portable kernel,
# which multiplies 64 rows at once, is faster (77 against 87 us), but not under a mask, which it waits for (207, 122).
_ROWS, _MASKED_ROWS = 32, 64
_SHARED_BYTES = 227 * 2**10
_SCRATCH_BYTES = 2**11
# What a block costs besides its tiles, and each run that has to be joined, as keys that could have been read.
_OVERHEAD_KEYS, _JOIN_KEYS = 256, 3
# The share of the SMs that draws all of the memory's rate: fewer blocks than that in a wave do not end sooner.
_ENOUGH = 0.95


@dataclass(frozen=True, kw_only=True)
class DecodeTiles:
    """Rows of a block, keys of a tile, tiles in flight; warps share rows, and the keys of a tile."""

    rows: int
    key_tile: int
    stages: int
    row_warps: int
    key_warps: int


def why_not(problem: KernelProblem) -> str | None:
    """Why this kernel does not compute a problem: it takes few rows of 16 bits that TMA can load."""
    seen, widths = problem.visible, (problem.query.shape[-1], problem.value.shape[-1])
    most = _MASKED_ROWS if seen.bias is not None and max(widths) <= 128 else _ROWS
    if not (problem.query.dtype in ELEMENTS and problem.key.dtype == problem.value.dtype == problem.query.dtype):
        return "tensor cores take 16-bit heads"
    if not (seen.query_ids is None and seen.blocks is None and problem.dropout is None):
        return "ids, blocks and dropout are computed by portable kernels"
    if problem.softcap and can_stack(problem):
        return "a shared prefix is computed for all requests at once, and portable kernels cap its scores"
    if not all(32 <= size <= 256 and size % 8 == 0 for size in widths):
        return "heads of 32 to 256 columns, a multiple of 8, are taken"
    if not 0 < problem.group * problem.queries <= most:
        return f"a block has {most} rows"
    if not (problem.keys and problem.batch * problem.kv_heads):
        return "there are no keys"
    return None if is_aligned(problem.key) and is_aligned(problem.value) else "TMA cannot load keys that lie so"


def supports(problem: KernelProblem) -> bool:
    """Whether this kernel computes the problem."""
    return why_not(problem) is None


def choose(problem: KernelProblem, processors: int | None = None) -> Choice:
    """What runs for a problem that ``supports`` accepts; the portable kernel computes a shared prefix before it."""
    here = processors or processors_of(problem.query.device)
    if not can_stack(problem):
        return _choice(Shape.of(problem), 0, here)
    return replace(triton.choose(problem, processors), own=_choice(Shape.of(problem), problem.prefix, here))


@lru_cache(maxsize=4096)
def _choice(shape: Shape, skipped: int, processors: int) -> Choice:
    tiles = decode_tiles(shape.group * shape.queries, shape.widths.d_padded, shape.widths.width_padded)
    first, stop = max(skipped, shape.band.below), min(shape.keys, shape.queries + shape.band.above)
    run, splits = splits_for(tiles, shape.batch_heads, stop - first, processors)
    return Choice(
        dataflow=Dataflow.SPLIT_KEYS,
        tiles=Tiles.of(
            query_tile=shape.queries, head_tile=shape.group, key_tile=min(tiles.key_tile, shape.keys),
            keys_per_split=min(run, shape.keys),
        ),
        language="Gluon", name="split_keys_kernel", kernel=tiles, why=READ_ONCE, split=Split(first, stop, run, splits),
    )  # fmt: skip


def attend(problem: KernelProblem, choice: Choice | None = None) -> Attended:
    """Attention of a problem that ``supports`` accepts."""
    from attenio.kernels.hopper.split_keys import split_keys_kernel

    choice = choose(problem) if choice is None else choice
    prefix, own = None if choice.own is None else prefix_results(problem, choice), choice.own or choice
    tiles, split = own.kernel, own.split
    assert split is not None
    first_key, stop_key, run, splits = split
    (query, scale), widths, device = scaled(problem), widths_of(problem), problem.query.device
    query = grouped_heads(query if query.stride(-1) == 1 else query.contiguous())
    seen = restrictions_of(problem, scale)
    first, stop, range_b, *_, bias, bias_b, bias_h, bias_q, bias_k, _seed, _probability, _softcap, sinks = seen.data
    below, above, _ = seen.band
    cuts = problem.queries > 1 and (problem.queries - 1 + below > first_key or above + 1 < stop_key)
    rows, batch_heads = problem.group * problem.queries, problem.batch * problem.kv_heads
    output = torch.empty((*query.shape[:-1], widths.width), dtype=query.dtype, device=device)
    largest, total = (torch.empty(query.shape[:-1], dtype=torch.float32, device=device) for _ in range(2))
    warps, part_rows = tiles.row_warps * tiles.key_warps, 1 << (rows - 1).bit_length()
    parts = batch_heads * splits * part_rows if splits > 1 else 0
    partial = torch.empty(parts * (widths.width_padded + 2), dtype=torch.float32, device=device)
    joined_rows = min(16, part_rows)
    at_once = max(2, min(16, 64 * 32 * warps // (joined_rows * widths.width_padded)))
    pointers = (
        query, output, largest, total, partial, partial[parts * widths.width_padded :], counters(device, batch_heads),
        *(prefix or (None, None)),
    )  # fmt: skip
    numbers = (
        query.stride(0), query.stride(2), query.stride(3),
        problem.kv_heads, problem.queries, problem.keys, first_key, stop_key, run, splits,
        *((0, 0) if prefix is None else (prefix.sums.shape[2], prefix.sums.shape[1])), below, above,
    )  # fmt: skip
    inner, scale = (scale / LOG2_E / problem.softcap, problem.softcap * LOG2_E) if problem.softcap else (1.0, scale)
    restricted = (first, stop, range_b, bias, bias_b, bias_h, bias_q, bias_k, sinks)
    constants = (
        tiles.rows, tiles.key_tile, tiles.stages, tiles.key_warps, tiles.row_warps, problem.group, *widths,
        cuts or first is not None, seen.boolean, bool(bias_h or bias_q), LOG2_E, bool(problem.softcap),
        part_rows, splits > 1, joined_rows, at_once, splits % at_once == 0,
    )  # fmt: skip
    # Numbers of more than 32 bits make another kernel.
    long = tuple(abs(number) >= 2**31 for number in (*numbers, bias_b, bias_h, bias_q))
    kinds = (
        prefix is None,
        sinks is None,
        *(None if tensor is None else tensor.dtype for tensor in (first, bias)),
        long,
    )
    launch(
        split_keys_kernel, splits * batch_heads,
        (padded_descriptor(problem.key, tiles.key_tile, widths.d_padded),
         padded_descriptor(problem.value, tiles.key_tile, widths.width_padded)),
        (*pointers, *numbers, scale, inner, *restricted), constants,
        CompileOptions(warps=warps, overlaps=True, kinds=kinds),
    )  # fmt: skip
    return Attended(output, largest, total)


@lru_cache(maxsize=64)
def decode_tiles(rows: int, d_padded: int, width_padded: int) -> DecodeTiles:
    """Three tiles of 32 KB in flight where rows are few: two blocks fit an SM, and the next launch waits beside us."""
    row_tile = max(16, 1 << (rows - 1).bit_length())
    row_warps, widest = row_tile // 16, max(d_padded, width_padded)
    key_tile = 32 if widest > 128 and row_warps > 1 else 64 if widest > 64 and row_warps == 1 else 128
    a_tile = 2 * key_tile * (d_padded + width_padded)
    left = _SHARED_BYTES - 2 * row_tile * d_padded - _SCRATCH_BYTES
    return DecodeTiles(
        rows=row_tile, key_tile=key_tile, stages=min(6 if key_tile == 32 else 3, left // a_tile),
        row_warps=row_warps, key_warps=4 if row_warps == 1 else 2,
    )  # fmt: skip


def splits_for(tiles: DecodeTiles, batch_heads: int, keys: int, processors: int) -> tuple[int, int]:
    """Keys of a run (whole tiles) and how many runs."""
    run, splits = _runs(max(1, -(-keys // tiles.key_tile)), batch_heads, processors, tiles.key_tile)
    return run * tiles.key_tile, splits


@lru_cache(maxsize=4096)
def _runs(total: int, batch_heads: int, processors: int, key_tile: int) -> tuple[int, int]:
    """Tiles of a run and how many runs: what makes the last wave of blocks end soonest."""
    best = (math.inf, 1, 1)
    for splits in range(1, min(total, max(1, 4 * processors // batch_heads)) + 1):
        run = -(-total // splits)
        used = -(-total // run)
        full, rest = divmod(batch_heads * used, processors)
        last = max(_ENOUGH, rest / processors) if rest else 0.0
        join = _JOIN_KEYS / key_tile * used if used > 1 else 0.0
        waves = (full + bool(rest)) * _OVERHEAD_KEYS / key_tile
        best = min(best, ((full + last) * run + waves + join, used, run))
    _, splits, run = best
    return run, splits
