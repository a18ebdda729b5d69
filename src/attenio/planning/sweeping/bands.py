"""Phases for bands alone, many cases at once: rows or keys that roll, exchanges, rings, causal sums, whole rows."""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.staircase import is_staircase
from attenio.planning.problems.counting import seen_by
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.rings import best_of_causal, best_of_ring, causal_floor, ring_floor
from attenio.planning.sweeping.rolling_tiles import best_rolling_tiles, rolling_of
from attenio.planning.sweeping.row_tiles import RowForms, best_whole_rows, most_whole_rows
from attenio.planning.words.causal_sums import CausalSums
from attenio.planning.words.exchanged_rows import (
    ExchangedRows,
    ExchangeSizes,
    best_exchanged_rows,
    exchanged_held,
    may_exchange,
)
from attenio.planning.words.form import KeyRing, OfBands, RollingTile, WholeRows
from attenio.planning.words.row_ring import RowRing


def best_of_band(cases: Cases, phase: OfBands) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Fewest words, those held, and tiles, in cases in which some fit."""
    match phase:
        case RollingTile():
            return _rolling(cases, phase)
        case ExchangedRows():
            return _exchanged(cases, phase)
        case KeyRing() | RowRing():
            return best_of_ring(cases, phase)
        case CausalSums():
            return best_of_causal(cases, phase)
        case WholeRows():
            return best_whole_rows(cases, phase)


def band_floors(cases: Cases, phase: OfBands) -> NDArray[np.float64]:
    """Words that no tiles go below; infinite where none fit, or the mask is not for them."""
    if isinstance(phase, KeyRing | RowRing):
        return ring_floor(cases, phase)
    if isinstance(phase, CausalSums):
        return causal_floor(cases, phase)
    floor, fits = _floor(cases, phase)
    return np.where(fits & (cases.row_unit == 1) & (cases.key_unit == 1), floor, np.inf)


def _floor(
    cases: Cases, phase: RollingTile | ExchangedRows | WholeRows
) -> tuple[Ints | NDArray[np.float64] | float, NDArray[np.bool_]]:
    """Words, and in which cases some tiles fit, whatever their units are."""
    band = cases.band
    match phase:
        case RollingTile():
            rolling = rolling_of(seen_by(cases, phase), phase)
            rolls = band.is_window if phase.across else band.end_key(0 * cases.rows) < band.keys
            return cases.group * rolling.floor(np.maximum(rolling.most, 1)), (rolling.most >= 1) & rolls
        case ExchangedRows():
            fits = np.asarray(may_exchange(phase, (cases.rows, cases.keys), cases.fast_words) & is_staircase(band))
            return cases.group * (phase.loads * cases.keys + phase.live * cases.rows), fits
        case WholeRows():
            most, _ = most_whole_rows(cases, phase)
            forms = RowForms(band=band, live=phase.live, loads=phase.loads, unit=1)
            return cases.group * forms.floor(np.maximum(most, 1)), (most >= 1) & band.is_window


def _rolling(cases: Cases, phase: RollingTile) -> tuple[Ints, Ints, dict[str, Ints]]:
    rolling = rolling_of(seen_by(cases, phase), phase)
    words, tile = best_rolling_tiles(rolling)
    slots = np.asarray(rolling.slots(tile))
    held, tiles = tile * phase.per_row + slots * phase.per_slot + phase.beside, {phase.tile: tile, phase.slots: slots}
    if phase.sums:
        tiles[phase.sums] = np.asarray(rolling.places(tile))
        held = held + tiles[phase.sums] * phase.per_sum
    return cases.group * words, held, tiles


def _exchanged(cases: Cases, phase: ExchangedRows) -> tuple[Ints, Ints, dict[str, Ints]]:
    shape = cases.rows, cases.keys
    words, sizes = best_exchanged_rows(phase, shape, cases.fast_words)
    some = ExchangeSizes(*(np.maximum(each, 1) for each in sizes))
    tiles = dict(zip((phase.tile, phase.exchanges, phase.last, phase.slots), some, strict=True))
    held = np.asarray(exchanged_held(phase, shape, some))
    return np.where(words < NOTHING, cases.group * words, NOTHING), held, tiles
