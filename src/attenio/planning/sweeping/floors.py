"""Floors of ``search.floors`` for many cases at once: the rows of each that can still stay within given words."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.search.floors import least_resident_keys
from attenio.planning.sweeping.cases import Ints, is_zero, spread, take
from attenio.planning.sweeping.room import largest_sizes

_ROUNDS = 4
_ROOT_SLACK = 1e-7
_SLACK = 1e-12
# Ranges up to this length are not cut further, others into this many parts.
_SHORT = 64
_PARTS = 8
_CUTS = 6

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RectangleForms:
    """Words of every case as a function of its tile, and the room for it (see ``RectangleWords`` and ``Room``).

    Tiles of more words than ``limit`` do not count.
    """

    band: Band
    visits: Counts
    loads: Counts
    saved: Counts
    words: Ints
    per_score: Counts
    per_row: Counts
    row_unit: Counts
    key_unit: Counts
    limit: Ints
    may_pass: bool = False

    def keys_beside(self, rows: Ints) -> Ints:
        """The largest key tile that fits beside these rows."""
        most = (self.words - rows * self.per_row) // (rows * self.per_score)
        return largest_sizes(most, self.band.keys, self.key_unit)

    def moved(self, rows: Ints) -> Ints:
        """Words with these rows and as many keys as fit."""
        words = self.visits * self.band.tile_rows(rows, self.keys_beside(rows)) + self.loads * self.band.key_loads(rows)
        return np.asarray(words if is_zero(self.saved) else words - self.saved * self.band.live_rows(rows))

    def floor(self, rows: Ints) -> Ints:
        """Numbers that the words with these rows do not go below."""
        loads = self.band.key_loads(rows)
        words = self.visits * self.band.tile_rows_floor(rows, self.keys_beside(rows), loads) + self.loads * loads
        return np.asarray(words if is_zero(self.saved) else words - self.saved * self.band.live_rows(rows))

    def most_rows(self) -> Ints:
        """The most rows beside the smallest key tile; less than one where none fit."""
        beside = self.per_row + np.minimum(self.key_unit, self.band.keys) * self.per_score
        return largest_sizes(self.words // beside, self.band.rows, self.row_unit)


def form_floors(forms: RectangleForms) -> Floats:
    """As ``RectangleWords.floor``; infinite where nothing fits."""
    band, room = forms.band, np.maximum(forms.words, 1) * 1.0
    balanced = np.sqrt(forms.loads * 1.0 * forms.visits * forms.per_score / room)
    most_saved = 0 if is_zero(forms.saved) else forms.saved * np.where(forms.saved > 0, band.rows, band.touched_rows)
    spread = band.scores * (forms.loads * forms.per_row / room + 2 * balanced) - most_saved
    if forms.may_pass:
        spread = np.maximum(spread, _resident_floors(forms, room) - most_saved)
    once = (forms.visits - forms.saved) * band.touched_rows + forms.loads * band.touched_keys
    return np.where(forms.most_rows() >= 1, np.maximum(once, spread), np.inf)


def _resident_floors(forms: RectangleForms, room: Floats) -> Floats:
    """Words of a tile with as many keys as statistics have to stay beside to pay (``least_resident_keys``)."""
    band = forms.band
    keys = least_resident_keys((forms.visits, -forms.saved), band.scores, band.rows)
    keys = np.maximum(keys, np.sqrt(forms.visits * room / (forms.loads * forms.per_score)))
    apart = forms.visits / keys + forms.loads * (keys * forms.per_score + forms.per_row) / room
    return np.where(forms.key_unit == 1, band.scores * apart * (1 - _SLACK), 0.0)


def balanced_rows(forms: RectangleForms) -> Floats:
    """The real number of rows at which visits/b + loads/a is least."""
    ratio = np.sqrt(forms.loads / (forms.words * 1.0 * forms.visits * forms.per_score))
    return np.asarray(forms.words * ratio / (1 + forms.per_row * ratio))


def range_worth_trying(forms: RectangleForms, words: Ints, least: Ints, most: Ints) -> tuple[Ints, Ints]:
    """As in ``search.floors``: limits outside of which the convex floor exceeds the words."""
    band = forms.band
    for _ in range(_ROUNDS):
        covered = _least_covered(band, least, most)
        for constant, area, lost in band.key_load_floors:
            spare = words + _most_saved(forms, most) * 1.0 - forms.loads * 1.0 * (constant - lost * most)
            squared = forms.visits * covered * forms.per_score + spare * forms.per_row
            linear = -forms.loads * 1.0 * area * forms.per_row - spare * forms.words
            fixed = forms.loads * 1.0 * area * forms.words
            within = np.maximum(linear * linear - 4 * squared * fixed, 0.0)
            top = (np.sqrt(within) - linear * (1 + _ROOT_SLACK)) / (2 * np.maximum(squared, 1e-300))
            sound = (squared > 0) & (linear < 0)
            low = np.floor(fixed / np.where(sound, squared * top, 1.0) * (1 - _ROOT_SLACK)) - 1
            high = np.minimum(np.floor(top * (1 + _ROOT_SLACK)) + 2, most)
            least = np.where(sound, np.maximum(least, low), least).astype(np.int64)
            most = np.where(sound, high, most).astype(np.int64)
    return least, most


def ranges_worth_trying(forms: RectangleForms, words: Ints, least: Ints, most: Ints) -> tuple[Ints, Ints, Ints]:
    """The parts of every case's range in which floors stay within the words: owner, first and last rows."""
    owner = np.flatnonzero(least <= most)
    first, last = least[owner], most[owner]
    for _ in range(_CUTS):
        long = last - first >= _SHORT
        if not long.any():
            break
        owner, first, last = _cut(owner, first, last, np.where(long, _PARTS, 1))
        floors = _interval_floors(take(forms, owner), first, last)
        keep = floors * (1 - _SLACK) <= words[owner]
        owner, first, last = owner[keep], first[keep], last[keep]
    return owner, first, last


