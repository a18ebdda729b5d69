"""Rings of keys, or of rows, and sums of causal rows that stay, for many cases at once."""

import numpy as np
from numpy.typing import NDArray

from attenio.planning.sweeping.cases import Cases, Ints
from attenio.planning.words.causal_sums import CausalSums, best_of_many
from attenio.planning.words.causal_sums import held_words as held_by_causal
from attenio.planning.words.form import KeyRing
from attenio.planning.words.row_ring import RowRing, held_words, ring_rows


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


def best_of_causal(cases: Cases, phase: CausalSums) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words that come again, those held, and tiles, in causal cases in which some fit."""
    shape = np.asarray(cases.rows), np.asarray(cases.keys)
    words, sizes = best_of_many(phase, shape, cases.fast_words)
    tiles = dict(zip(phase[:4], (np.asarray(each) for each in sizes), strict=True))
    return np.asarray(words), np.asarray(held_by_causal(phase, shape, sizes)), tiles
