"""From a plan to the tiles of a GPU kernel: powers of two that fit the registers and the shared memory of one SM.

Rows stay in registers with their output and scores; keys and values wait in shared memory, ``stages`` tiles of each. Of
all tiles that fit, those are taken that move the fewest words by the closed form of the dataflow, which means the most
rows; between equals, the widest tiles of keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from attenio.elements import ElementType
from attenio.kernels.gpu.arguments import Shape, columns_of
from attenio.kernels.gpu.band import Band
from attenio.planning import Dataflow, Tiles, cost
from attenio.workload import Workload

# Compute capability 9.0: what a block may use of an SM's 228 KB, and the registers of a thread less room for addresses.
_SHARED_BYTES = 227 * 2**10
_REGISTERS = 200
# Rows of one instruction of a warpgroup, columns beyond which so many rows take two warpgroups, and fewest columns.
_WGMMA_ROWS, _WIDE, _FEWEST_COLUMNS = 64, 256, 64
# Entries of a tile that wgmma takes in parts, at least.
_ENTRIES_OF_PARTS = 2048
# Where tensor cores do not take numbers of fp32 in parts, products are unrolled. So many multiplications of a thread
# take ten seconds to compile; the largest tiles that fit would take minutes.
_UNROLLED = 1024
# Beside parts of fp32 there is room for scores that change hands between warps and for statistics of rows; of these
# kernels none needed more than 5 KB.
_SPARE_BYTES = 2**13
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
    rows = shape.group * shape.queries
    if shape.values_in_keys and (splits_keys or (splits_keys is None and shape.queries < _FEW_ROWS)):
        return _latent_tiles(shape)  # rows are heads of one latent, which stay together however many blocks there are
    if splits_keys is None:
        busy = shape.batch_heads * -(-rows // 128) >= processors
        splits_keys = rows <= _FEW_ROWS and shape.keys >= 256 and not (busy and rows > 16)
    if splits_keys:
        run = shape.keys * shape.batch_heads * -(-rows // 128) // processors
        return _split_tiles(shape, max(shape.widths[2:]), long_runs=run >= 1024)
    # Lengths of one power of two have the same tiles: another length runs what is compiled.
    queries, keys = (1 << max(0, size - 1).bit_length() for size in (shape.queries, shape.keys))
    return _stationary_tiles(shape._replace(batch_heads=1, group=1, queries=queries, keys=keys, band=Band()))


def _latent_tiles(shape: Shape) -> tuple[ForwardTiles, ...]:
    """Rows of a tile are heads that read one latent: as many as keep their outputs in registers, 64 of 512 columns."""
    of_query, of_key = shape.padded_columns
    row_tile = min(_FEW_ROWS, _power(shape.group * shape.queries))
    if shape.in_parts:
        row_tile = min(_WGMMA_ROWS // 2, row_tile)
    warps = 8 if row_tile * shape.widths.width_padded > 2**14 else 4
    ranked = []
    for key_tile, stages in product((64, 32, 16), (3, 2, 1)):
        shared = _shared_bytes(shape, row_tile * of_query, key_tile * of_key, stages)
        compact = _is_compact(shape, row_tile * key_tile * shape.widths.width_padded, warps)
        if (shared <= _SHARED_BYTES and compact) or (key_tile, stages) == (16, 1):
            ranked.append(
                ForwardTiles(
                    row_tile=row_tile, key_tile=key_tile, pack=shape.group, warps=warps, stages=stages, splits_keys=True
                )
            )
    return tuple(sorted(ranked, key=lambda tiles: tiles.stages == 1)[:_MOST])


def _split_tiles(shape: Shape, widest: int, *, long_runs: bool) -> tuple[ForwardTiles, ...]:
    """Every key is read once whatever the tiles: what counts is bytes in flight, so stages as deep as memory holds."""
    group, row_tile = shape.group, min(128, _power(shape.group * shape.queries))
    ranked = []
    for key_tile, stages in product((128, 64, 32, 16) if long_runs and row_tile < 128 else (64, 32, 16), (3, 2, 1)):
        shared = _shared_bytes(shape, row_tile * widest, 2 * key_tile * widest, stages)
        if not _is_wide(shape, row_tile, key_tile, shape.widths[2:]):
            continue
        if shared <= _SHARED_BYTES and key_tile * widest <= 2**14:
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
def _stationary_tiles(shape: Shape) -> tuple[ForwardTiles, ...]:
    """Tiles of the query-stationary kernel that fit an SM.

    Boundaries are looked at in turn: words that enter the SM (the closed form for ``row_tile`` rows), key tiles that
    are waited for, or too narrow for a matrix instruction to run at its rate, and words that enter the registers of a
    group of four warps (the closed form for its share of the rows).
    """
    (d, width, *_), (of_query, of_key) = shape.widths, shape.padded_columns
    of_output = shape.widths.width_padded if shape.values_in_keys else of_key - of_query
    # Two warpgroups share the rows of wide heads: each has half of the columns, of which a product takes 64.
    columns = columns_of(shape.widths)
    shared_rows = of_output > _WIDE and columns.width_beyond != _FEWEST_COLUMNS
    sized = Workload(
        queries=max(1, shape.queries), keys=max(1, shape.keys), d=d, value_dim=width,
        dtype=ElementType.FP16 if shape.element <= 2 else ElementType.FP32,
    )  # fmt: skip

    def moved(rows: int, key_tile: int) -> int:
        return cost(sized, Dataflow.ATTENIO, Tiles.of(query_tile=rows, key_tile=key_tile)).moved_words

    ranked = []
    for row_tile, key_tile, warps, stages in product((128, 64, 32, 16), (128, 64, 32, 16), (4, 8), _stages(shape)):
        shared = _shared_bytes(shape, row_tile * of_query, key_tile * of_key, stages)
        scores = row_tile * key_tile * (4 + shape.held_bytes) // 4
        registers = (row_tile * of_output + scores) / (32 * warps)
        own_rows = row_tile if shape.unrolled else row_tile * 4 // warps
        fewest = _WGMMA_ROWS // 2 if shared_rows else _WGMMA_ROWS
        if shared > _SHARED_BYTES or registers > _REGISTERS or own_rows < min(fewest, row_tile):
            continue
        if not _is_compact(shape, row_tile * key_tile * max(of_query, of_output), warps):
            continue
        if not _is_wide(shape, row_tile, key_tile, columns):
            continue
        tiles = ForwardTiles(
            row_tile=row_tile, key_tile=key_tile, pack=1, warps=warps, stages=stages, splits_keys=False
        )
        waits, depth = _stage_ranks(shape, row_tile, stages)
        rank = (
            moved(row_tile, key_tile),
            waits,
            key_tile < 32,
            depth,
            key_tile < 64,
            moved(own_rows, key_tile),
            -key_tile,
        )
        ranked.append((rank, tiles))
    best = [tiles for _, tiles in sorted(ranked, key=lambda entry: entry[0])]
    least = ForwardTiles(row_tile=16, key_tile=16, pack=1, warps=4, stages=1, splits_keys=False)
    # The best with half the rows as well: under narrow masks large tiles are mostly hidden.
    smaller = [tiles for tiles in best if tiles.row_tile == 64][:3]
    return tuple(dict.fromkeys((*best[: _MOST - len(smaller) - 1], *smaller, least)))


def backward_tiles(shape: Shape) -> tuple[tuple[BackwardTiles, ...], tuple[BackwardTiles, ...]]:
    """Tiles of the two passes, best first: one product's accumulator stays in the first, two in the second."""
    plain = shape._replace(batch_heads=1, group=1, queries=1, keys=1, band=Band(), values_in_keys=False)
    return _backward(plain, 1), _backward(plain, 2)