def _cut(owner: Ints, first: Ints, last: Ints, parts: Ints) -> tuple[Ints, Ints, Ints]:
    """Ranges cut into parts, longer ones towards the end: where rows are many, a few more matter less."""
    place, number = spread(parts)
    whole = (last + 1)[place] / first[place]
    edges = first[place] * whole ** (number / parts[place]), first[place] * whole ** ((number + 1) / parts[place])
    start = np.where(number == 0, first[place], np.ceil(edges[0]).astype(np.int64))
    stop = np.where(number == parts[place] - 1, last[place], np.ceil(edges[1]).astype(np.int64) - 1)
    full = start <= stop
    return owner[place][full], start[full], stop[full]


def _interval_floors(forms: RectangleForms, least: Ints, most: Ints) -> Floats:
    """For each range of rows a number that no tile in it goes below."""
    band, keys = forms.band, forms.keys_beside(least)
    loads = band.touched_keys * 1.0
    for constant, area, lost in band.key_load_floors:
        loads = np.maximum(loads, constant + area / most - lost * most)
    alike = np.maximum(band.level_rows - 2 * most, 0) * ceil_div(least + band.left + band.right, keys)
    visits = np.maximum(np.maximum(_least_covered(band, least, most) / keys, band.touched_rows), alike)
    saved = _most_saved(forms, most)
    carried = np.maximum(forms.visits * visits - saved, (forms.visits - forms.saved) * band.touched_rows)
    return np.asarray(forms.loads * loads + carried)


def _most_saved(forms: RectangleForms, most: Ints) -> Ints:
    """As ``RectangleWords.most_saved``: two tiles at most have rows that need no key beside others that do."""
    if is_zero(forms.saved):
        return 0 * most
    band = forms.band
    live = np.minimum(band.rows, band.touched_rows + 2 * (most - 1))
    return np.asarray(forms.saved * np.where(forms.saved > 0, live, band.touched_rows))


def _least_covered(band: Band, least: Ints, most: Ints) -> Floats:
    """Scores that tiles of ``least`` to ``most`` rows cover, at least."""
    ends, starts = band.moving_ends
    lengths, stretches = ends + starts, (ends > 0) * 1 + (starts > 0) * 1
    extra = np.minimum(*((rows - 1.0) * (lengths - 2.0 * rows * stretches) for rows in (least, most)))
    tiles = ceil_div(band.rows, np.maximum(least, 1)) + 1
    moves = np.maximum(lengths // 2 - tiles, 0) * 1.0
    return np.asarray(np.maximum(band.scores + np.maximum(extra, 0.0) / 2, moves * moves / tiles))
