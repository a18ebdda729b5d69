"""Cases with a few options each, of which the one with the least floor is searched first and rules out most others."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.planning.cuts import column_tiles, head_tiles
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.rooms import Rooms, largest_sizes, row_room
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles

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


def _take_least(best: list[Ints], cases: Ints, found: tuple[Ints, ...]) -> None:
    better, equal = np.zeros(len(cases), dtype=np.bool_), np.ones(len(cases), dtype=np.bool_)
    for known, new in zip(best, found, strict=True):
        better |= equal & (new < known[cases])
        equal &= new == known[cases]
    for known, new in zip(best, found, strict=True):
        known[cases[better]] = new[better]


@dataclass(frozen=True, kw_only=True)
class HeadForms:
    """Words and room of tiles that some heads of a group share, with the room as it is for one head.

    ``live`` for each row of a live tile, all heads of the group together; ``loads`` for each key that a tile reads.
    """

    cases: Cases
    live: Ints
    loads: Ints
    room: Rooms

    def take(self, index: Ints) -> "HeadForms":
        """Some of the cases."""
        live, loads = self.live[index], self.loads[index]
        return HeadForms(cases=self.cases.take(index), live=live, loads=loads, room=self.room.take(index))

    def rows_only(self, count: int, heads: int) -> RowForms:
        """Words that the query tile decides, with so many tiles of so many heads."""
        unit = self.cases.row_unit // np.gcd(self.cases.row_unit, heads)
        return RowForms(band=self.cases.band, live=self.live, loads=count * self.loads, unit=unit)

    def most_positions(self, heads: int) -> Ints:
        """Positions that fit when tiles have so many heads; less than one if none does."""
        return row_room(self.cases, self.room, heads)


def best_head_tiles(forms: HeadForms) -> tuple[Ints, Ints, Ints]:
    """Words that tiles decide, head tile and query tile; no words where nothing fits."""
    group, unit = forms.cases.group, forms.cases.row_unit
    words, heads, tiles = (np.full(len(group), NOTHING) for _ in range(3))
    for size, step in np.unique(np.stack((group, unit)), axis=1).T.tolist():
        chosen = np.flatnonzero((group == size) & (unit == step))
        best = _best_of_group(forms.take(chosen), head_tiles(size, step))
        words[chosen], heads[chosen], tiles[chosen] = best[0], best[2], best[3]
    return words, heads, tiles


def _best_of_group(forms: HeadForms, options: tuple[tuple[int, int], ...]) -> list[Ints]:
    def evaluate(option: int, index: Ints) -> tuple[Ints, ...]:
        count, heads = options[option]
        few = forms.take(index)
        words, tiles = best_row_tiles(few.rows_only(count, heads), few.most_positions(heads))
        return words, heads * tiles, np.full(len(index), heads), tiles

    floors = [_floor(forms.rows_only(count, heads), forms.most_positions(heads)) for count, heads in options]
    return best_of_options(np.stack(floors), evaluate, 4)


def best_output_tiles(cases: Cases, extra: int) -> tuple[Ints, Ints, Ints]:
    """Words, rows and columns of the best output tile (see ``search.columns``); no words where nothing fits."""
    words, rows = (np.full(len(cases), NOTHING) for _ in range(2))
    for width in np.unique(cases.value_dim).tolist():
        chosen = np.flatnonzero(cases.value_dim == width)
        words[chosen], rows[chosen] = _best_of_width(cases.take(chosen), width, extra)
    columns = (cases.fast_words - 1) // (np.minimum(rows, cases.rows) * cases.intermediate_words) - extra
    return words, rows, np.minimum(columns, cases.value_dim)


def _best_of_width(cases: Cases, width: int, extra: int) -> list[Ints]:
    options = column_tiles(width)
    w = cases.intermediate_words
    forms = RowForms(band=cases.band, live=0 * cases.rows, loads=cases.value_dim, unit=cases.row_unit)

    def most_rows(columns: int) -> Ints:
        return largest_sizes((cases.fast_words - 1) // ((columns + extra) * w), cases.rows, cases.row_unit)

    def evaluate(option: int, index: Ints) -> tuple[Ints, ...]:
        reads, columns = options[option]
        words, rows = best_row_tiles(forms.take(index), most_rows(columns)[index])
        return words + reads * (cases.band.scores * w)[index], rows

    floors = [
        np.where(most_rows(columns) >= 1, reads * cases.band.scores * w, 0) + _floor(forms, most_rows(columns))
        for reads, columns in options
    ]
    return best_of_options(np.stack(floors), evaluate, 2)


def _floor(forms: RowForms, most: Ints) -> NDArray[np.int64]:
    return np.where(most >= 1, forms.floor(np.maximum(most, 1)), NOTHING)
