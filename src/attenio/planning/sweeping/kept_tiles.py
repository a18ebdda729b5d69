"""The search of ``search.kept_tiles`` for many cases at once: dense ones turn by turn, others by the same floors."""

import numpy as np

from attenio.masks.patterns.sums import ceil_div
from attenio.planning.search.kept_tiles import Kept, best_masked, taken
from attenio.planning.sweeping.cases import Cases, Ints
from attenio.planning.words.form import KeptTile


def most_kept_rows(cases: Cases, phase: KeptTile) -> Ints:
    """Rows that fit beside one slot; less than one where none do."""
    return np.asarray(np.minimum((cases.fast_words - phase.beside - phase.per_slot) // phase.per_row, cases.rows))


def best_kept_tiles(cases: Cases, phase: KeptTile, limit: Ints) -> tuple[Ints, Ints, Ints]:
    """Fewest words, the tile that has them, and slots beside it, in cases in which some fit; beyond ``limit``, any."""
    every, most = 0 * cases.rows, most_kept_rows(cases, phase)
    fields = (phase.live, phase.loads, cases.fast_words - phase.beside, phase.per_row, phase.per_slot)
    kept = Kept(cases.band, *(value + every for value in fields))
    words, tiles = every + 0, every + 0
    dense = np.asarray(cases.band.is_dense)
    masked, whole = np.flatnonzero(~dense), np.flatnonzero(dense)
    if masked.size:
        words[masked], tiles[masked] = best_masked(taken(kept, masked), most[masked], limit[masked])
    if whole.size:
        words[whole], tiles[whole] = _best_dense(taken(kept, whole), most[whole])
    return words, tiles, np.asarray(kept.slots(tiles))


def _best_dense(kept: Kept, most: Ints) -> tuple[Ints, Ints]:
    rows, keys = kept.band.rows, kept.band.keys
    count = ceil_div(rows, most)
    tiles = ceil_div(rows, count)
    read = keys * count - np.minimum(kept.slots(tiles), keys) * (count - 1)
    every = kept.nothing_twice()
    at_once = np.flatnonzero((read > keys) & (every >= 1))
    read[at_once] = keys[at_once]
    tiles[at_once] = ceil_div(rows[at_once], ceil_div(rows[at_once], every[at_once]))
    slots = np.minimum(kept.slots(np.ones_like(rows)), keys)
    left = np.flatnonzero((read > keys) & (count < rows))
    while left.size:
        some = taken(kept, left)
        few, wide, often = rows[left], keys[left], count[left] + 1
        spare = (some.words * often - some.per_row * few) / (some.per_slot * often)
        least = np.maximum(
            wide * often - (often - 1) * np.minimum(wide, spare), wide + (often - 1) * (wide - slots[left])
        )
        on = least * (1 - 1e-12) < read[left]
        tile = ceil_div(few, often)
        found = wide * often - np.minimum(some.slots(tile), wide) * (often - 1)
        better = on & (found < read[left])
        read[left[better]], tiles[left[better]] = found[better], tile[better]
        count[left] = often
        left = left[on & (often < few) & (read[left] > wide)]
    return np.asarray(kept.live * rows + kept.loads * read), tiles
