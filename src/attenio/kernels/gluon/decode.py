"""Few rows and many keys on Hopper: which problems ``split_keys`` takes, on what grid, with which tiles."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.gluon.launch import ELEMENTS, is_aligned, launch, padded_box
from attenio.kernels.gluon.split_keys import split_keys_kernel
from attenio.kernels.problem import KernelProblem
from attenio.kernels.stacking import can_stack
from attenio.kernels.triton.counters import counters
from attenio.kernels.triton.forward import Attended, Parts, prefix_parts
from attenio.kernels.triton.launch import LOG2_E, Widths, grouped_heads, restrictions_of, scaled

__all__ = ["DecodeTiles", "attend", "decode_tiles", "prepared", "splits_for", "supports"]

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


def supports(problem: KernelProblem) -> bool:
    """Whether this kernel computes the problem: few rows, 16 bits, that the copy engine can fetch."""
    seen, widths = problem.visible, (problem.query.shape[-1], problem.value.shape[-1])
    narrow = max(widths) <= 128
    plain = seen.query_ids is None and seen.blocks is None and problem.dropout is None
    return (
        problem.query.dtype in ELEMENTS
        and problem.key.dtype == problem.value.dtype == problem.query.dtype
        and plain
        and all(32 <= size <= 256 and size % 8 == 0 for size in widths)
        and 0 < problem.group * problem.queries <= (_MASKED_ROWS if seen.bias is not None and narrow else _ROWS)
        and problem.keys >= 1
        and problem.batch * problem.kv_heads > 0
        and is_aligned(problem.key)
        and is_aligned(problem.value)
    )


def attend(problem: KernelProblem) -> Attended:
    """Attention of a problem that ``supports`` accepts."""
    query, scale = scaled(problem)
    query = grouped_heads(query if query.stride(-1) == 1 else query.contiguous())
    seen = restrictions_of(problem, scale)
    first, stop, range_b, *_, bias, bias_b, bias_h, bias_q, bias_k, _seed, _probability = seen.data
    prefix = prefix_parts(problem) if can_stack(problem) else None
    plan = _plan(
        _Kind(
            query.shape, problem.key.shape, problem.value.shape, _steps(query), *seen.band[:2], scale,
            skipped=0 if prefix is None else problem.prefix, ranged=first is not None, boolean=seen.boolean,
            by_row=bool(bias_h or bias_q),
        ),
        query.device,
    )  # fmt: skip
    restricted = (first, stop, range_b, bias, bias_b, bias_h, bias_q, bias_k)
    if first is None and bias is None:
        restricted = _UNRESTRICTED
    return Attended(*plan.run(query, problem.key, problem.value, query.shape[:-1], prefix, restricted))


def prepared(problem: KernelProblem) -> Callable[..., tuple[Tensor, Tensor, Tensor]] | None:
    """Attention of queries, keys and values with the sizes, steps and band of a problem that ``supports`` accepts.

    Results have the query's first three dimensions. Nothing is looked at: addresses are multiples of 16 bytes.
    """
    query, seen = problem.query, problem.visible
    if problem.scale < 0 or problem.prefix or seen.bias is not None or seen.first is not None or query.stride(-1) != 1:
        return None
    if grouped_heads(query) is not query:
        return None
    below, above, scale = restrictions_of(problem, scaled(problem)[1]).band
    kind = _Kind(query.shape, problem.key.shape, problem.value.shape, _steps(query), below, above, scale)
    plan, rows = _plan(kind, query.device), query.flatten(1, 2).shape[:-1]

    def run(query: Tensor, key: Tensor, value: Tensor, *_numbers: object) -> tuple[Tensor, Tensor, Tensor]:
        return plan.run(query, key, value, rows, None, _UNRESTRICTED)

    return run


def _long(numbers: Sequence[int]) -> tuple[bool, ...]:
    """Which numbers have more than 32 bits: they make another kernel."""
    return tuple(abs(number) >= 2**31 for number in numbers)


def _steps(query: Tensor) -> tuple[int, int, int]:
    """From sequence to sequence, head to head, and query to query."""
    return query.stride(0), query.stride(2), query.stride(3)


class _Kind(NamedTuple):
    """What a plan depends on besides the device."""

    query_shape: tuple[int, ...]
    key_shape: tuple[int, ...]
    value_shape: tuple[int, ...]
    steps: tuple[int, int, int]
    below: int
    above: int
    scale: float
    skipped: int = 0
    ranged: bool = False
    boolean: bool = False
    by_row: bool = False


# Ranges of keys and a bias, and their steps, where there are none.
_UNRESTRICTED = (None, None, 0, None, 0, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """A launch but for its tensors."""

    programs: int
    units: int
    warps: int
    width: int
    key_box: tuple[int, ...]
    value_box: tuple[int, ...]
    # Words of sums of all parts, and of their statistics.
    part_words: int
    statistic_words: int
    # Before and after the sizes of a shared prefix's parts.
    numbers: tuple[int, ...]
    long: tuple[bool, ...]
    band: tuple[int, int, float]
    constants: tuple[Any, ...]

    def run(
        self, query: Tensor, key: Tensor, value: Tensor, rows: tuple[int, ...], prefix: Parts | None, restricted: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output (rows, width), and largest and total of rows."""
        device = query.device
        output = torch.empty((*rows, self.width), dtype=query.dtype, device=device)
        largest = torch.empty(rows, dtype=torch.float32, device=device)
        total = torch.empty_like(largest)
        sums = torch.empty(self.part_words + self.statistic_words, dtype=torch.float32, device=device)
        shared, sizes = (None, None), (0, 0)
        if prefix is not None:
            shared, sizes = prefix, (prefix.sums.shape[2], prefix.sums.shape[1])
        kinds: tuple[Any, ...] = (prefix is None, self.long)
        if restricted is not _UNRESTRICTED:
            first, _, _, bias, *bias_steps = restricted
            kinds += (*(None if tensor is None else tensor.dtype for tensor in (first, bias)), _long(bias_steps))
        launch(
            split_keys_kernel, self.programs,
            (padded_box(key, *self.key_box), padded_box(value, *self.value_box)), (
                query, output, largest, total, sums, sums[self.part_words :], counters(device, self.units),
                *shared, *self.numbers, *sizes, *self.band, *restricted,
            ), self.constants, warps=self.warps, overlaps=True, kinds=kinds,
        )  # fmt: skip
        return output, largest, total


