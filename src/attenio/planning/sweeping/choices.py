"""Cases with a few options each, of which the one with the least floor is searched first and rules out most others.

Options are tiles of heads that share keys (see ``search.forms``), and numbers of reads (see ``search.columns``).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.planning.cuts import column_tiles, head_tiles
from attenio.planning.search.room import Room
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.room import largest_sizes, row_room, unit_of_positions
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles

Floats = NDArray[np.float64]
# The words of an option, and what equals are ordered by, for some of the cases.
Evaluate = Callable[[int, Ints], tuple[Ints, ...]]


def best_of_options(floors: Ints, evaluate: Evaluate, width: int) -> list[Ints]:
    """The least of ``width`` numbers, in lexicographic order, over options with these floors (options x cases)."""
    best = [np.full(floors.shape[1], NOTHING) for _ in range(width)]
    first = floors.argmin(axis=0)
    for promising in (True, False):
        for option in range(floors.shape[0]):
            within = (floors[option] <= best[0]) & (floors[option] < NOTHING)
            cases = np.flatnonzero(within & ((first == option) == promising))
            if cases.size:
                _take_least(best, cases, evaluate(option, cases))
    return best


def _take_least(best: list[Ints], cases: Ints, offered: tuple[Ints, ...]) -> None:
    better, equal = np.zeros(len(cases), dtype=np.bool_), np.ones(len(cases), dtype=np.bool_)
    for known, new in zip(best, offered, strict=True):
        better |= equal & (new < known[cases])
        equal &= new == known[cases]
    for known, new in zip(best, offered, strict=True):
        known[cases[better]] = new[better]


@dataclass(frozen=True, kw_only=True)
class HeadForms:
    """Words and room of tiles that some heads of a group share, with the room as it is for one head.

    ``live`` for each row of a live tile, all heads of the group together; ``loads`` for each key that a tile reads.
    """

    cases: Cases
    live: Counts
    loads: Counts
    room: Room

    def rows_only(self, count: int, heads: int) -> RowForms:
        """Words that the query tile decides, with so many tiles of so many heads."""
        unit = unit_of_positions(self.cases.row_unit, heads)
        return RowForms(band=self.cases.band, live=self.live, loads=count * self.loads, unit=unit)

    def most_positions(self, heads: int) -> Ints:
        """Positions that fit when tiles have so many heads; less than one if none does."""
        return row_room(self.cases, self.room, heads)


def best_head_tiles(forms: HeadForms) -> tuple[Ints, Ints, Ints]:
    """Words that tiles decide, head tile and query tile; no words where nothing fits."""
    group, unit = np.broadcast_arrays(forms.cases.group, forms.cases.row_unit)
    words, heads, tiles = (np.full(len(group), NOTHING) for _ in range(3))
    for size, step in np.unique(np.stack((group, unit)), axis=1).T.tolist():
        chosen = np.flatnonzero((group == size) & (unit == step))
        best = _best_of_group(take(forms, chosen), head_tiles(size, step))
        words[chosen], heads[chosen], tiles[chosen] = best[0], best[2], best[3]
    return words, heads, tiles


def _best_of_group(forms: HeadForms, options: tuple[tuple[int, int], ...]) -> list[Ints]:
    rows = [forms.rows_only(count, heads) for count, heads in options]
    most = [forms.most_positions(heads) for _, heads in options]

    def evaluate(option: int, index: Ints) -> tuple[Ints, ...]:
        words, tiles = best_row_tiles(take(rows[option], index), most[option][index])
        heads = options[option][1]
        return words, heads * tiles, np.full(len(index), heads), tiles

    floors = [_floor(each, positions) for each, positions in zip(rows, most, strict=True)]
    return best_of_options(np.stack(floors), evaluate, 4)


def best_output_tiles(cases: Cases, width: Ints, extra: int) -> tuple[Ints, Ints, Ints]:
    """Words, rows and columns of the best tile of outputs of a width; no words where nothing fits."""
    words, rows = (np.full(len(cases), NOTHING) for _ in range(2))
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

    def evaluate(option: int, index: Ints) -> tuple[Ints, ...]:
        reads, _ = options[option]
        words, rows = best_row_tiles(take(forms, index), most[option][index])
        return words + reads * written[index], rows

    most = [most_rows(columns) for _, columns in options]
    floors = [
        np.where(rows >= 1, reads * written, 0) + _floor(forms, rows)
        for (reads, _), rows in zip(options, most, strict=True)
    ]
    return best_of_options(np.stack(floors), evaluate, 2)


def _floor(forms: RowForms, most: Ints) -> Ints:
    return np.where(most >= 1, forms.floor(np.maximum(most, 1)), NOTHING)


def output_floor(cases: Cases, width: Counts, extra: int) -> Floats:
    """As ``search.columns.output_floor``; infinite where not even one column fits."""
    room, w = cases.fast_words - 1, cases.intermediate_words
    fits = largest_sizes(room // ((1 + extra) * w), cases.rows, cases.row_unit) >= 1
    size, written = np.maximum(room, 1) * 1.0, cases.band.scores * w
    reads = np.maximum(1.0, width / np.sqrt(size))
    spread = written * (reads + width * (width / reads + extra) / size)
    return np.where(fits, np.maximum(written + width * cases.band.touched_keys, spread), np.inf)
