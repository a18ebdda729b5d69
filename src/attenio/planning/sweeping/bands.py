"""Phases for bands alone, many cases at once: what rolls, exchanges, rings, causal sums, turns, and whole rows."""

import numpy as np
from numpy.typing import NDArray

from attenio.planning.problems.counting import seen_by, times_of
from attenio.planning.search.whole_tiles import least_read
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.rings import (
    best_of_all_keys,
    best_of_causal,
    best_of_ring,
    best_of_turns,
    ring_floor,
    steps_of,
)
from attenio.planning.sweeping.rolling_tiles import best_rolling_tiles, rolling_of
from attenio.planning.sweeping.row_tiles import best_whole_rows, room_of_whole_rows
from attenio.planning.words.all_keys import AllKeys, all_keys_floor, may_hold_all
from attenio.planning.words.band_turns import BandTurns, turns_floor
from attenio.planning.words.causal_sums import CausalSums, sums_floor
from attenio.planning.words.exchanged_rows import (
    ExchangedRows,
    ExchangeSizes,
    exchanged_held,
    may_exchange,
    ways_to_exchange,
)
from attenio.planning.words.form import KeyRing, OfBands, RollingTile, WholeRows
from attenio.planning.words.row_ring import RowRing


def best_of_band(cases: Cases, phase: OfBands, limit: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Fewest words, those held, and tiles, in cases in which some fit; beyond ``limit``, any."""
    match phase:
        case RollingTile():
            return _rolling(cases, phase)
        case ExchangedRows():
            return _exchanged(cases, phase, limit)
        case KeyRing() | RowRing():
            return best_of_ring(cases, phase)
        case CausalSums():
            return best_of_causal(cases, phase)
        case AllKeys():
            return best_of_all_keys(cases, phase)
        case BandTurns():
            return best_of_turns(cases, phase, limit)
        case WholeRows():
            return best_whole_rows(cases, phase)


def band_floors(cases: Cases, phase: OfBands) -> NDArray[np.float64]:
    """Words that no tiles go below; infinite where none fit."""
    match phase:
        case KeyRing() | RowRing():
            return ring_floor(cases, phase)
        case CausalSums():
            return np.asarray(sums_floor(phase, (cases.rows, cases.keys), cases.fast_words))
        case AllKeys():
            return _all_keys_floors(cases, phase)
        case BandTurns():
            return np.asarray(turns_floor(phase, steps_of(cases, phase), cases.fast_words))
        case RollingTile():
            rolling = rolling_of(seen_by(cases, phase), phase)
            words, fits = rolling.floor(rolling.largest), rolling.most >= 1
        case ExchangedRows():
            words = phase.loads * cases.keys + phase.live * cases.rows
            fits = may_exchange(phase, (cases.rows, cases.keys), cases.fast_words)
        case WholeRows():
            seen = seen_by(cases, phase)
            most = room_of_whole_rows(seen, phase).most
            words = phase.live * seen.band.touched_rows + phase.loads * least_read(seen.band, phase, most)
            return np.where(most >= 1, times_of(cases, phase) * words, np.inf)
    return np.where(fits, cases.group * words, np.inf)


def _all_keys_floors(cases: Cases, phase: AllKeys) -> NDArray[np.float64]:
    """Of the few cases in which all keys fit."""
    floors = np.full(len(cases), np.inf)
    index = np.flatnonzero(may_hold_all(phase, cases.keys, cases.fast_words))
    if index.size:
        some, of_some = take(cases, index), take(phase, index)
        floors[index] = all_keys_floor(of_some, (some.rows, some.keys), some.fast_words)
    return floors


def _rolling(cases: Cases, phase: RollingTile) -> tuple[Ints, Ints, dict[str, Ints]]:
    rolling = rolling_of(seen_by(cases, phase), phase)
    words, tile = best_rolling_tiles(rolling)
    slots = np.asarray(rolling.slots(tile))
    held, tiles = tile * phase.per_row + slots * phase.per_slot + phase.beside, {phase.tile: tile, phase.slots: slots}
    if phase.sums:
        tiles[phase.sums] = np.asarray(rolling.places(tile))
        held = held + tiles[phase.sums] * phase.per_sum
    return cases.group * words, held, tiles


def _exchanged(cases: Cases, phase: ExchangedRows, limit: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    shape = cases.rows, cases.keys
    words, sizes = best_of_exchanges(phase, shape, cases.fast_words, limit // cases.group)
    some = ExchangeSizes(*(np.maximum(each, 1) for each in sizes))
    tiles = dict(zip((phase.tile, phase.exchanges, phase.last, phase.slots), some, strict=True))
    held = np.asarray(exchanged_held(phase, shape, some))
    return np.where(words < NOTHING, cases.group * words, NOTHING), held, tiles


def best_of_exchanges(
    phase: ExchangedRows, shape: tuple[Ints, Ints], fast_words: Ints, limit: Ints
) -> tuple[Ints, ExchangeSizes]:
    """The fewest words and the sizes that move them, as ``best_exchanged_rows`` of each case."""
    begin = (limit - phase.live * shape[0]) // phase.loads + 1
    best, found = begin.copy(), ExchangeSizes(*np.zeros((4, len(begin)), dtype=np.int64))
    for exchanges in ways_to_exchange(phase, shape, fast_words):
        index = np.flatnonzero(exchanges.may_read_fewer(best))
        if index.size:
            read, sizes = take(exchanges, index).best(best[index])
            better = read < best[index]
            chosen = index[better]
            best[chosen] = read[better]
            for known, new in zip(found, sizes, strict=True):
                known[chosen] = new[better]
    return np.where(best < begin, phase.loads * best + phase.live * shape[0], NOTHING), found
