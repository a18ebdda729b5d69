"""The best tiles that heads of a group share, in many cases at once (``search.forms`` has them for one).

Cases have a few options each, of which the one with the least floor is searched first and rules out most others.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from attenio.masks.patterns.pattern import Counts
from attenio.planning.search.room import Room
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.room import row_room, unit_of_positions
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.words.cuts import head_tiles

# The words of an option, or of one for each, and what equals are ordered by, for some of the cases.
Evaluate = Callable[[Counts, Ints], tuple[Ints, ...]]


def best_of_options(floors: Ints, evaluate: Evaluate, width: int, limit: Ints | None = None) -> list[Ints]:
    """The least of ``width`` numbers, in lexicographic order, over options with these floors (options x cases).

    Beyond the limit any, or NOTHING.
    """
    best = [np.full(floors.shape[1], NOTHING, dtype=np.int64) for _ in range(width)]
    first, most = floors.argmin(axis=0), NOTHING - 1 if limit is None else np.minimum(limit, NOTHING - 1)
    cases = np.flatnonzero(floors.min(axis=0) <= most)
    if cases.size:
        _take_least(best, cases, evaluate(first[cases], cases))
    for option, floor in enumerate(floors):
        cases = np.flatnonzero((floor <= np.minimum(best[0], most)) & (first != option))
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


def row_floors(forms: RowForms, most: Ints) -> Ints:
    """Words that no tile up to ``most`` goes below; NOTHING where none fits."""
    return np.where(most >= 1, forms.floor(np.maximum(most, 1)), NOTHING)


@dataclass(frozen=True)
class HeadForms:
    """Words and room of tiles that some heads of a group share, with the room as it is for one head.

    ``live`` for each row of a live tile, all heads of the group together; ``loads`` for each key that a tile reads.
    Tiles of more words than ``limit`` do not count.
    """

    cases: Cases
    live: Counts
    loads: Counts
    room: Room
    limit: Ints

    def rows_only(self, count: int, heads: int) -> RowForms:
        """Words that the query tile decides, with so many tiles of so many heads."""
        unit = unit_of_positions(self.cases.row_unit, heads)
        return RowForms(band=self.cases.band, live=self.live, loads=count * self.loads, unit=unit)

    def most_positions(self, heads: int) -> Ints:
        """Positions that fit when tiles have so many heads; less than one if none does."""
        return row_room(self.cases, self.room, heads)


def best_head_tiles(forms: HeadForms) -> tuple[Ints, Ints, Ints]:
    """Words that tiles decide, head tile and query tile; NOTHING and ones where nothing fits within the limit."""
    group, unit = forms.cases.group, forms.cases.row_unit
    words, heads, tiles = (np.full(len(group), NOTHING, dtype=np.int64) for _ in range(3))
    for size, step in product(np.unique(group).tolist(), np.unique(unit).tolist()):
        chosen = np.flatnonzero((group == size) & (unit == step))
        if chosen.size:
            best = _best_of_group(take(forms, chosen), head_tiles(size, step))
            words[chosen], heads[chosen], tiles[chosen] = best[0], best[2], best[3]
    fit = words < NOTHING
    return words, np.where(fit, heads, 1), np.where(fit, tiles, 1)


def _best_of_group(forms: HeadForms, options: tuple[tuple[int, int], ...]) -> list[Ints]:
    rows, most = forms.rows_only(1, 1), np.stack([forms.most_positions(heads) for _, heads in options])
    counts, sizes = np.array(options, dtype=np.int64).T

    def evaluate(option: Counts, index: Ints) -> tuple[Ints, ...]:
        some, heads = take(rows, index), sizes[option]
        shared = replace(some, loads=counts[option] * some.loads, unit=unit_of_positions(some.unit, heads))
        words, tiles = best_row_tiles(shared, most[option, index])
        return words, heads * tiles, heads + 0 * tiles, tiles

    floors = [row_floors(forms.rows_only(*each), positions) for each, positions in zip(options, most, strict=True)]
    return best_of_options(np.stack(floors), evaluate, 4, forms.limit)
