"""How a dataflow takes in keys: which runs and splits each row meets, and what it moves although a mask hides it.

All of it follows from the plan's tiles and the pattern of required scores; no trace is looked at.

>>> from attenio.planning.plan import Tiles
>>> grouping(Dataflow.ATTENIO, Tiles.of(query_tile=2, key_tile=2), np.tri(2, 3, 1, dtype=np.bool_)).runs
[[[0, 1]], [[0, 1], [2]]]
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.exchanges import exchange_tiles, turn_tiles
from attenio.dataflows.key_slots import turns
from attenio.dataflows.rolling import rolling_turns
from attenio.errors import InvalidInput
from attenio.masks.patterns import Band
from attenio.pebbling.graphs.attention import PerRow, Runs, Softmax
from attenio.planning.plan import Dataflow, Tiles, is_exact_forward, is_exact_gradient
from attenio.planning.words.last_columns import first_rows

Required = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """The form of softmax of a dataflow, and what ``attention`` is to know of each row: runs, splits, idle keys.

    Also the column from which on its statistics are settled, if there is one.
    """

    softmax: Softmax
    runs: Runs | None = None
    splits: PerRow | None = None
    idle: PerRow | None = None
    settled: int | None = None

    def stacked(self, heads: int) -> "Grouping":
        """The same for several heads, one under the other."""
        return Grouping(
            softmax=self.softmax,
            runs=None if self.runs is None else [*self.runs] * heads,
            splits=None if self.splits is None else [*self.splits] * heads,
            idle=None if self.idle is None else [*self.idle] * heads,
            settled=self.settled,
        )


def grouping(dataflow: Dataflow, tiles: Tiles, required: Required, *, keeping: int | None = None) -> Grouping:
    """How one head of these required scores is worked on; ``keeping`` of the slots keep keys, all unless told."""
    if is_exact_gradient(dataflow):
        raise InvalidInput(f"{dataflow.value} computes gradients; replay runs of the forward pass")
    if not is_exact_forward(dataflow):
        raise InvalidInput(f"{dataflow.value} approximates, and the graph is that of exact attention; replay others")
    match dataflow:
        case Dataflow.STANDARD:
            # Blind to the mask: every score is moved.
            return Grouping(softmax=Softmax.NORMALISED, idle=[np.flatnonzero(~row).tolist() for row in required])
        case Dataflow.FLAT:
            return Grouping(softmax=Softmax.NORMALISED)
        case Dataflow.SQUARE_TILING:
            return Grouping(softmax=Softmax.PLAIN)
        case Dataflow.RANK_ONE_TILING:
            return _rank_one_tiling(tiles)
        case Dataflow.FLASH_ATTENTION_1:
            grid = _cut(np.arange(required.shape[1], dtype=np.int64), tiles["key_tile"])
            return Grouping(softmax=Softmax.ONLINE, runs=[_own(row, grid) for row in required])
        case Dataflow.FLASH_ATTENTION_2 | Dataflow.ATTENIO | Dataflow.STACKED_GROUPS:
            return Grouping(softmax=Softmax.ONLINE, runs=[_own(row, runs) for row, runs in _met(tiles, required)])
        case Dataflow.SCORE_STATIONARY:
            if "whole_rows" in tiles:
                return Grouping(softmax=Softmax.NORMALISED)
            return _resident_rows(tiles, required) if "resident_rows" in tiles else _score_stationary(tiles, required)
        case Dataflow.KEPT_KEYS:
            return _kept_keys(tiles, required, keeping)
        case Dataflow.KEPT_ROWS:
            return Grouping(softmax=Softmax.ONLINE)
        case Dataflow.SPLIT_KEYS:
            return _split_keys(tiles, required)
        case _:
            assert_never(dataflow)


def _rank_one_tiling(tiles: Tiles) -> Grouping:
    """With tiles of later rows the first columns settle what the others read back."""
    if "resident_keys" in tiles:
        return Grouping(softmax=Softmax.NORMALISED)
    return Grouping(softmax=Softmax.SCALED, settled=tiles["output_columns"] if "later_rows" in tiles else None)


def _score_stationary(tiles: Tiles, required: Required) -> Grouping:
    """A row's outputs are stored after every run of its tile: zeros if it has met no key of its own so far."""
    met = list(_met(tiles, required))
    idle = [[] if row[runs[0]].any() else [int(runs[0][0])] for row, runs in met]
    return Grouping(softmax=Softmax.ONLINE, runs=[_own(row, runs) for row, runs in met], idle=idle)


def _resident_rows(tiles: Tiles, required: Required) -> Grouping:
    """Outputs are rescaled before an element of a value comes."""
    as_tiles = Tiles.of(query_tile=tiles["resident_rows"], key_tile=tiles["key_tile"])
    return Grouping(softmax=Softmax.SCALED, runs=[_own(row, runs) for row, runs in _met(as_tiles, required)])