@lru_cache(maxsize=64)
def _backward(shape: Shape, sums: int) -> tuple[BackwardTiles, ...]:
    ranked, widest = [], max(shape.widths[2:])
    # Two accumulators of 64 rows leave room for a second block of warps on an SM, of 128 rows none.
    most = 128 if sums == 1 or shape.in_parts else 64
    for stationary, passing, warps, stages in product((128, 64, 32, 16), (64, 32, 128, 16), (4, 8), _stages(shape)):
        shared = _shared_bytes(shape, 2 * stationary * widest, 2 * passing * widest, stages)
        scores = stationary * passing * (8 + 2 * shape.held_bytes) // 4
        registers = (sums * stationary * widest + scores) / (32 * warps)
        own_rows = stationary if shape.unrolled else stationary * 4 // warps
        if shared > _SHARED_BYTES or registers > _REGISTERS or own_rows < min(64, stationary):
            continue
        if not _is_compact(shape, stationary * passing * widest, warps):
            continue
        if shape.in_parts and passing > stationary:  # a warp's parts of what passes leave registers
            continue
        if not _is_wide(shape, stationary, passing, shape.widths[2:]):
            continue
        tiles = BackwardTiles(stationary=stationary, passing=passing, warps=warps, stages=stages)
        waits, depth = _stage_ranks(shape, stationary if sums == 1 else 0, stages)
        rank = (-min(stationary, most), waits, passing < 32, depth, passing < 64, stationary, -own_rows, -passing)
        ranked.append((rank, tiles))
    best = [tiles for _, tiles in sorted(ranked, key=lambda entry: entry[0])]
    smaller = [tiles for tiles in best if tiles.stationary == 64][:3]
    least = BackwardTiles(stationary=16, passing=16, warps=4, stages=1)
    return tuple(dict.fromkeys((*best[: _MOST - len(smaller) - 1], *smaller, least)))


def _shared_bytes(shape: Shape, stationary: int, passing: int, stages: int) -> int:
    """Of so many entries that stay, and of so many of two matrices that pass, in ``stages``.

    Parts of fp32 are made from what waits, one stage less, and one matrix after the other.
    """
    if not shape.in_parts:
        return (stationary + stages * passing) * shape.element
    parts = (stationary + passing // 2) * shape.held_bytes
    return parts + (stages - 1) * passing * shape.element + _SPARE_BYTES


def _stages(shape: Shape) -> tuple[int, ...]:
    """Tiles of what passes that wait, the best first.

    Parts of fp32 are made in registers: a tile that waits in shared memory is read from there and written back in
    parts, twice the traffic of one that comes straight from memory. Six products for each hide the way from there.
    """
    return (1,) if shape.in_parts else (3, 2, 1)


def _stage_ranks(shape: Shape, rows: int, stages: int) -> tuple[bool, int]:
    """Whether a tile is waited for that could have been loaded before, and how good so many stages are.

    With 64 rows, wgmma reads tiles from shared memory, and a third one on its way is worth its room. Below that tiles
    pass through registers, and two are (measured on an H200).
    """
    best = 3 if rows >= _WGMMA_ROWS else 2
    return stages == 1 and len(_stages(shape)) > 1, abs(best - stages)


def _is_wide(shape: Shape, rows: int, passing: int, columns: Sequence[int]) -> bool:
    """Whether tiles that pass are large enough to be given to wgmma in parts (``padded_columns`` says why)."""
    return not shape.in_parts or rows < _WGMMA_ROWS or passing * min(filter(None, columns)) >= _ENTRIES_OF_PARTS


def _is_compact(shape: Shape, multiplications: int, warps: int) -> bool:
    """Whether a product of so many multiplications compiles in seconds."""
    return not shape.unrolled or multiplications <= _UNROLLED * 32 * warps


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
