"""From a plan to the tiles of a GPU kernel: powers of two that fit the registers and the shared memory of one SM.

Rows stay in registers with their output and scores; keys and values wait in shared memory, ``stages`` tiles of each. Of
all tiles that fit, those are taken that move the fewest words by the closed form of the dataflow, which means the most
rows; between equals, the widest tiles of keys.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import torch

from attenio.elements import ElementType
from attenio.kernels.problem import KernelProblem
from attenio.planning import Dataflow, Tiles, cost
from attenio.workload import Workload

__all__ = ["BackwardTiles", "ForwardTiles", "backward_tiles", "forward_tiles", "forward_tiles_that_fit", "splits_for"]

# Compute capability 9.0: what a block may use of an SM's 228 KB, and registers of a thread that leave room for addresses.
_SHARED_BYTES = 227 * 2**10
_REGISTERS = 200
# How many runs keys may be cut into: few, because the join is compiled for each.
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# One block of warps holds at most this many rows of few-row problems: more are tiled.
_FEW_ROWS = 64


@dataclass(frozen=True, kw_only=True)
class ForwardTiles:
    """Tiles of a forward kernel; ``pack`` heads of a group are rows of one tile."""

    row_tile: int
    key_tile: int
    pack: int
    warps: int
    stages: int
    splits_keys: bool


@dataclass(frozen=True, kw_only=True)
class BackwardTiles:
    """Tiles of one pass: rows and keys, or keys and rows, that stay and that pass."""

    stationary: int
    passing: int
    warps: int
    stages: int


def forward_tiles(problem: KernelProblem, *, splits_keys: bool | None = None) -> ForwardTiles:
    """Tiles for this problem; keys are split where rows alone leave SMs idle."""
    rows, units = problem.group * problem.queries, problem.batch * problem.kv_heads
    d, width = problem.query.shape[-1], problem.value.shape[-1]
    element = problem.query.element_size()
    if splits_keys is None:
        sms = _processors(problem.query.device)
        splits_keys = units * -(-rows // 128) < sms and problem.keys >= 512 and rows <= 4 * _FEW_ROWS
    if splits_keys:
        # Every key is read once whatever the tiles: rows of the group, and key tiles deep enough to keep loads in flight.
        row_tile = min(_FEW_ROWS, max(16, 1 << (rows - 1).bit_length()))
        key_tile = 128 if max(d, width) <= 64 else 64 if max(d, width) <= 128 else 32
        key_tile = key_tile if element <= 2 else max(16, key_tile // 2)
        stages = 3 if max(d, width) * key_tile * element * 6 <= _SHARED_BYTES else 2
        return ForwardTiles(
            row_tile=row_tile, key_tile=key_tile, pack=problem.group, warps=4, stages=stages, splits_keys=True
        )
    return forward_tiles_that_fit(problem.queries, problem.keys, d, width, element)[0]


@lru_cache(maxsize=1024)
def forward_tiles_that_fit(queries: int, keys: int, d: int, width: int, element: int) -> tuple[ForwardTiles, ...]:
    """Tiles of the query-stationary kernel that fit an SM, the ones that move fewest words first."""
    padded = [max(16, 1 << (size - 1).bit_length()) for size in (d, width)]
    workload = Workload(
        queries=max(1, queries), keys=max(1, keys), d=d, value_dim=width, dtype=ElementType.FP16 if element <= 2 else ElementType.FP32
    )
    found = []
    for row_tile, key_tile, warps, stages in product((128, 64, 32, 16), (128, 64, 32, 16), (8, 4), (3, 2)):
        shared = (row_tile * padded[0] + stages * key_tile * sum(padded)) * element
        registers = (row_tile * (padded[1] + key_tile) + row_tile * key_tile * element // 4) / (32 * warps)
        if shared > _SHARED_BYTES or registers > _REGISTERS or row_tile < 16 * warps // (2 if warps == 8 else 1):
            continue
        moved = cost(workload, Dataflow.ATTENIO, Tiles.of(query_tile=row_tile, key_tile=key_tile)).moved_words
        tiles = ForwardTiles(
            row_tile=row_tile, key_tile=key_tile, pack=1, warps=warps, stages=stages, splits_keys=False
        )
        found.append((moved, -key_tile, -warps, -stages, tiles))
    if not found:
        tiles = ForwardTiles(row_tile=16, key_tile=16, pack=1, warps=4, stages=1, splits_keys=False)
        return (tiles,)
    return tuple(entry[-1] for entry in sorted(found, key=lambda entry: entry[:-1]))


def backward_tiles(problem: KernelProblem) -> tuple[BackwardTiles, BackwardTiles]:
    """Tiles of the two passes: one product's accumulator stays in the first, two in the second."""
    widest = max(problem.query.shape[-1], problem.value.shape[-1])
    if problem.query.element_size() > 2:
        narrow = BackwardTiles(stationary=32 if widest <= 128 else 16, passing=16, warps=4, stages=1)
        return narrow, narrow
    if widest <= 64:
        return (
            BackwardTiles(stationary=128, passing=64, warps=8, stages=3),
            BackwardTiles(stationary=128, passing=64, warps=8, stages=3),
        )
    if widest <= 128:
        return (
            BackwardTiles(stationary=128, passing=64, warps=8, stages=2),
            BackwardTiles(stationary=128, passing=64, warps=8, stages=2),
        )
    if widest <= 256:
        wide = BackwardTiles(stationary=64, passing=32, warps=8, stages=1)
        return wide, wide
    widest_of_all = BackwardTiles(stationary=32, passing=16, warps=8, stages=1)
    return widest_of_all, widest_of_all


def splits_for(problem: KernelProblem, tiles: ForwardTiles, units: int, keys: int) -> tuple[int, int]:
    """Keys of a run (whole tiles) and how many runs: enough for two blocks on every SM, none shorter than two tiles."""
    wanted = max(1, -(-2 * _processors(problem.query.device) // max(1, units)))
    most = max(1, -(-keys // (2 * tiles.key_tile)))
    splits = max(count for count in _SPLITS if count <= min(wanted, most))
    run = -(-max(1, -(-keys // splits)) // tiles.key_tile) * tiles.key_tile
    return run, splits


@lru_cache(maxsize=16)
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4
