"""Tiles of the forward kernel in the order of their predicted times.

A row tile costs what it takes to load Q, fill the pipeline and write O, and then a time for each key tile that it sees.
Both times were measured once for every variant (``tile_times.json``, by ``studies/hopper-tiles``), so that no call has
to try several: a length that leaves half of its last row tile empty, or a mask that shows few key tiles, takes others
than a long sequence. Widths that were not measured are ranked by the roofline of ``tiles``.

Heads of other widths than were measured (H200, 4K tokens, ``studies/hopper/tuning.json``): the CUDA kernel computes 208
columns of 256 in 208. That saves a third of what the products are less, up to two thirds at 256 columns and next to
nothing below 48, where exponentials are what a key tile waits for. Gluon's kernels take 4 to 6 percent longer for
columns that are not there. Rows of an odd multiple of 8 columns begin within sectors, so that keys are read by up to
twice as many requests, for every row tile anew: at 152 columns two consumers took 1.44 times as long as three, and are
level with them at 160. Clusters, two blocks that share key tiles, count as one row tile of 256 rows: by that alone
they are taken where rows begin within sectors, and nowhere else.
"""

import json
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.cuda.tiles import CudaTiles, cuda_columns, cuda_tiles
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.schedule import key_tiles
from attenio.kernels.hopper.tiles import ROWS, GluonTiles, HopperTiles, hopper_tiles, possible_tiles


class Extent(NamedTuple):
    """What a launch computes: heads of so many queries and keys, and the band of them that is seen."""

    batch_heads: int
    queries: int
    keys: int
    band: Band
    # Columns of keys and of values that heads have, where they are computed in more.
    own: tuple[int, int] | None = None
    # Rows of a packed sequence, to the power of two below; 0 where nobody knows.
    segment: int = 0


def extent_of(kind: ForwardKind, processors: int) -> Extent:
    """What tiles of a kind are ranked for.

    Nothing may stand in for what must repeat to the bit. So that no call of it waits for another kernel at another
    length, batch or number of heads, its tiles are those of many heads, either short or long: up to 1.45 times the
    predicted time where heads are few.
    """
    own = kind.d, kind.width
    if not kind.repeats:
        return Extent(kind.batch_heads, kind.queries, kind.keys, kind.band, own, kind.segment)
    band = Band(packed=True) if kind.band.packed else Band() if kind.band.is_dense else Band(above=0)
    length = _SHORT if max(kind.queries, kind.keys) <= 2 * _SHORT else _LONG
    return Extent(_MANY * processors, length, length, band, own)


class TileTimes(NamedTuple):
    """Microseconds of a block for a row tile, and for each of its key tiles."""

    row_tile_us: float
    key_tile_us: float


# The share of a key tile's time that columns save which are left out, the fewest columns that save any, and what
# requests that begin within sectors add to it for 64 rows.
_SAVED, _LEAST_COLUMNS, _WITHIN_SECTORS = 0.35, 48, 0.5
# By how much Gluon's tiles must be faster: so many are compiled less, and with columns that are not there; and where
# rows see one key tile, which the times of longer rows do not tell. What Gluon's tiles took there was not kept.
_GLUON, _GLUON_WITHOUT, _GLUON_ONE_TILE = 1.01, 1.06, 1.1
# Heads for each SM, and lengths, that tiles are ranked for where results repeat to the bit.
_MANY, _SHORT, _LONG = 4, 256, 4096
# Mean rows of a packed sequence over the power of two below.
_USUAL = 1.5
# Columns of a sector, and of a step of a product.
_STEP = 16


def ranked_tiles(d: int, width: int, extent: Extent, processors: int, *, cuda: bool = False) -> tuple[HopperTiles, ...]:
    """The two best of all tiles that fit, the best first; with ``cuda`` also of those of the CUDA kernel."""
    return ordered_tiles(d, width, extent, processors, cuda=cuda)[:2]


