"""Best forward plans of many cases: every dataflow that can move the least, in the order in which equals are preferred.

The same floors rule out the same dataflows as in ``contest``. FLAT wins on next to no machine (rows of three keys, a
memory of a few words); where it may, a case is handed back to be planned alone.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.patterns.sums import ceil_div
from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.choices import HeadForms, best_head_tiles, best_output_tiles
from attenio.planning.sweeping.operators import Floats, ScoreTiles, output_fits, output_floor, score_floor, score_tiles
from attenio.planning.sweeping.rooms import Rooms, key_room, largest_sizes, row_room
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.sweeping.solution import Solution

__all__ = ["solve_forward", "standard_floor", "standard_plans"]

_ROUNDING = 1 - 1e-12


def solve_forward(cases: Cases, best: Solution) -> NDArray[np.bool_]:
    """Offer the plans of every dataflow; returns which cases have to be planned alone."""
    _attenio(cases, best)
    _stacked_groups(cases, best)
    _flash_attention_1(cases, best)
    _rank_one_tiling(cases, best)
    _score_stationary(cases, best)
    _standard(cases, best)
    return _flat_may_win(cases)


def _room(cases: Cases) -> Rooms:
    """Room for a row with its query, output, three statistics and scores, and for a buffer that a key goes through."""
    d, dv, w = cases.d, cases.value_dim, cases.intermediate_words
    return Rooms(words=cases.fast_words, per_score=w, per_row=d + (dv + 3) * w, per_key=np.maximum(d, dv))


def _attenio(cases: Cases, best: Solution) -> None:
    most = row_room(cases, _room(cases))
    index = np.flatnonzero(most >= 1)
    few = cases.take(index)
    room = _room(few)
    forms = RowForms(band=few.band, live=few.d, loads=few.d + few.value_dim, unit=few.row_unit)
    words, tiles = best_row_tiles(forms, most[index])
    words = few.group * (words + few.rows * few.value_dim)
    keys = key_room(few, room, tiles)
    best.offer(index, Dataflow.ATTENIO, words, room.taken(tiles, keys), query_tile=tiles, key_tile=keys)


def _stacked_groups(cases: Cases, best: Solution) -> None:
    index = np.flatnonzero((cases.group > 1) & (row_room(cases, _room(cases)) >= 1))
    few = cases.take(index)
    room = _room(few)
    forms = HeadForms(cases=few, live=few.group * few.d, loads=few.d + few.value_dim, room=room)
    words, heads, tiles = best_head_tiles(forms)
    keys = key_room(few, room, heads * tiles)
    words = words + few.group * few.rows * few.value_dim
    sizes = {"query_tile": tiles, "head_tile": heads, "key_tile": keys}
    best.offer(index, Dataflow.STACKED_GROUPS, words, room.taken(heads * tiles, keys), **sizes)


def _flash_attention_1(cases: Cases, best: Solution) -> None:
    d, dv, w, band = cases.d, cases.value_dim, cases.intermediate_words, cases.band
    both, visit = d + dv, d + 2 * (dv + 2) * w
    room = Rooms(words=cases.fast_words, per_score=w, per_row=both, per_key=_room(cases).per_row)
    most = row_room(cases.transposed, room)
    fixed = band.touched_keys * both + cases.group * (cases.rows * dv - band.touched_rows * 2 * (dv + 2) * w)
    visits = np.maximum(band.touched_rows, ceil_div(band.scores, np.maximum(most, 1)))
    index = np.flatnonzero((most >= 1) & (fixed + cases.group * visit * visits < best.words))
    few, room = cases.take(index), room.take(index)
    forms = RowForms(band=few.band.transposed, live=0 * few.rows, loads=few.group * visit[index], unit=few.key_unit)
    words, keys = best_row_tiles(forms, most[index])
    tiles = key_room(few.transposed, room, keys)
    peak = room.taken(keys, tiles)
    best.offer(index, Dataflow.FLASH_ATTENTION_1, words + fixed[index], peak, query_tile=tiles, key_tile=keys)


def _flat_may_win(cases: Cases) -> NDArray[np.bool_]:
    """Where FLAT holds rows that attenio has no room for, which would read the same keys with less."""
    d, dv, w, memory = cases.d, cases.value_dim, cases.intermediate_words, cases.fast_words
    buffer = np.maximum(d, dv)
    complete = (memory - np.maximum(buffer, 2 * w)) // (d + cases.keys * w + dv * w)
    complete = largest_sizes(complete, cases.rows, cases.row_unit)
    one_row = (cases.row_unit == 1) | (cases.rows == 1)
    spilling = (one_row & (memory - d - dv * w - buffer >= 3 * w)) * 1
    return np.asarray(np.maximum(complete, spilling) > row_room(cases, _room(cases)))


def _rank_one_tiling(cases: Cases, best: Solution) -> None:
    w, zero = cases.intermediate_words, 0 * cases.d
    room = cases.fast_words - 1
    fixed = cases.band.scores * w + cases.rows * (2 * w + cases.value_dim)
    tiles = ScoreTiles(met=cases.d, loads=cases.d, kept=zero, words=room, per_score=w, per_row=1 + w)
    floor = fixed + score_floor(cases, tiles) + output_floor(cases, 3)
    fits = tiles.fits(cases) & output_fits(cases, 3)
    index = np.flatnonzero(fits & (cases.group * floor * _ROUNDING < best.words))
    few, fixed, w = cases.take(index), fixed[index], w[index]
    outputs, output_rows, columns = best_output_tiles(few, 3)
    limit = (best.words[index] - 1) // few.group - fixed - outputs
    products, rows, keys = score_tiles(few, tiles.take(index), limit)
    found = products < NOTHING
    words = np.where(found, few.group * (fixed + np.where(found, products, 0) + outputs), NOTHING)
    peak = np.maximum(rows * keys * w + rows * (1 + w) + 1, output_rows * (columns + 3) * w + 1)
    sizes = {"score_rows": rows, "score_keys": keys, "output_rows": output_rows, "output_columns": columns}
    best.offer(index, Dataflow.RANK_ONE_TILING, words, peak, **sizes)


def _score_stationary(cases: Cases, best: Solution) -> None:
    d, dv, w = cases.d, cases.value_dim, cases.intermediate_words
    carried, own = 2 * w * dv, cases.rows * dv
    tiles = ScoreTiles(
        met=d + carried, loads=d + dv, kept=carried, words=cases.fast_words - 1, per_score=w, per_row=4 * w
    )
    floor = own + score_floor(cases, tiles)
    index = np.flatnonzero(tiles.fits(cases) & (cases.group * floor * _ROUNDING < best.words))
    few, own, w = cases.take(index), own[index], w[index]
    products, rows, keys = score_tiles(few, tiles.take(index), (best.words[index] - 1) // few.group - own)
    found = products < NOTHING
    words = np.where(found, few.group * (own + np.where(found, products, 0)), NOTHING)
    peak = rows * (keys + 4) * w + 1
    best.offer(index, Dataflow.SCORE_STATIONARY, words, peak, query_tile=rows, key_tile=keys)


def _standard(cases: Cases, best: Solution) -> None:
    index = np.flatnonzero(standard_floor(cases) * _ROUNDING < best.words)
    words, peak, sizes = standard_plans(cases.take(index))
    best.offer(index, Dataflow.STANDARD, words, peak, **sizes)


def standard_floor(cases: Cases) -> Floats:
    """Words that no tiles of standard attention go below; infinite where none fit."""
    every, w = cases.unmasked, cases.intermediate_words
    tiles = _standard_scores(cases)
    fits = tiles.fits(cases) & (cases.fast_words >= 3 * w) & output_fits(cases, 1)
    words = 3 * every.band.scores * w + score_floor(every, tiles) + output_floor(every, 1)
    return np.where(fits, cases.group * (words + cases.rows * cases.value_dim), np.inf)


def standard_plans(cases: Cases) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words, peak and tiles of standard attention, in cases in which it fits."""
    every, w, dv = cases.unmasked, cases.intermediate_words, cases.value_dim
    products, rows, keys = score_tiles(every, _standard_scores(cases), np.full(len(cases), NOTHING - 1))
    outputs, output_rows, columns = best_output_tiles(every, 1)
    resident = np.minimum(cases.fast_words // w - 3, cases.keys)
    softmax = (3 * every.band.scores + cases.rows * (cases.keys - resident)) * w  # written, read in part twice, written
    words = cases.group * (products + softmax + outputs + cases.rows * dv)
    peak = np.maximum(rows * keys * w + rows + 1, (resident + 3) * w)
    peak = np.maximum(peak, output_rows * (columns + 1) * w + 1)
    sizes = {"score_rows": rows, "score_keys": keys, "resident_keys": resident}
    return words, peak, {**sizes, "output_rows": output_rows, "output_columns": columns}


def _standard_scores(cases: Cases) -> ScoreTiles:
    d, w = cases.d, cases.intermediate_words
    return ScoreTiles(met=d, loads=d, kept=0 * d, words=cases.fast_words - 1, per_score=w, per_row=0 * d + 1)
