"""Rings of keys, or of rows, for many cases at once: their slots, and where they fit."""

import numpy as np
from numpy.typing import NDArray

from attenio.planning.sweeping.cases import Cases, Ints
from attenio.planning.words.form import KeyRing
from attenio.planning.words.row_ring import RowRing, held_words, ring_rows


def ring_of(cases: Cases, phase: KeyRing | RowRing) -> tuple[Ints, Ints]:
    """Slots of a ring that is large enough, and words that it holds."""
    if isinstance(phase, KeyRing):
        ring = np.maximum(cases.band.longest_row, 1)
        return ring, np.asarray(ring * phase.per_slot + phase.beside)
    rows = ring_rows(cases.band)
    return np.asarray(rows.of_two), np.asarray(held_words(phase, rows, rows.of_two))


def ring_fits(cases: Cases, phase: KeyRing | RowRing) -> NDArray[np.bool_]:
    """Where a ring fits, and the mask is one for it."""
    fits = ring_of(cases, phase)[1] <= cases.fast_words
    if isinstance(phase, RowRing):  # where not all rows need all keys
        fits &= cases.band.end_key(0 * cases.rows) < cases.band.keys
    return np.asarray(fits)
