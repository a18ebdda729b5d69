"""Best backward plans of many cases: the dataflows of the gradient, in the order in which equals are preferred."""

import numpy as np

from attenio.patterns.sums import ceil_div
from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import Cases, Ints
from attenio.planning.sweeping.choices import HeadForms, best_head_tiles
from attenio.planning.sweeping.gradient_products import solve_products
from attenio.planning.sweeping.gradient_rows import all_gradients, resident_key_words, visit_words, visiting_words
from attenio.planning.sweeping.rooms import Rooms, key_room, row_room
from attenio.planning.sweeping.row_tiles import RowForms, best_row_tiles
from attenio.planning.sweeping.solution import Solution

__all__ = ["solve_backward"]


def solve_backward(cases: Cases, best: Solution) -> None:
    """Offer the plans of every dataflow of the gradient."""
    _two_pass(cases, best)
    _key_stationary(cases, best)
    _query_stationary(cases, best)
    solve_products(cases, best)


def _two_pass(cases: Cases, best: Solution) -> None:
    d, dv, w = cases.d, cases.value_dim, cases.intermediate_words
    first = Rooms(words=cases.fast_words - 1, per_score=w, per_row=_passing_words(cases), per_key=d + dv)
    stays, passes = resident_key_words(cases, lean=False), visiting_words(cases)
    second = Rooms(words=cases.fast_words, per_score=w, per_row=stays, per_key=passes)
    index = np.flatnonzero((row_room(cases, first) >= 1) & (row_room(cases.transposed, second) >= 1))
    few, first, second = cases.take(index), first.take(index), second.take(index)
    own = few.group * (few.d + 2 * few.value_dim + 2 * few.intermediate_words)
    words, heads, tiles = best_head_tiles(HeadForms(cases=few, live=own, loads=first.per_key, room=first))
    across, visit = few.transposed, few.group * visit_words(few)
    visits = RowForms(band=across.band, live=0 * own, loads=visit, unit=few.key_unit)
    more, stationary = best_row_tiles(visits, row_room(across, second))
    keys = key_room(few, first, heads * tiles)
    passing = key_room(across, second, stationary)
    peak = np.maximum(first.taken(heads * tiles, keys) + 1, second.taken(stationary, passing))
    sizes = {"query_tile": tiles, "head_tile": heads, "key_tile": keys}
    sizes |= {"stationary_keys": stationary, "passing_queries": passing}
    best.offer(index, Dataflow.TWO_PASS, all_gradients(few) + words + more, peak, **sizes)


def _key_stationary(cases: Cases, best: Solution) -> None:
    d, dv, w, band = cases.d, cases.value_dim, cases.intermediate_words, cases.band
    stays, passes = resident_key_words(cases, lean=False), _passing_words(cases)
    room = Rooms(words=cases.fast_words - 1, per_score=w, per_row=stays, per_key=passes)
    most = row_room(cases.transposed, room)
    # a row's first visit loads and its last stores no partial dQ
    fixed = all_gradients(cases) + cases.group * band.touched_rows * (dv - 2 * d * w)
    visit = cases.group * (visit_words(cases) + 2 * d * w)
    visits = np.maximum(band.touched_rows, ceil_div(band.scores, np.maximum(most, 1)))
    index = np.flatnonzero((most >= 1) & (fixed + visit * visits < best.words))
    few, room = cases.take(index), room.take(index)
    forms = RowForms(band=few.band.transposed, live=0 * few.rows, loads=visit[index], unit=few.key_unit)
    words, keys = best_row_tiles(forms, most[index])
    rows = key_room(few.transposed, room, keys)
    peak = room.taken(keys, rows) + 1
    best.offer(index, Dataflow.KEY_STATIONARY, words + fixed[index], peak, query_tile=rows, key_tile=keys)


def _query_stationary(cases: Cases, best: Solution) -> None:
    d, dv, w, both = cases.d, cases.value_dim, cases.intermediate_words, cases.d + cases.value_dim
    stays, passes = _passing_words(cases), resident_key_words(cases, lean=False)
    room = Rooms(words=cases.fast_words - 1, per_score=w, per_row=stays, per_key=passes)
    most = row_room(cases, room)
    # a key's first visit loads and its last stores no partial gradient
    fixed = (cases.keys - 2 * w * cases.band.touched_keys) * both + cases.group * cases.rows * d
    live, loads = cases.group * (d + 2 * dv + w), cases.group * both * (1 + 2 * w)
    forms = RowForms(band=cases.band, live=live, loads=loads, unit=cases.row_unit)
    floor = fixed + forms.floor(np.maximum(most, 1))
    index = np.flatnonzero((most >= 1) & (floor < best.words))
    few, room = cases.take(index), room.take(index)
    words, rows = best_row_tiles(forms.take(index), most[index])
    keys = key_room(few, room, rows)
    peak = room.taken(rows, keys) + 1
    best.offer(index, Dataflow.QUERY_STATIONARY, words + fixed[index], peak, query_tile=rows, key_tile=keys)


def _passing_words(cases: Cases) -> Ints:
    """Words of a row beside its scores: Q, dO, dQ, the log-sum-exp, D and one score's gradient."""
    return np.asarray(visiting_words(cases) + cases.d * cases.intermediate_words)
