"""Tiles of the forward kernel in the order of their predicted times.

A row tile costs what it takes to load Q, fill the pipeline and write O, and then a time for each key tile that it sees.
Both times were measured once for every variant (``tile_times.json``, by ``studies/hopper-tiles``), so that no call has
to try several: a length that leaves half of its last row tile empty, or a mask that shows few key tiles, takes others
than a long sequence. Widths that were not measured are ranked by the roofline of ``tiles``.
"""

import json
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.cuda.tiles import CudaTiles, cuda_columns, cuda_tiles
from attenio.kernels.hopper.schedule import key_tiles
from attenio.kernels.hopper.tiles import GluonTiles, HopperTiles, hopper_tiles, possible_tiles


class Extent(NamedTuple):
    """What a launch computes: heads of so many queries and keys, and the band of them that is seen."""

    batch_heads: int
    queries: int
    keys: int
    band: Band


class TileTimes(NamedTuple):
    """Microseconds of a block for a row tile, and for each of its key tiles."""

    row_tile_us: float
    key_tile_us: float


def ranked_tiles(d: int, width: int, extent: Extent, processors: int, *, cuda: bool = False) -> tuple[HopperTiles, ...]:
    """The two best of all tiles that fit, the best first; with ``cuda`` also of those of the CUDA kernel."""
    return ordered_tiles(d, width, extent, processors, cuda=cuda)[:2]


@lru_cache(maxsize=512)
def ordered_tiles(
    d: int, width: int, extent: Extent, processors: int, *, cuda: bool = False
) -> tuple[HopperTiles, ...]:
    """All tiles that fit and were measured, the best first."""
    wider = cuda_columns(d, width) if cuda else None
    fitting = (*possible_tiles(d, width), *(cuda_tiles(*wider) if wider else ()))
    measured = [tiles for tiles in fitting if (*tiles.columns(d, width), True, tiles) in _measured()]
    if not measured:
        return hopper_tiles(d, width)

    def time(tiles: HopperTiles) -> float:
        unmasked = tiles.has_unmasked_loop or extent.keys % tiles.key_tile == 0
        form = (*tiles.columns(d, width), not (extent.band.is_dense and unmasked), tiles)
        return predicted_us(tiles, _measured()[form], extent, processors)

    return tuple(sorted(measured, key=time))


def predicted_us(tiles: HopperTiles, times: TileTimes, extent: Extent, processors: int) -> float:
    """Time of a launch: rounds of row tiles of equal length, else their sum over all blocks, or the longest alone."""
    lengths = key_tiles(
        *extent[1:], row_tile=tiles.row_tile, key_tile=tiles.key_tile,
        missing=tiles.missing_rows(extent.queries, extent.band),
    )  # fmt: skip
    blocks, row_tiles = tiles.blocks * processors, extent.batch_heads * len(lengths)
    longest = times.row_tile_us + float(lengths.max()) * times.key_tile_us
    if lengths.min() == lengths.max():
        return -(-row_tiles // blocks) * longest
    total = row_tiles * times.row_tile_us + extent.batch_heads * float(lengths.sum()) * times.key_tile_us
    return max(longest, total / blocks)


@cache
def _measured() -> dict[tuple[int, int, bool, HopperTiles], TileTimes]:
    rows = json.loads(files(__package__).joinpath("tile_times.json").read_text(encoding="utf-8"))["variants"]
    kinds = {kind.language: kind for kind in (GluonTiles, CudaTiles)}
    forms = ((row["d"], row["width"], row["masked"], kinds[row["language"]](**row["tiles"])) for row in rows)
    return {form: TileTimes(row["row_tile_us"], row["key_tile_us"]) for form, row in zip(forms, rows, strict=True)}
