"""The best tiles of outputs made from stored scores: ``search.products`` for many cases at once."""

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
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
    options, w = column_tiles(width)[1:], cases.intermediate_words

    def most_rows(columns: int, held: int) -> Ints:
        return largest_sizes((cases.fast_words - 1) // ((columns + held) * w), cases.rows, cases.row_unit)

    def forms(some: Cases, loads: Counts) -> RowForms:
        return RowForms(band=some.band, live=0, loads=loads, unit=some.row_unit)

    def fixed(some: Cases, count: Counts) -> Ints:
        return np.asarray((count * some.band.scores + (count + 2) * some.rows) * some.intermediate_words)

    def evaluate(option: Counts, index: Ints) -> tuple[Ints, ...]:
        some, wide = take(cases, index), columns[option] + 0 * index
        first, rows = best_row_tiles(forms(some, wide), most[0][option, index])
        others, later = best_row_tiles(forms(some, width - wide), most[1][option, index])
        return fixed(some, reads[option]) + first + others, rows, later, wide

    def floor(count: int, wide: int, fits: tuple[Ints, Ints]) -> Ints:
        loads = wide, width - wide
        words = [row_floors(forms(cases, each), np.maximum(rows, 1)) for each, rows in zip(loads, fits, strict=True)]
        return np.where(fits[0] >= 1, fixed(cases, count) + words[0] + words[1], NOTHING)

    reads, columns = np.array(options, dtype=np.int64).T
    most = [np.stack([most_rows(each, extra - fewer) for each in columns.tolist()]) for fewer in (0, 1)]
    floors = [floor(*option, fits) for option, fits in zip(options, zip(*most, strict=True), strict=True)]
    return best_of_options(np.stack(floors), evaluate, 4, limit)


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
