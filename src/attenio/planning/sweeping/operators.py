"""Tiles of single operators for many cases at once: products of scores, and outputs made from stored scores."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.floors import RectangleForms
from attenio.planning.sweeping.rectangles import best_rectangles
from attenio.planning.sweeping.rooms import Rooms, key_room, largest_sizes, row_room

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ScoreTiles:
    """What a tile of scores costs and takes in every case, as ``RectangleWords`` and ``Room`` have it."""

    met: Ints
    loads: Ints
    kept: Ints
    words: Ints
    per_score: Ints
    per_row: Ints

    def take(self, index: Ints) -> "ScoreTiles":
        """Those of some cases."""
        return ScoreTiles(**{name: values[index] for name, values in vars(self).items()})

    def fits(self, cases: Cases) -> NDArray[np.bool_]:
        """Where there is room for the smallest tile."""
        return np.asarray(row_room(cases, self._room) >= 1)

    @property
    def _room(self) -> Rooms:
        return Rooms(words=self.words, per_score=self.per_score, per_row=self.per_row, per_key=0 * self.words)

    def keys_beside(self, rows: Ints, cases: Cases) -> Ints:
        """The largest key tile that fits beside these rows."""
        return key_room(cases, self._room, rows)


def score_tiles(cases: Cases, tiles: ScoreTiles, limit: Ints) -> tuple[Ints, Ints, Ints]:
    """Words, rows and keys of the best tiles within the limit; no words where there is none.

    Cases that differ in nothing that matters here are searched once.
    """
    if not len(cases):
        return cases.rows, cases.rows, cases.rows
    common = np.gcd(np.gcd(tiles.met, tiles.loads), tiles.kept)
    costs = tiles.met // common, tiles.loads // common, tiles.kept // common
    sizes = (cases.rows, cases.keys, cases.left, cases.right, cases.row_unit, cases.key_unit)
    different, place = _different(np.stack((*sizes, tiles.words, tiles.per_score, tiles.per_row, *costs)))
    rows, keys, left, right, row_unit, key_unit, room, per_score, per_row, met, loads, kept = different
    most = np.full(different.shape[1], -NOTHING)
    np.maximum.at(most, place, limit // common)
    forms = RectangleForms(
        band=Band(rows=rows, keys=keys, left=left, right=right, shift=keys - rows), met=met, loads=loads, kept=kept,
        words=room, per_score=per_score, per_row=per_row, row_unit=row_unit, key_unit=key_unit, limit=most,
    )  # fmt: skip
    words, found = (values[place] for values in best_rectangles(forms))
    some = found < NOTHING
    rows = np.minimum(found, cases.rows)
    return np.where(some, common * np.where(some, words, 0), NOTHING), rows, tiles.keys_beside(rows, cases)


def _different(table: Ints) -> tuple[Ints, Ints]:
    """The different columns of a table, and for every column which one it is.

    Columns are told apart by one number each, which is sorted far more quickly than they are.
    """
    multipliers = np.random.default_rng(0).integers(2**63, size=len(table), dtype=np.uint64)
    mixed = (table.astype(np.uint64) * multipliers[:, None]).sum(axis=0)
    _, first, place = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(table[:, first[place]], table):  # two columns with the same number
        different, place = np.unique(table, axis=1, return_inverse=True)
        return different, place.ravel()
    return table[:, first], place


def score_floor(cases: Cases, tiles: ScoreTiles) -> Floats:
    """As ``RectangleWords.floor``."""
    band, room = cases.band, np.maximum(tiles.words, 1) * 1.0
    balanced = np.sqrt(tiles.loads * 1.0 * tiles.met * tiles.per_score / room)
    most_kept = tiles.kept * np.where(tiles.kept > 0, cases.rows, band.touched_rows)
    spread = band.scores * (tiles.loads * tiles.per_row / room + 2 * balanced) - most_kept
    once = (tiles.met - tiles.kept) * band.touched_rows + tiles.loads * band.touched_keys
    return np.asarray(np.maximum(once, spread))


def output_fits(cases: Cases, extra: int) -> NDArray[np.bool_]:
    """Where there is room for the smallest tile of outputs, one column wide."""
    most = (cases.fast_words - 1) // ((1 + extra) * cases.intermediate_words)
    return np.asarray(largest_sizes(most, cases.rows, cases.row_unit) >= 1)


def output_floor(cases: Cases, extra: int) -> Floats:
    """As ``search.columns.output_floor``."""
    room, dv, w = np.maximum(cases.fast_words - 1, 1) * 1.0, cases.value_dim, cases.intermediate_words
    reads, scores = np.maximum(1.0, dv / np.sqrt(room)), cases.band.scores
    spread = scores * w * (reads + dv * (dv / reads + extra) / room)
    return np.asarray(np.maximum(scores * w + dv * cases.band.touched_keys, spread))
