"""Best plans of many cases: every dataflow that can move the least, in the order in which equals are preferred.

The same floors rule out the same dataflows as in ``search.contest``. FLAT wins on next to no machine (rows of three
keys, a memory of a few words); where it may, a case is handed back to be planned alone.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.planning.plan import Dataflow
from attenio.planning.search.dataflow import contenders
from attenio.planning.search.kept_band import keeps_more
from attenio.planning.sweeping.cases import Cases, Ints, take
from attenio.planning.sweeping.forms import may_win, most_rows, plans, promising
from attenio.planning.sweeping.room import largest_sizes
from attenio.planning.sweeping.solution import Solution
from attenio.planning.words.dataflows import forms_of
from attenio.planning.words.form import KeptTile, Resident, RowTile
from attenio.workload import Direction

# They make the same products, which are made together for the cases that any of these may win.
_OF_PRODUCTS = (Dataflow.SPILLED_GRADIENTS, Dataflow.TILED_PRODUCTS, Dataflow.FUSED_VALUES)


def solve_pass(cases: Cases, direction: Direction, best: Solution) -> NDArray[np.bool_]:
    """Offer the plans of every dataflow of one pass; returns which cases have to be planned alone."""
    left = np.zeros(len(cases), dtype=np.bool_)
    for dataflow in contenders(direction):
        if dataflow is Dataflow.FLAT:
            left = _flat_may_win(cases)
        elif dataflow not in _OF_PRODUCTS:
            _offer(cases, dataflow, best)
    if direction is Direction.BACKWARD:
        _offer_products(cases, best)
    return left


def _offer(cases: Cases, dataflow: Dataflow, best: Solution, *, together: bool = False) -> None:
    """Offer the plans of a dataflow where its floor is below the best so far."""
    words = best.words
    if dataflow is Dataflow.STACKED_GROUPS:
        words = np.where(cases.group > 1, words, 0)
    if dataflow is Dataflow.FLASH_ATTENTION_1:
        words = np.where((cases.group == 1) & (cases.row_unit == 1) & (cases.key_unit == 1), 0, words)
    if dataflow is Dataflow.ATTENIO:
        words = np.where(_keeps_more(cases), 0, words)
    for form in forms_of(dataflow)(cases.sizes):
        index, few, some = promising(cases, form, words)
        if index.size:
            within = (cases, form, index) if together else None
            best.offer(index, dataflow, plans(few, some, best.words[index] - 1, within))


def _keeps_more(cases: Cases) -> NDArray[np.bool_]:
    """As in ``search.contest``: where kept keys move less than attenio with every tile."""
    single, kept = (forms_of(each)(cases.sizes)[0].phases[0] for each in (Dataflow.ATTENIO, Dataflow.KEPT_KEYS))
    assert isinstance(single, RowTile) and isinstance(kept, KeptTile)
    free = (cases.row_unit == 1) & (cases.key_unit == 1)
    return np.asarray(free & keeps_more(cases.band, kept, most_rows(cases, single), cases.fast_words))


def _offer_products(cases: Cases, best: Solution) -> None:
    """Offer the dataflows that end with products of stored scores."""
    any_may_win = np.zeros(len(cases), dtype=np.bool_)
    for dataflow in _OF_PRODUCTS:
        for form in forms_of(dataflow)(cases.sizes):
            any_may_win[may_win(cases, form, best.words)] = True
    index = np.flatnonzero(any_may_win)
    if index.size:
        few, part = take(cases, index), take(best, index)
        for dataflow in _OF_PRODUCTS:
            _offer(few, dataflow, part, together=True)
        best.put(index, part)


def _flat_may_win(cases: Cases) -> NDArray[np.bool_]:
    """Where FLAT holds rows that attenio has no room for, which would read the same keys with less."""
    complete, spilling = (form.phases[0] for form in forms_of(Dataflow.FLAT)(cases.sizes))
    single = forms_of(Dataflow.ATTENIO)(cases.sizes)[0].phases[0]
    assert isinstance(complete, RowTile) and isinstance(spilling, Resident) and isinstance(single, RowTile)
    held = complete.held
    fits = (cases.fast_words - held.beside) // (held.per_row + cases.keys * held.per_score)
    rows: Ints = largest_sizes(fits, cases.rows, cases.row_unit)
    one = ((cases.row_unit == 1) | (cases.rows == 1)) & (cases.fast_words >= spilling.beside)
    return np.asarray(np.maximum(rows, one * 1) > most_rows(cases, single))
