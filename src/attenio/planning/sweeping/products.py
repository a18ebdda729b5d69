"""The best tiles of outputs made from stored scores: ``search.products`` for many cases at once."""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.heads import best_of_options, row_floors
from attenio.planning.sweeping.room import largest_sizes
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.words.cuts import column_tiles

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
    options = column_tiles(width)
    written = cases.band.scores * cases.intermediate_words
    forms = RowForms(band=cases.band, live=0, loads=width, unit=cases.row_unit)

    def most_rows(columns: int) -> Ints:
        fits = (cases.fast_words - 1) // ((columns + extra) * cases.intermediate_words)
        return largest_sizes(fits, cases.rows, cases.row_unit)

    def evaluate(option: Counts, index: Ints) -> tuple[Ints, ...]:
        words, rows = best_row_tiles(take(forms, index), most[option, index])
        return words + reads[option] * written[index], rows

    reads = np.array([count for count, _ in options], dtype=np.int64)
    most = np.stack([most_rows(columns) for _, columns in options])
    floors = [
        np.where(rows >= 1, count * written, 0) + row_floors(forms, rows)
        for count, rows in zip(reads, most, strict=True)
    ]
    return best_of_options(np.stack(floors), evaluate, 2)


def output_floor(cases: Cases, width: Counts, extra: int) -> Floats:
    """As ``search.products.least_words``; infinite where not even one column fits."""
    room, w = cases.fast_words - 1, cases.intermediate_words
    fits = largest_sizes(room // ((1 + extra) * w), cases.rows, cases.row_unit) >= 1
    size, written = np.maximum(room, 1) * 1.0, cases.band.scores * w
    reads = np.maximum(1.0, width / np.sqrt(size))
    spread = written * (reads + width * (width / reads + extra) / size)
    return np.where(fits, np.maximum(written + width * cases.band.touched_keys, spread), np.inf)
