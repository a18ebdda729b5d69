"""The search of ``search.rectangles`` for many cases at once: the same floors, the same answer."""

import numpy as np
from numpy.typing import NDArray

from attenio.granularity import Granularity
from attenio.masks.patterns import Band
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room
from attenio.planning.sweeping.cases import NOTHING, Ints, batches, different, is_zero, single, spread, take
from attenio.planning.sweeping.floors import RectangleForms, balanced_rows, range_worth_trying, ranges_worth_trying
from attenio.planning.sweeping.room import largest_sizes, rounded_down, rounded_up
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles

_AT_ONCE = 2**18
# A case with more rows to try than this is searched by itself.
_TOO_MANY = 2**11


def best_score_tiles(forms: RectangleForms) -> tuple[Ints, Ints, Ints]:
    """Words, rows and keys of the best tiles within the limit; no words where there is none.

    Cases that differ in nothing that matters here are searched once.
    """
    band = forms.band
    if not len(band.rows):
        return band.rows, band.rows, band.rows
    common = np.gcd(np.gcd(forms.visits, forms.loads), forms.saved)
    costs = [weight // common for weight in (forms.visits, forms.loads)]
    optional = (0 if is_zero(forms.saved) else forms.saved // common, forms.row_unit, forms.key_unit)
    sizes = (band.rows, band.keys, band.left, band.right, forms.words, forms.per_score, forms.per_row, *costs)
    arrays = [values for values in optional if isinstance(values, np.ndarray)]
    columns, place = different(np.stack(np.broadcast_arrays(*sizes, *arrays)))
    rows, keys, left, right, words, per_score, per_row, visits, loads, *rest = columns
    saved, row_unit, key_unit = (rest.pop(0) if isinstance(values, np.ndarray) else values for values in optional)
    limit = np.full(columns.shape[1], -NOTHING, dtype=np.int64)
    np.maximum.at(limit, place, forms.limit // common)
    bands = Band(rows=rows, keys=keys, left=left, right=right, shift=keys - rows)
    different_ones = RectangleForms(
        band=bands, visits=visits, loads=loads, saved=saved, words=words, per_score=per_score, per_row=per_row,
        row_unit=row_unit, key_unit=key_unit, limit=limit,
    )  # fmt: skip
    best_words, best_rows = (values[place] for values in best_rectangles(different_ones))
    fits = best_rows < NOTHING
    rows = np.minimum(best_rows, band.rows)
    return np.where(fits, common * np.where(fits, best_words, 0), NOTHING), rows, forms.keys_beside(rows)


def best_rectangles(forms: RectangleForms) -> tuple[Ints, Ints]:
    """Fewest words and fewest rows for every case, in all of which a row and a key must fit.

    No words where all tiles exceed the limit.
    """
    band = forms.band
    most = forms.most_rows()
    single_run = largest_sizes(np.minimum(_single_run_rows(forms), most), band.rows, forms.row_unit)
    words, rows = forms.limit.copy(), np.full(len(most), NOTHING, dtype=np.int64)
    short = np.flatnonzero(single_run >= 1)
    if short.size:
        few = take(forms, short)
        rows_only = RowForms(band=few.band, live=few.visits - few.saved, loads=few.loads, unit=few.row_unit)
        moved, tiles = best_row_tiles(rows_only, single_run[short])
        within = moved <= words[short]
        words[short[within]], rows[short[within]] = moved[within], tiles[within]
    left = np.flatnonzero(single_run < most)
    if left.size:
        best = _search(take(forms, left), single_run[left] + 1, most[left], (words[left], rows[left]))
        words[left], rows[left] = best
    return np.where(rows == NOTHING, NOTHING, words), rows


def _single_run_rows(forms: RectangleForms) -> Ints:
    """As in ``search.rectangles``: the most rows beside which all keys that they need fit."""
    # a key tile that is a multiple of its unit must hold them too
    band, more_keys = forms.band, forms.band.left + forms.band.right + forms.key_unit - 1
    fits = forms.words // (forms.per_row + band.keys * forms.per_score)
    linear = more_keys * forms.per_score + forms.per_row
    guess = (np.sqrt(linear * 1.0 * linear + 4.0 * forms.per_score * forms.words) - linear) / (2.0 * forms.per_score)
    rows = np.maximum(guess.astype(np.int64) - 1, 0)
    for _ in range(3):  # the root is rounded: step up to the last one that fits
        more = rows + 1
        rows = np.where(more * ((more + more_keys) * forms.per_score + forms.per_row) <= forms.words, more, rows)
    return np.asarray(np.where(more_keys < band.keys, np.maximum(fits, rows), fits))


def _search(forms: RectangleForms, least: Ints, most: Ints, best: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    (words, rows), unit = best, forms.row_unit
    guess = np.clip(np.round(balanced_rows(forms)).astype(np.int64), least, most)
    even = np.maximum(ceil_div(forms.band.rows, ceil_div(forms.band.rows, guess)), least)
    for tried in (guess, even):
        tried = np.minimum(rounded_up(tried, unit), most)
        moved = forms.moved(tried)
        better = (moved < words) | ((moved == words) & (tried < rows))
        words, rows = np.where(better, moved, words), np.where(better, tried, rows)
    least, most = range_worth_trying(forms, words, least, most)
    owner, first, last = ranges_worth_trying(forms, words, least, most)
    # Rows that there are: from the first multiple of the unit to the last, or to all rows.
    height, step = forms.band.rows[owner], take(unit, owner)
    first = np.minimum(rounded_up(first, step), height)
    last = np.where(last == height, last, rounded_down(last, step))
    counts = np.maximum(ceil_div(last - first, step) + 1, 0)
    # Dense: only how many query tiles there are matters, and fewer rows leave more room for keys.
    fewest = ceil_div(height, np.maximum(last, 1))
    tiles = np.maximum(ceil_div(height, first) - fewest + 1, 0)
    collapsed = forms.band.is_dense[owner] & (tiles < counts)
    counts = np.where(collapsed, tiles, counts)
    counts[_alone(forms, owner, counts, (words, rows))] = 0
    chosen = np.flatnonzero(counts)
    for part in batches(counts[chosen], _AT_ONCE):
        some = chosen[part]
        place, number = spread(counts[some])
        place = some[place]
        each = take(step, place)
        by_count = rounded_up(ceil_div(height[place], fewest[place] + number), each)
        tried = np.where(collapsed[place], by_count, first[place] + number * each)
        tried = np.clip(tried, first[place], last[place])
        words, rows = _best_of(forms, owner[place], tried, (words, rows))
    return words, rows


def _alone(forms: RectangleForms, owner: Ints, counts: Ints, best: tuple[Ints, Ints]) -> NDArray[np.bool_]:
    """Search the cases with too many rows to try one by one; returns which ranges are theirs."""
    words, rows = best
    total = np.bincount(owner, weights=counts, minlength=len(words))
    for index in np.flatnonzero(total > _TOO_MANY).tolist():
        words[index], rows[index] = _best_alone(forms, index, (int(words[index]), int(rows[index])))
    return np.asarray(total[owner] > _TOO_MANY)


def _best_of(forms: RectangleForms, owner: Ints, tried: Ints, best: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The best of the rows tried for their owners: those that floors leave, the most promising of each first."""
    words, rows = best
    items = take(forms, owner)
    floors = items.floor(tried)
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    least = np.minimum.reduceat(floors, starts.astype(np.intp, copy=False))
    promising = floors == np.repeat(least, np.diff(starts, append=len(owner)))
    for chosen in (promising, ~promising):
        good = np.flatnonzero(chosen & (floors <= words[owner]))
        if good.size:
            words, rows = _take_best(take(items, good).moved(tried[good]), tried[good], owner[good], (words, rows))
    return words, rows


def _take_best(moved: Ints, tried: Ints, owner: Ints, best: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    words, rows = best[0].copy(), best[1].copy()
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    lengths = np.diff(starts, append=len(owner))
    fewest = np.minimum.reduceat(moved, starts.astype(np.intp, copy=False))
    smallest = np.minimum.reduceat(
        np.where(moved == np.repeat(fewest, lengths), tried, NOTHING), starts.astype(np.intp, copy=False)
    )
    who = owner[starts]
    better = (fewest < words[who]) | ((fewest == words[who]) & (smallest < rows[who]))
    words[who[better]], rows[who[better]] = fewest[better], smallest[better]
    return words, rows


def _best_alone(forms: RectangleForms, index: int, known: tuple[int, int]) -> tuple[int, int]:
    visits, loads, saved = (int(take(values, index)) for values in (forms.visits, forms.loads, forms.saved))
    granularity = Granularity(rows=int(take(forms.row_unit, index)), keys=int(take(forms.key_unit, index)))
    form = RectangleWords(problems=single(forms.band, index, granularity), visits=visits, loads=loads, saved=saved)
    words, per_score, per_row = (int(take(values, index)) for values in (forms.words, forms.per_score, forms.per_row))
    best = best_rectangle(form, (Room(words=words, per_score=per_score, per_row=per_row),), known[0])
    return known if best is None else (best.words, best.rows)
