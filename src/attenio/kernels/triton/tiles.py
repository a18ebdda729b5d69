"""From a plan to the tiles of a GPU kernel: powers of two that fit the registers and the shared memory of one SM.

Rows stay in registers with their output and scores; keys and values wait in shared memory, ``stages`` tiles of each. Of
all tiles that fit, those are taken that move the fewest words by the closed form of the dataflow, which means the most
rows; between equals, the widest tiles of keys.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from attenio.elements import ElementType
from attenio.kernels.gpu.arguments import Shape
from attenio.planning import Dataflow, Tiles, cost
from attenio.workload import Workload

# Compute capability 9.0: what a block may use of an SM's 228 KB, and the registers of a thread less room for addresses.
_SHARED_BYTES = 227 * 2**10
_REGISTERS = 200
# Tensor cores take no fp32. Its products are unrolled, and so many multiplications of a thread take ten seconds to
# compile; the largest tiles that fit would take minutes.
_UNROLLED = 1024
# Candidates that may be measured against each other.
_MOST = 8
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


def forward_tiles(shape: Shape, processors: int, *, splits_keys: bool | None = None) -> tuple[ForwardTiles, ...]:
    """Tiles for this problem, best first; keys are split where rows alone leave SMs idle."""
    rows, (d, width, *_) = shape.group * shape.queries, shape.widths
    if shape.values_in_keys and (splits_keys or (splits_keys is None and shape.queries < _FEW_ROWS)):
        return _latent_tiles(shape)  # rows are heads of one latent, which stay together however many blocks there are
    if splits_keys is None:
        busy = shape.batch_heads * -(-rows // 128) >= processors
        splits_keys = rows <= _FEW_ROWS and shape.keys >= 256 and not (busy and rows > 16)
    if splits_keys:
        run = shape.keys * shape.batch_heads * -(-rows // 128) // processors
        return _split_tiles(rows, shape.group, _power(max(d, width)), shape.element, long_runs=run >= 1024)
    return _stationary_tiles(shape.queries, shape.keys, (d, width), shape.padded_columns, shape.element)[:_MOST]


def _latent_tiles(shape: Shape) -> tuple[ForwardTiles, ...]:
    """Rows of a tile are heads that read one latent: as many as keep their outputs in registers, 64 of 512 columns."""
    of_query, of_key = shape.padded_columns
    row_tile = min(_FEW_ROWS, _power(shape.group * shape.queries))
    warps = 8 if row_tile * shape.widths.width_padded > 2**14 else 4
    ranked = []
    for key_tile, stages in product((64, 32, 16), (3, 2, 1)):
        shared = (row_tile * of_query + stages * key_tile * of_key) * shape.element
        compact = _is_compact(row_tile * key_tile * shape.widths.width_padded, warps, shape.element)
        if (shared <= _SHARED_BYTES and compact) or (key_tile, stages) == (16, 1):
            ranked.append(
                ForwardTiles(
                    row_tile=row_tile, key_tile=key_tile, pack=shape.group, warps=warps, stages=stages, splits_keys=True
                )
            )
    return tuple(sorted(ranked, key=lambda tiles: tiles.stages == 1)[:_MOST])


def _split_tiles(rows: int, group: int, widest: int, element: int, *, long_runs: bool) -> tuple[ForwardTiles, ...]:
    """Every key is read once whatever the tiles: what counts is bytes in flight, so stages as deep as memory holds."""
    row_tile = min(128, _power(rows))
    ranked = []
    for key_tile, stages in product((128, 64, 32, 16) if long_runs and row_tile < 128 else (64, 32, 16), (3, 2, 1)):
        if (
            row_tile * widest + 2 * stages * key_tile * widest
        ) * element <= _SHARED_BYTES and key_tile * widest <= 2**14:
            warps = 8 if row_tile >= 128 else 4
            ranked.append(
                ForwardTiles(
                    row_tile=row_tile, key_tile=key_tile, pack=group, warps=warps, stages=stages, splits_keys=True
                )
            )
    if not ranked:  # single precision, so wide that even the narrowest tiles of keys leave no room for so many rows
        least = ForwardTiles(row_tile=16, key_tile=16, pack=group, warps=4, stages=1, splits_keys=True)
        return (least,)
    # A single stage fetches nothing while it computes: narrower tiles go before it.
    return tuple(sorted(ranked, key=lambda tiles: tiles.stages == 1)[:_MOST])


@lru_cache(maxsize=1024)
def _stationary_tiles(
    queries: int, keys: int, widths: tuple[int, int], padded_columns: tuple[int, int], element: int
) -> tuple[ForwardTiles, ...]:
    """Tiles of the query-stationary kernel that fit an SM.

    Three boundaries are looked at in turn: words that enter the SM (the closed form for ``row_tile`` rows), key tiles
    too narrow for a matrix instruction to run at its rate, and words that enter the registers of a group of four warps
    (the closed form for its share of the rows).
    """
    (d, width), (of_query, of_key) = widths, padded_columns
    width_padded = _power(width)
    sized = Workload(
        queries=max(1, queries), keys=max(1, keys), d=d, value_dim=width,
        dtype=ElementType.FP16 if element <= 2 else ElementType.FP32,
    )  # fmt: skip

    def moved(rows: int, key_tile: int) -> int:
        return cost(sized, Dataflow.ATTENIO, Tiles.of(query_tile=rows, key_tile=key_tile)).moved_words

    ranked = []
    for row_tile, key_tile, warps, stages in product((128, 64, 32, 16), (128, 64, 32, 16), (4, 8), (3, 2, 1)):
        shared = (row_tile * of_query + stages * key_tile * of_key) * element
        scores = row_tile * key_tile * (4 + element) // 4
        registers = (row_tile * width_padded + scores) / (32 * warps)
        own_rows = row_tile * 4 // warps if element <= 2 else row_tile
        if shared > _SHARED_BYTES or registers > _REGISTERS or own_rows < min(64, row_tile):
            continue
        if not _is_compact(row_tile * key_tile * max(of_query, width_padded), warps, element):
            continue
        tiles = ForwardTiles(
            row_tile=row_tile, key_tile=key_tile, pack=1, warps=warps, stages=stages, splits_keys=False
        )
        rank = (moved(row_tile, key_tile), key_tile < 64, moved(own_rows, key_tile), -key_tile, -stages)
        ranked.append((rank, tiles))
    best = [tiles for _, tiles in sorted(ranked, key=lambda entry: entry[0])]
    least = ForwardTiles(row_tile=16, key_tile=16, pack=1, warps=4, stages=1, splits_keys=False)
    # The best with half the rows as well: under narrow masks large tiles are mostly hidden.
    smaller = [tiles for tiles in best if tiles.row_tile == 64][:3]
    return (*best[: _MOST - len(smaller) - 1], *smaller, least)


def backward_tiles(shape: Shape) -> tuple[tuple[BackwardTiles, ...], tuple[BackwardTiles, ...]]:
    """Tiles of the two passes, best first: one product's accumulator stays in the first, two in the second."""
    widest = _power(max(shape.widths[:2]))
    return _backward(widest, shape.element, 1), _backward(widest, shape.element, 2)


