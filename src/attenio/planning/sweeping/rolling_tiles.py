"""The search of ``search.rolling_tiles`` for many cases at once, by the same floor."""

import numpy as np

from attenio.masks.patterns.sums import ceil_div
from attenio.planning.search.rolling_tiles import Rolling
from attenio.planning.sweeping.cases import Cases, Ints, take
from attenio.planning.words.form import RollingTile


def rolling_of(cases: Cases, phase: RollingTile) -> Rolling:
    """Bands, weights and rooms of the cases."""
    fields = (phase.live, phase.loads, cases.fast_words - phase.beside, phase.per_row, phase.per_slot)
    rolling = Rolling(cases.band, *(value + 0 * cases.rows for value in fields))
    rolling = rolling._replace(once=phase.once + 0 * cases.rows)
    if not phase.sums:
        return rolling
    per_sum, state = (value + 0 * cases.rows for value in (phase.per_sum, phase.state))
    return rolling._replace(per_sum=per_sum, state=state, waiting=True, ring=phase.ring)


def best_rolling_tiles(rolling: Rolling) -> tuple[Ints, Ints]:
    """Fewest words and the largest tile that has them, in cases in which some rows fit."""
    window, tiles = rolling.band.is_window, np.asarray(rolling.largest)
    words, left = np.asarray(rolling.moved(tiles)), np.flatnonzero(window & (tiles > 1))
    rolling, tile = take(rolling, left), tiles[left]
    while left.size:
        tile = np.asarray(ceil_div(rolling.needed, ceil_div(rolling.needed, tile - 1)))  # the next smaller one
        more = np.flatnonzero(rolling.floor(tile) < words[left])
        left, tile, rolling = left[more], tile[more], take(rolling, more)
        moved = np.asarray(rolling.moved(tile))
        better = np.flatnonzero(moved < words[left])
        words[left[better]], tiles[left[better]] = moved[better], tile[better]
        more = np.flatnonzero(tile > 1)
        if more.size < left.size:
            left, tile, rolling = left[more], tile[more], take(rolling, more)
    return words, tiles