@lru_cache(maxsize=512)
def ordered_tiles(
    d: int, width: int, extent: Extent, processors: int, *, cuda: bool = False
) -> tuple[HopperTiles, ...]:
    """All tiles that fit and were measured, the best first."""
    own = extent.own or (d, width)
    wider = cuda_columns(d, width) if cuda else None
    fitting = (*possible_tiles(d, width), *(cuda_tiles(*wider) if wider else ()))
    measured = [tiles for tiles in fitting if (*tiles.columns(d, width), True, tiles) in _measured()]
    if extent.band.packed:
        measured = _of_packed(measured)
    # Rows that see one key tile: a second buffer of queries is loaded before the keys, and they wait for it.
    if extent.keys <= min((tiles.key_tile for tiles in measured if _buffers(tiles) > 1), default=0):
        measured = [tiles for tiles in measured if _buffers(tiles) == 1]
    if not measured:
        return hopper_tiles(d, width)

    def time(tiles: HopperTiles) -> float:
        columns, whole = tiles.columns(d, width), extent.keys % tiles.key_tile == 0
        masked = not extent.band.is_dense or not (whole or tiles.has_unmasked_loop)
        row_tile_us, key_tile_us = _measured()[*columns, masked, tiles]
        if not (masked or whole):  # the kernel has masks, and the last key tile takes as long as with them
            with_masks = _measured()[*columns, True, tiles]
            row_tile_us = max(row_tile_us, with_masks.row_tile_us + with_masks.key_tile_us - key_tile_us)
        times = TileTimes(row_tile_us, key_tile_us * _for(own, tiles, columns))
        one_tile = isinstance(tiles, GluonTiles) and extent.keys <= tiles.key_tile
        return predicted_us(tiles, times, extent, processors) * (_GLUON_ONE_TILE if one_tile else 1.0)

    return tuple(sorted(measured, key=time))


def _of_packed(measured: list[HopperTiles]) -> list[HopperTiles]:
    """Tiles that packed sequences take. In CUDA C++ programs take row tiles as they are free, those first that see most
    keys; blocks of a cluster would need one list, and Gluon's have lists that know nothing of the sequences."""
    able: list[HopperTiles] = [each for each in measured if isinstance(each, CudaTiles) and each.cluster == 1]
    return able or measured


def _buffers(tiles: HopperTiles) -> int:
    return tiles.query_buffers if isinstance(tiles, CudaTiles) else 1


def _for(own: tuple[int, int], tiles: HopperTiles, columns: tuple[int, int]) -> float:
    """The time of a key tile of heads of these widths over that of whole tiles."""
    if isinstance(tiles, CudaTiles):
        used = sum(max(_LEAST_COLUMNS, -(-columns // _STEP) * _STEP) for columns in own)
        factor = 1.0 - _SAVED * (1.0 - used / sum(columns))
    else:
        factor = _GLUON if own == columns else _GLUON_WITHOUT
    within = any(columns % _STEP for columns in own)
    return factor * (1.0 + _WITHIN_SECTORS * ROWS / tiles.row_tile) if within else factor


def predicted_us(tiles: HopperTiles, times: TileTimes, extent: Extent, processors: int) -> float:
    """Time of a launch: rounds of row tiles of equal length, else their sum over all blocks, or the longest alone."""
    if extent.segment:
        return _packed_us(tiles, times, extent, processors)
    lengths = key_tiles(
        *extent[1:4], row_tile=tiles.row_tile, key_tile=tiles.key_tile,
        missing=tiles.missing_rows(extent.queries, extent.band),
    )  # fmt: skip
    programs, row_tiles = tiles.programs(processors), extent.batch_heads * len(lengths)
    longest = times.row_tile_us + float(lengths.max()) * times.key_tile_us
    if lengths.min() == lengths.max():
        return -(-row_tiles // programs) * longest
    total = row_tiles * times.row_tile_us + extent.batch_heads * float(lengths.sum()) * times.key_tile_us
    return max(longest, total / programs)


def _packed_us(tiles: HopperTiles, times: TileTimes, extent: Extent, processors: int) -> float:
    """The same for packed sequences, in the midst of which row tiles begin: tiles of many rows see keys of more of them
    than tiles of few, and half of their last key tile is empty. The longest is taken to be twice as long as the mean,
    as where any length up to that is as likely."""
    mean = _USUAL * extent.segment

    def row_tile_us(seen: float) -> float:
        return times.row_tile_us + (min(extent.keys, seen) / tiles.key_tile + 0.5) * times.key_tile_us

    row_tiles = -(-extent.queries // tiles.row_tile) * extent.batch_heads
    total = row_tiles * row_tile_us(mean + tiles.row_tile)
    return max(row_tile_us(2 * mean), total / tiles.programs(processors))


@cache
def _measured() -> dict[tuple[int, int, bool, HopperTiles], TileTimes]:
    rows = json.loads(files(__package__).joinpath("tile_times.json").read_text(encoding="utf-8"))["variants"]
    kinds = {kind.language: kind for kind in (GluonTiles, CudaTiles)}
    forms = ((row["d"], row["width"], row["masked"], kinds[row["language"]](**row["tiles"])) for row in rows)
    return {form: TileTimes(row["row_tile_us"], row["key_tile_us"]) for form, row in zip(forms, rows, strict=True)}