@lru_cache(maxsize=64)
def _backward(widest: int, element: int, sums: int) -> tuple[BackwardTiles, ...]:
    ranked = []
    for stationary, passing, warps, stages in product((128, 64, 32, 16), (64, 32, 128, 16), (4, 8), (3, 2, 1)):
        shared = 2 * (stationary + stages * passing) * widest * element
        registers = (sums * stationary * widest + stationary * passing * (8 + 2 * element) // 4) / (32 * warps)
        own_rows = stationary * 4 // warps if element <= 2 else stationary
        if shared > _SHARED_BYTES or registers > _REGISTERS or own_rows < min(64, stationary):
            continue
        if not _is_compact(stationary * passing * widest, warps, element):
            continue
        tiles = BackwardTiles(stationary=stationary, passing=passing, warps=warps, stages=stages)
        ranked.append(((-stationary, passing < 64, -own_rows, -passing, -stages), tiles))
    best = [tiles for _, tiles in sorted(ranked, key=lambda entry: entry[0])]
    smaller = [tiles for tiles in best if tiles.stationary == 64][:3]
    least = BackwardTiles(stationary=16, passing=16, warps=4, stages=1)
    return (*best[: _MOST - len(smaller) - 1], *smaller, least)


def _is_compact(multiplications: int, warps: int, element: int) -> bool:
    """Whether a product of so many multiplications compiles in seconds."""
    return element <= 2 or multiplications <= _UNROLLED * 32 * warps


def _power(size: int) -> int:
    """The power of two that holds a width; a product takes at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def splits_for(tiles: ForwardTiles, blocks: int, keys: int, processors: int) -> tuple[int, int]:
    """Keys of a run (whole tiles) and how many runs: a block for every SM, no run shorter than two tiles."""
    wanted = max(1, processors // max(1, blocks))
    most = max(1, -(-keys // (2 * tiles.key_tile)))
    splits = max(count for count in _SPLITS if count <= min(wanted, most))
    run = -(-max(1, -(-keys // splits)) // tiles.key_tile) * tiles.key_tile
    return run, splits