@lru_cache(maxsize=4096)
def _plan(kind: _Kind, device: torch.device) -> _Plan:
    batch, kv_heads, group, queries, d = kind.query_shape
    keys, width, below, above = kind.key_shape[2], kind.value_shape[3], kind.below, kind.above
    widths = Widths.of(d, width)
    first_key, stop_key = max(kind.skipped, below), min(keys, queries + above)
    cuts = queries > 1 and (queries - 1 + below > first_key or above + 1 < stop_key)
    rows, units = group * queries, batch * kv_heads
    tiles = decode_tiles(rows, widths.d_padded, widths.width_padded)
    run, splits = splits_for(tiles, units, stop_key - first_key, _processors(device))
    warps, part_rows = tiles.row_warps * tiles.key_warps, 1 << (rows - 1).bit_length()
    parts = units * splits * part_rows if splits > 1 else 0
    joined_rows = min(16, part_rows)
    at_once = max(2, min(16, 64 * 32 * warps // (joined_rows * widths.width_padded)))
    numbers = (*kind.steps, kv_heads, queries, keys, first_key, stop_key, run, splits)
    return _Plan(
        programs=splits * units,
        units=units,
        warps=warps,
        width=width,
        key_box=(tiles.key_tile, widths.d_padded),
        value_box=(tiles.key_tile, widths.width_padded),
        part_words=parts * widths.width_padded,
        statistic_words=2 * parts,
        numbers=numbers,
        long=_long(numbers),
        band=(below, above, kind.scale),
        constants=(
            tiles.rows, tiles.key_tile, tiles.stages, tiles.key_warps, tiles.row_warps, group, *widths,
            cuts or kind.ranged, kind.boolean, kind.by_row, LOG2_E,
            part_rows, splits > 1, joined_rows, at_once, splits % at_once == 0,
        ),
    )  # fmt: skip


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


def splits_for(tiles: DecodeTiles, units: int, keys: int, processors: int) -> tuple[int, int]:
    """Keys of a run (whole tiles) and how many runs."""
    run, splits = _runs(max(1, -(-keys // tiles.key_tile)), units, processors, tiles.key_tile)
    return run * tiles.key_tile, splits


@lru_cache(maxsize=4096)
def _runs(total: int, units: int, processors: int, key_tile: int) -> tuple[int, int]:
    """Tiles of a run and how many runs: what makes the last wave of blocks end soonest."""
    best = (math.inf, 1, 1)
    for splits in range(1, min(total, max(1, 4 * processors // units)) + 1):
        run = -(-total // splits)
        used = -(-total // run)
        full, rest = divmod(units * used, processors)
        last = max(_ENOUGH, rest / processors) if rest else 0.0
        join = _JOIN_KEYS / key_tile * used if used > 1 else 0.0
        waves = (full + bool(rest)) * _OVERHEAD_KEYS / key_tile
        best = min(best, ((full + last) * run + waves + join, used, run))
    _, splits, run = best
    return run, splits


@lru_cache(maxsize=16)
def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