def _split_keys(tiles: Tiles, required: Required) -> Grouping:
    """A row's partial result is stored for every split of its tile: nothing but zeros where it needs no key of it."""
    runs: list[list[list[int]]] = []
    counts: list[list[int]] = []
    idle: list[list[int]] = []
    for row, needed in _needed(tiles, required):
        splits = _cut(needed, tiles["keys_per_split"])
        own = [_own(row, _cut(split, tiles["key_tile"])) for split in splits]
        runs.append([run for split in own for run in split])
        counts.append([len(split) for split in own if split])
        idle.append([int(keys[0]) for keys, split in zip(splits, own, strict=True) if not split])
    return Grouping(softmax=Softmax.ONLINE, runs=runs, splits=counts, idle=idle)


def _kept_keys(tiles: Tiles, required: Required, keeping: int | None) -> Grouping:
    """A row meets the keys in the order of its tile: those in the slots first."""
    a = tiles["group_positions"] if "group_positions" in tiles else tiles["query_tile"]
    cut = [required[start : start + a] for start in range(0, len(required), a)]
    needed = [np.flatnonzero(tile.any(axis=0)).tolist() for tile in cut]
    order = turns(needed, slots=min(tiles["kept_keys"], required.shape[1]), keeping=keeping)
    runs = [
        [[visit.key] for visit in visits if row[visit.key]]
        for tile, visits in zip(cut, order, strict=True)
        for row in tile
    ]
    return Grouping(softmax=Softmax.ONLINE, runs=runs)


def rolling_grouping(band: Band, tiles: Tiles) -> Grouping:
    """A row meets the keys whose turn it is while it is there."""
    runs: list[list[list[int]]] = [[] for _ in range(band.rows)]
    slots = min(tiles["kept_keys"], band.keys)
    for taken in rolling_turns(band, held=min(tiles["rolling_rows"], band.rows), slots=slots):
        for turn in taken:
            for row in turn.rows:
                runs[row].append([turn.key])
    return Grouping(softmax=Softmax.ONLINE, runs=runs)


def exchanged_grouping(rows: int, keys: int, tiles: Tiles) -> Grouping:
    """A row meets what was kept for its tile first, then the keys before, and those of the tile up to its own."""
    met = [[[key] for key in tile.keys_of(row)] for tile in exchange_tiles(rows, keys, tiles) for row in tile.rows]
    return Grouping(softmax=Softmax.ONLINE, runs=met)


def turning_grouping(rows: int, keys: int, tiles: Tiles) -> Grouping:
    """A row meets what was kept for its tile first, then the keys that pass, and those that stay for the next tile."""
    cut = turn_tiles(rows, keys, tiles)
    met = [
        [[key] for keys in (tile.kept, tile.passing, tile.leaves) for key in keys] for tile in cut for _ in tile.rows
    ]
    return Grouping(softmax=Softmax.ONLINE, runs=met)


def stacked_grouping(rows: int, keys: int, tiles: Tiles, value_dim: int) -> Grouping:
    """A row meets every key in the order of its tile, whose rows may be of several heads."""
    a, slots, runs = min(tiles["stacked_rows"], rows), tiles["kept_keys"], []
    first, before = rows, slots
    if "last_columns" in tiles:
        of_first, of_last = (-(-value_dim // tiles[name]) for name in ("value_columns", "last_columns"))
        first, before = int(first_rows(rows, a)), keys if of_first > of_last else 1
    for count, tile, kept in ((first, a, before), (rows - first, rows - first, slots)):
        order = turns([range(keys)] * (-(-count // max(tile, 1)) + 1), slots=min(kept, keys))
        by_tile = [[[visit.key] for visit in visits] for visits in order]
        runs += [by_tile[row // tile] for row in range(count)]
    return Grouping(softmax=Softmax.ONLINE, runs=runs)


def _needed(tiles: Tiles, required: Required) -> Iterator[tuple[Required, NDArray[np.intp]]]:
    """Each row with the keys that its tile of rows needs."""
    for start in range(0, len(required), tiles["query_tile"]):
        tile = required[start : start + tiles["query_tile"]]
        needed = np.flatnonzero(tile.any(axis=0))
        for row in tile:
            yield row, needed


def _met(tiles: Tiles, required: Required) -> Iterator[tuple[Required, list[NDArray[np.intp]]]]:
    """Each row with the runs of keys that its tile meets."""
    for row, needed in _needed(tiles, required):
        yield row, _cut(needed, tiles["key_tile"])


def _cut(keys: NDArray[np.intp], tile: int) -> list[NDArray[np.intp]]:
    return [keys[start : start + tile] for start in range(0, len(keys), tile)]


def _own(row: Required, runs: list[NDArray[np.intp]]) -> list[list[int]]:
    """What a row needs of each run, where it needs anything."""
    return [run[row[run]].tolist() for run in runs if row[run].any()]
