"""Rings of keys, or of rows, and sums of rows under masks that stay or take turns, for many cases at once."""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.sweeping.cases import Cases, Ints, take
from attenio.planning.words import band_turns
from attenio.planning.words import causal_sums as causal
from attenio.planning.words.all_keys import AllKeys, best_all_keys
from attenio.planning.words.all_keys import held_words as held_with_keys
from attenio.planning.words.band_turns import BandTurns
from attenio.planning.words.causal_sums import MOST_TILES, CausalSums
from attenio.planning.words.form import KeyRing
from attenio.planning.words.row_ring import RowRing, held_words, ring_rows
from attenio.planning.words.turn_rooms import FEW, NEVER


def _ring_of(cases: Cases, phase: KeyRing | RowRing) -> tuple[Ints, Ints]:
    """Slots of a ring that is large enough, and words that it holds."""
    if isinstance(phase, KeyRing):
        ring = np.maximum(cases.band.longest_row, 1)
        return ring, np.asarray(ring * phase.per_slot + phase.beside)
    rows = ring_rows(cases.band)
    return np.asarray(rows.of_two), np.asarray(held_words(phase, rows, rows.of_two))


def best_of_ring(cases: Cases, phase: KeyRing | RowRing) -> tuple[Ints, Ints, dict[str, Ints]]:
    """No words, for none come again, those held, and slots, in cases in which they fit."""
    ring, held = _ring_of(cases, phase)
    return 0 * ring, held, {phase.slots: ring}


def ring_floor(cases: Cases, phase: KeyRing | RowRing) -> NDArray[np.float64]:
    """Nothing comes again; infinite where a ring does not fit."""
    return np.where(_ring_of(cases, phase)[1] <= cases.fast_words, 0.0, np.inf)


def moves_on(cases: Cases) -> NDArray[np.bool_]:
    """Where one mask is causal, and not all rows need all keys."""
    band = cases.band
    causal = (band.right == 0) & (band.end_key(0 * band.rows) < band.keys) & np.logical_not(band.is_window)
    return np.asarray(causal)


def best_of_causal(cases: Cases, phase: CausalSums) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words that come again, those held, and tiles, in causal cases in which some fit."""
    shape = np.asarray(cases.rows), np.asarray(cases.keys)
    words, sizes = best_of_many(phase, shape, cases.fast_words)
    tiles = dict(zip(phase[:4], (np.asarray(each) for each in sizes), strict=True))
    return np.asarray(words), np.asarray(causal.held_words(phase, shape, sizes)), tiles


def best_of_many(phase: CausalSums, shape: tuple[Ints, Ints], fast_words: Counts) -> tuple[Ints, causal.Sizes]:
    """As ``best_causal_sums`` for every case: those of few keys and those of many by themselves."""
    keys, (longest, most) = shape[1], causal.most_that_fit(phase, shape, fast_words)
    fits = longest >= keys
    every = causal.all_last(phase, shape, fast_words)
    words = np.where(fits, causal.words_of_turns(phase, shape, every), NEVER)
    sizes = causal.Sizes(*(np.where(fits, each, 0) for each in every))
    few_tiles = ~fits & (most >= 1) & (ceil_div(keys - longest, np.maximum(most, 1)) <= MOST_TILES)
    for of_few_keys in (True, False):
        index = np.flatnonzero(few_tiles & ((keys <= FEW) == of_few_keys))
        if index.size:
            least, best = causal.best_of_few_tiles(*take((phase, shape, fast_words), index))
            for every, some in zip((words, *sizes), (least, *best), strict=True):
                every[index] = some
    return words, sizes


def best_of_all_keys(cases: Cases, phase: AllKeys) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words of rows that come again, those held, and tiles, in causal cases in which all keys fit."""
    shape = np.asarray(cases.rows), np.asarray(cases.keys)
    words, sizes = best_all_keys(phase, shape, cases.fast_words)
    tiles = {name: np.asarray(size) for name, size in zip(phase[:2], sizes, strict=True)}
    return np.asarray(words), np.asarray(held_with_keys(phase, shape, sizes)), tiles


def steps_of(cases: Cases, phase: BandTurns) -> band_turns.Steps:
    """The bands as what passes sees them."""
    return band_turns.seen(cases.band, cases.group, across=phase.across)


def best_of_turns(cases: Cases, phase: BandTurns, limit: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words that come again, those held, and tiles, in cases in which some sums take turns; beyond the limit, any."""
    steps = steps_of(cases, phase)
    words, sizes = band_turns.best_of_many(phase, steps, cases.fast_words, limit)
    held = band_turns.held_words(phase, steps, sizes)
    return words, np.asarray(held), dict(zip(phase[:3], sizes, strict=True))
