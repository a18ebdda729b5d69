"""The best tiles of outputs made from stored scores: ``search.products`` for many cases at once."""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import floor_div
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.heads import best_of_options, row_floors
from attenio.planning.sweeping.room import largest_sizes
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.words.cuts import column_tiles
from attenio.planning.words.form import Product

Floats = NDArray[np.float64]


def best_output_tiles(cases: Cases, width: Ints, extra: int) -> tuple[Ints, Ints, Ints]:
    """Words, rows and columns of the best tile of outputs of a width; no words where nothing fits."""
    words, rows = (np.full(len(cases), NOTHING, dtype=np.int64) for _ in range(2))
    for each in np.unique(width).tolist():
        chosen = np.flatnonzero(width == each)
        words[chosen], rows[chosen] = _best_of_width(take(cases, chosen), each, extra)
    columns = (cases.fast_words - 1) // (np.minimum(rows, cases.rows) * cases.intermediate_words) - extra
    return words, rows, np.minimum(columns, width)


def _best_of_width(cases: Cases, width: int, extra: int) -> list[Ints]:
    reads, columns = np.array(column_tiles(width), dtype=np.int64).T
    written = cases.band.scores * cases.intermediate_words
    forms = RowForms(band=cases.band, live=0, loads=width, unit=cases.row_unit)

    def evaluate(option: Counts, index: Ints) -> tuple[Ints, ...]:
        words, rows = best_row_tiles(take(forms, index), most[option, index])
        return words + reads[option] * written[index], rows

    most = _most_rows(cases, columns + extra)
    floors = np.where(most >= 1, np.multiply.outer(reads, written), 0) + row_floors(forms, most)
    return best_of_options(floors, evaluate, 2)


def _most_rows(cases: Cases, held: Ints) -> Ints:
    """Rows that fit with so many intermediates each, for every such number and every case."""
    room = np.broadcast_to(cases.fast_words - 1, (len(held), len(cases)))
    each = np.multiply.outer(held, np.broadcast_to(cases.intermediate_words, len(cases)))
    return largest_sizes(floor_div(room, each), cases.rows, cases.row_unit)


def best_settled_tiles(cases: Cases, phase: Product, later: str, limit: Ints) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Words of all heads, words held and tiles, where the first columns settle what the ``later`` ones read back.

    No words where nothing fits, and perhaps where nothing stays within the limit.
    """
    width, extra = np.broadcast_to(phase.width, len(cases)), phase.extra
    words, rows, others, columns = np.zeros((4, len(cases)), dtype=np.int64)
    words[:] = NOTHING
    for each in np.unique(width[width > 1]).tolist():
        chosen = np.flatnonzero(width == each)
        some = take(cases, chosen)
        found, *tiles = _best_settled_of_width(some, each, extra, limit[chosen] // some.group)
        good = np.flatnonzero(found < NOTHING)
        for mine, new in zip((words, rows, others, columns), (some.group * found, *tiles), strict=True):
            mine[chosen[good]] = new[good]
    held = np.maximum(rows * (columns + extra), others * (columns + extra - 1)) * cases.intermediate_words + 1
    return words, held, {phase.rows: rows, phase.columns: columns, later: others}


def _best_settled_of_width(cases: Cases, width: int, extra: int, limit: Ints) -> list[Ints]:
    reads, columns = np.array(column_tiles(width)[1:], dtype=np.int64).T

    def forms(some: Cases, loads: Counts) -> RowForms:
        return RowForms(band=some.band, live=0, loads=loads, unit=some.row_unit)

    def fixed(some: Cases, count: Counts) -> Ints:
        return np.asarray((count * some.band.scores + (count + 2) * some.rows) * some.intermediate_words)

    def evaluate(option: Counts, index: Ints) -> tuple[Ints, ...]:
        some, wide = take(cases, index), columns[option] + 0 * index
        first, rows = best_row_tiles(forms(some, wide), most[0][option, index])
        others, later = best_row_tiles(forms(some, width - wide), most[1][option, index])
        return fixed(some, reads[option]) + first + others, rows, later, wide

    most = [_most_rows(cases, columns + extra - fewer) for fewer in (0, 1)]
    wide = columns[:, None]
    first, others = (
        forms(cases, loads).floor(np.maximum(rows, 1)) for loads, rows in zip((wide, width - wide), most, strict=True)
    )
    floors = np.where(most[0] >= 1, fixed(cases, reads[:, None]) + first + others, NOTHING)
    return best_of_options(floors, evaluate, 4, limit)


def product_floor(cases: Cases, phase: Product) -> Floats:
    """Words of a head that no tiles go below; where the first columns settle statistics, of two reads at least."""
    if phase.later is None:
        return output_floor(cases, phase.width, phase.extra)
    w = cases.intermediate_words
    fits = largest_sizes((cases.fast_words - 1) // ((1 + phase.extra) * w), cases.rows, cases.row_unit) >= 1
    words = output_floor(cases, phase.width, phase.extra - 1, 2.0) + 4 * cases.rows * w
    return np.where(fits & (np.asarray(phase.width) > 1), words, np.inf)


def output_floor(cases: Cases, width: Counts, extra: int, fewest: float = 1.0) -> Floats:
    """As ``search.products.least_words``; infinite where not even one column fits."""
    room, w = cases.fast_words - 1, cases.intermediate_words
    fits = largest_sizes(room // ((1 + extra) * w), cases.rows, cases.row_unit) >= 1
    size, written = np.maximum(room, 1) * 1.0, cases.band.scores * w
    reads = np.maximum(fewest, width / np.sqrt(size))
    spread = written * (reads + width * (width / reads + extra) / size)
    return np.where(fits, np.maximum(fewest * written + width * cases.band.touched_keys, spread), np.inf)
