"""Best plans of many cases: every dataflow that can move the least, in the order in which equals are preferred.

The same floors rule out the same dataflows as in ``best``. FLAT and standard attention win on next to no machine (rows
of three keys, a memory of a few words); where floors do not rule them out, a case is handed back to be planned alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attenio.patterns.sums import ceil_div
from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.choices import best_head_tiles, best_output_tiles
from attenio.planning.sweeping.floors import RectangleForms
from attenio.planning.sweeping.rectangles import best_rectangles
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles

__all__ = ["ABSENT", "DATAFLOWS", "GRADIENT_TILE_NAMES", "TILE_NAMES", "Solution", "solve"]

DATAFLOWS = tuple(Dataflow)
TILE_NAMES = (
    "query_tile",
    "key_tile",
    "head_tile",
    "score_rows",
    "score_keys",
    "resident_keys",
    "output_rows",
    "output_columns",
)
GRADIENT_TILE_NAMES = (
    "query_tile",
    "key_tile",
    "head_tile",
    "stationary_keys",
    "passing_queries",
    "score_rows",
    "score_keys",
    "value_keys",
    "value_columns",
    "key_keys",
    "key_columns",
    "query_rows",
    "query_columns",
)
Floats = NDArray[np.float64]
# A tile that a dataflow does not have; zero is a size that some may have.
ABSENT = -1
_ROUNDING = 1 - 1e-12


@dataclass
class Solution:
    """The best plan of every case so far; ``dataflow`` is a position in DATAFLOWS, ABSENT where there is no plan."""

    words: Ints
    peak: Ints
    dataflow: Ints
    tiles: dict[str, Ints]
    reasons: dict[int, str] = field(default_factory=dict)

    @classmethod
    def empty(cls, count: int) -> "Solution":
        """No plan yet for any case."""
        return cls(
            words=np.full(count, NOTHING),
            peak=np.zeros(count, dtype=np.int64),
            dataflow=np.full(count, ABSENT),
            tiles={name: np.full(count, ABSENT) for name in TILE_NAMES},
        )

    def offer(self, index: Ints, dataflow: Dataflow, words: Ints, peak: Ints, **tiles: Ints) -> None:
        """Take the plans that move fewer words than the best so far."""
        better = words < self.words[index]
        chosen = index[better]
        self.words[chosen], self.peak[chosen] = words[better], peak[better]
        self.dataflow[chosen] = DATAFLOWS.index(dataflow)
        for name, values in self.tiles.items():
            values[chosen] = tiles[name][better] if name in tiles else ABSENT


def solve(cases: Cases, alone: Callable[[int, Solution], None]) -> Solution:
    """The best plan of every case; ``alone`` plans one that arrays do not cover, or says why it has no plan."""
    best = Solution.empty(len(cases))
    sound = np.flatnonzero(cases.fits_int64)
    few = cases.take(sound)
    part = Solution.empty(len(few))
    if len(few):
        _attenio(few, part)
        _stacked_groups(few, part)
        _flash_attention_1(few, part)
        open_cases = _flat_may_win(few)
        _rank_one_tiling(few, part)
        _score_stationary(few, part)
        open_cases |= _standard_floor(few) * _ROUNDING < part.words
        best.words[sound], best.peak[sound], best.dataflow[sound] = part.words, part.peak, part.dataflow
        for name in TILE_NAMES:
            best.tiles[name][sound] = part.tiles[name]
    left = np.ones(len(cases), dtype=np.bool_)
    left[sound] = False
    if len(few):
        left[sound] = open_cases | (part.words == NOTHING)
    for index in np.flatnonzero(left).tolist():
        alone(index, best)
    return best


def _row_words(cases: Cases) -> Ints:
    """Words of a row beside its scores: query, output and three statistics."""
    return np.asarray(cases.d + (cases.value_dim + 3) * cases.intermediate_words)


def _attenio(cases: Cases, best: Solution) -> None:
    d, dv, w = cases.d, cases.value_dim, cases.intermediate_words
    buffer, row = np.maximum(d, dv), _row_words(cases)
    most = (cases.fast_words - buffer) // (row + w)
    index = np.flatnonzero(most >= 1)
    few = cases.take(index)
    forms = RowForms(band=few.band, live=few.d, loads=few.d + few.value_dim)
    words, tiles = best_row_tiles(forms, most[index])
    words = few.group * (words + few.rows * few.value_dim)
    row, buffer, w = row[index], buffer[index], w[index]
    keys = np.minimum((few.fast_words - tiles * row) // (tiles * w + buffer), few.keys)
    peak = tiles * row + tiles * keys * w + keys * buffer
    best.offer(index, Dataflow.ATTENIO, words, peak, query_tile=tiles, key_tile=keys)


def _stacked_groups(cases: Cases, best: Solution) -> None:
    index = np.flatnonzero(cases.group > 1)
    few = cases.take(index)
    words, heads, tiles = best_head_tiles(few)
    fits = words < NOTHING
    few, index, words, heads, tiles = few.take(fits), index[fits], words[fits], heads[fits], tiles[fits]
    buffer, rows, w = np.maximum(few.d, few.value_dim), heads * tiles, few.intermediate_words
    keys = np.minimum((few.fast_words - rows * _row_words(few)) // (rows * w + buffer), few.keys)
    peak = rows * _row_words(few) + rows * keys * w + keys * buffer
    words = words + few.group * few.rows * few.value_dim
    best.offer(index, Dataflow.STACKED_GROUPS, words, peak, query_tile=tiles, head_tile=heads, key_tile=keys)


def _flash_attention_1(cases: Cases, best: Solution) -> None:
    d, dv, w, band = cases.d, cases.value_dim, cases.intermediate_words, cases.band
    both, row, visit = d + dv, _row_words(cases), d + 2 * (dv + 2) * w
    most = np.minimum((cases.fast_words - row) // (both + w), cases.keys)
    fixed = band.touched_keys * both + cases.group * (cases.rows * dv - band.touched_rows * 2 * (dv + 2) * w)
    visits = np.maximum(band.touched_rows, ceil_div(band.scores, np.maximum(most, 1)))
    index = np.flatnonzero((most >= 1) & (fixed + cases.group * visit * visits < best.words))
    few = cases.take(index)
    forms = RowForms(band=few.band.transposed, live=0 * few.rows, loads=few.group * visit[index])
    words, keys = best_row_tiles(forms, most[index])
    row, both, w = row[index], both[index], w[index]
    tiles = np.minimum((few.fast_words - keys * both) // (keys * w + row), few.rows)
    peak = keys * both + tiles * row + tiles * keys * w
    best.offer(index, Dataflow.FLASH_ATTENTION_1, words + fixed[index], peak, query_tile=tiles, key_tile=keys)


def _flat_may_win(cases: Cases) -> NDArray[np.bool_]:
    """Where FLAT holds rows that attenio has no room for, which would read the same keys with less."""
    d, dv, w, memory = cases.d, cases.value_dim, cases.intermediate_words, cases.fast_words
    buffer = np.maximum(d, dv)
    complete = (memory - np.maximum(buffer, 2 * w)) // (d + cases.keys * w + dv * w)
    spilling = (memory - d - dv * w - buffer >= 3 * w) * 1
    held = (memory - buffer) // (_row_words(cases) + w)
    return np.asarray(np.minimum(np.maximum(complete, spilling), cases.rows) > held)


def _rank_one_tiling(cases: Cases, best: Solution) -> None:
    w = cases.intermediate_words
    room = cases.fast_words - 1
    scores = cases.band.scores
    fixed = scores * w + cases.rows * (2 * w + cases.value_dim)
    fits = (room >= 1 + 2 * w) & (room >= 4 * w)
    floor = fixed + _product_floor(cases, (cases.d, cases.d, 0 * w), 1 + w, scores) + _output_floor(cases, 3, scores)
    index = np.flatnonzero(fits & (cases.group * floor * _ROUNDING < best.words))
    few, w = cases.take(index), w[index]
    outputs, output_rows, columns = best_output_tiles(few, 3)
    limit = ((best.words[index] - 1) // few.group - fixed[index] - outputs) // few.d
    products, rows = _rectangles(few, (1 + 0 * w, 1 + 0 * w, 0 * w), 1 + w, limit)
    found = rows < NOTHING
    rows = np.minimum(rows, few.rows)
    keys = np.minimum((few.fast_words - 1 - rows * (1 + w)) // (rows * w), few.keys)
    words = np.where(found, few.group * (fixed[index] + few.d * np.where(found, products, 0) + outputs), NOTHING)
    peak = np.maximum(rows * keys * w + rows * (1 + w) + 1, output_rows * (columns + 3) * w + 1)
    tiles = {"score_rows": rows, "score_keys": keys, "output_rows": output_rows, "output_columns": columns}
    best.offer(index, Dataflow.RANK_ONE_TILING, words, peak, **tiles)


def _score_stationary(cases: Cases, best: Solution) -> None:
    d, dv, w = cases.d, cases.value_dim, cases.intermediate_words
    carried = 2 * w * dv
    own = cases.rows * dv
    floor = own + _product_floor(cases, (d + carried, d + dv, carried), 4 * w, cases.band.scores)
    fits = cases.fast_words - 1 >= 5 * w
    index = np.flatnonzero(fits & (cases.group * floor * _ROUNDING < best.words))
    few, w = cases.take(index), w[index]
    weights = (d + carried)[index], (d + dv)[index], carried[index]
    common = np.gcd(np.gcd(weights[0], weights[1]), weights[2])
    limit = ((best.words[index] - 1) // few.group - own[index]) // common
    scaled = weights[0] // common, weights[1] // common, weights[2] // common
    products, rows = _rectangles(few, scaled, 4 * w, limit)
    found = rows < NOTHING
    rows = np.minimum(rows, few.rows)
    keys = np.minimum((few.fast_words - 1 - rows * 4 * w) // (rows * w), few.keys)
    words = np.where(found, few.group * (own[index] + common * np.where(found, products, 0)), NOTHING)
    peak = rows * (keys + 4) * w + 1
    best.offer(index, Dataflow.SCORE_STATIONARY, words, peak, query_tile=rows, key_tile=keys)


def _rectangles(cases: Cases, weights: tuple[Ints, Ints, Ints], per_row: Ints, limit: Ints) -> tuple[Ints, Ints]:
    """Words and rows of the best tiles within the limit, which for others are NOTHING.

    Cases that differ in nothing that matters here are searched once.
    """
    if not len(cases):
        return cases.rows, cases.rows
    sizes = (cases.rows, cases.keys, cases.left, cases.right)
    table = np.stack((*sizes, cases.fast_words - 1, cases.intermediate_words, per_row, *weights))
    different, place = np.unique(table, axis=1, return_inverse=True)
    place = place.ravel()
    rows, keys, left, right, room, w, beside, met, loads, kept = different
    most = np.full(different.shape[1], -NOTHING)
    np.maximum.at(most, place, limit)
    band = Cases(
        rows=rows, keys=keys, left=left, right=right, d=w, value_dim=w, group=w, intermediate_words=w, fast_words=room
    ).band
    forms = RectangleForms(
        band=band, met=met, loads=loads, kept=kept, words=room, per_score=w, per_row=beside, limit=most
    )
    words, found = best_rectangles(forms)
    return words[place], found[place]


def _product_floor(cases: Cases, weights: tuple[Ints, Ints, Ints], per_row: Ints, scores: Ints) -> Floats:
    """As ``RectangleWords.floor``, with weights for key tiles met, keys read and live rows kept."""
    met, loads, kept = weights
    band, room = cases.band, np.maximum(cases.fast_words - 1, 1) * 1.0
    balanced = np.sqrt(loads * 1.0 * met * cases.intermediate_words / room)
    spread = scores * (loads * per_row / room + 2 * balanced) - kept * cases.rows
    return np.asarray(np.maximum((met - kept) * band.touched_rows + loads * band.touched_keys, spread))


def _output_floor(cases: Cases, extra: int, scores: Ints) -> Floats:
    """As ``search.columns.output_floor``."""
    room, dv, w = np.maximum(cases.fast_words - 1, 1) * 1.0, cases.value_dim, cases.intermediate_words
    reads = np.maximum(1.0, dv / np.sqrt(room))
    spread = scores * w * (reads + dv * (dv / reads + extra) / room)
    return np.asarray(np.maximum(scores * w + dv * cases.band.touched_keys, spread))


def _standard_floor(cases: Cases) -> Floats:
    w, zero = cases.intermediate_words, 0 * cases.d
    fits = (cases.fast_words >= 3 * w) & (cases.fast_words - 1 >= np.maximum(1 + w, 2 * w))
    scores = cases.rows * cases.keys  # blind to the mask: not only those required
    products = _product_floor(cases, (cases.d, cases.d, zero), zero + 1, scores) + _output_floor(cases, 1, scores)
    floor = cases.group * (3 * scores * w + products + cases.rows * cases.value_dim)
    return np.where(fits, floor, np.inf)
