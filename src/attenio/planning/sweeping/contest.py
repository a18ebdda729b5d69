"""Best plans of many cases: every dataflow that can move the least, in the order in which equals are preferred.

The same floors rule out the same dataflows as in ``search.contest``. FLAT wins on next to no machine (rows of three
keys, a memory of a few words); where it may, a case is handed back to be planned alone.
"""

from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.planning.plan import OF_ROWS_OF_HEADS, Dataflow
from attenio.planning.search.contest import beside_one_key
from attenio.planning.search.dataflow import contenders
from attenio.planning.search.kept_band import keeps_more
from attenio.planning.sweeping.cases import Cases, Ints, take
from attenio.planning.sweeping.forms import may_win, most_rows, plans, promising
from attenio.planning.sweeping.room import largest_sizes
from attenio.planning.sweeping.solution import Solution
from attenio.planning.words.dataflows import forms_of
from attenio.planning.words.form import Form, KeptTile, Resident, RowTile
from attenio.workload import Direction

# They make the same products, which are made together for the cases that any of these may win.
_OF_PRODUCTS = (Dataflow.SPILLED_GRADIENTS, Dataflow.TILED_PRODUCTS, Dataflow.FUSED_VALUES)
# Their forms share phases, whose tiles are looked for once.
_OF_SAME_PHASES = (Dataflow.TWO_PASS, Dataflow.RANK_ONE_TILING)
# Gradients with tiles beside slots, of which many are tried.
_WITH_SLOTS = (Dataflow.KEPT_ROW_GRADIENTS, Dataflow.TWO_PASS)


class _Entrant(NamedTuple):
    """A form of a dataflow, that of the different widths, and its place in the order in which equals are preferred."""

    rank: int
    dataflow: Dataflow
    form: Form


def solve_pass(cases: Cases, direction: Direction, best: Solution) -> NDArray[np.bool_]:
    """Offer the plans of every dataflow of one pass; returns which cases have to be planned alone."""
    entrants, rows, of_rows = _entrants(cases, direction), cases.heads_as_rows, list[_Entrant]()
    if rows is not cases:
        of_rows = [each for each in _entrants(rows, direction) if each.dataflow in OF_ROWS_OF_HEADS]
        entrants = [each for each in entrants if each.dataflow not in OF_ROWS_OF_HEADS]
    _offer_in_turn(cases, _in_turns(cases, entrants), best)
    if of_rows:  # last: others leave few cases to their many tiles
        _offer_in_turn(rows, _in_turns(rows, of_rows), best)
    return _flat_may_win(cases) if direction is Direction.FORWARD else np.zeros(len(cases), dtype=np.bool_)


def _in_turns(cases: Cases, entrants: list[_Entrant]) -> list[list[_Entrant]]:
    """Forms in the order in which they are searched, those that make the same products together."""
    ordered = sorted(entrants, key=partial(_turn, shared=bool((cases.group > 1).any())))
    alike = groupby(ordered, key=lambda each: -1 if each.dataflow in _OF_PRODUCTS else each.rank)
    return [list(some) for _, some in alike]


def _offer_in_turn(cases: Cases, turns: list[list[_Entrant]], best: Solution) -> None:
    """Offer the plans of some forms after others, to no more cases than those in which one that is left may win."""
    for place, entrants in enumerate(turns):
        left = best.may_change(min(each.rank for some in turns[place:] for each in some))
        if 4 * len(left) < 3 * len(cases):
            if left.size:
                part = take(best, left)
                _offer_in_turn(take(cases, left), turns[place:], part)
                best.put(left, part)
            return
        if entrants[0].dataflow in _OF_PRODUCTS:
            _offer_products(cases, entrants, best)
        else:
            _offer(cases, entrants[0], best, together=entrants[0].dataflow in _OF_SAME_PHASES)


def _entrants(cases: Cases, direction: Direction) -> list[_Entrant]:
    every = [(each, form) for each in contenders(direction) for form in cases.forms(forms_of(each))]
    numbered = (_Entrant(rank, *each) for rank, each in enumerate(every))
    return [each for each in numbered if each.dataflow is not Dataflow.FLAT]


def _turn(entrant: _Entrant, shared: bool) -> tuple[int, int]:
    """Few tiles that heads share are searched before many, of which they rule out most; gradients with slots last.

    Of these the forms for some masks alone come first: they have fewer tiles. Where no heads share keys, rows that are
    stacked differ little from others, which need no floors as long as nothing is known.
    """
    if entrant.dataflow in _OF_PRODUCTS:
        return 4, entrant.rank
    if entrant.dataflow in _WITH_SLOTS:
        return 5, -entrant.rank
    if entrant.dataflow is Dataflow.ATTENIO:
        return 0, entrant.rank
    if entrant.form.names[0] in ("stacked_rows", "group_positions"):
        return 1 if shared else 3, entrant.rank
    return 2, entrant.rank


def _left_out(cases: Cases, entrant: _Entrant) -> NDArray[np.bool_] | None:
    """The cases in which a form is not searched, if there are any, as in ``search.contest`` and ``search.dataflow``."""
    dataflow, names, alone = entrant.dataflow, entrant.form.names, cases.group == 1
    if dataflow is Dataflow.ATTENIO:
        return _keeps_more(cases)
    if dataflow is Dataflow.STACKED_GROUPS:
        return np.asarray(alone)
    if dataflow is Dataflow.FLASH_ATTENTION_1 or (dataflow is Dataflow.TWO_PASS and "head_tile" in names):
        return np.asarray(alone & cases.free)
    if dataflow is Dataflow.QUERY_STATIONARY and names == ("query_tile", "key_tile"):
        return np.asarray(cases.free | np.zeros_like(alone))
    if dataflow is Dataflow.SCORE_STATIONARY and "resident_rows" in names:
        return _no_fewer_beside_keys(cases, entrant.form)
    return None


def _offer(cases: Cases, entrant: _Entrant, best: Solution, *, together: bool = False) -> None:
    """Offer the plans of a form where its floor is below the best so far; not where it is left out."""
    limit, out = best.limit(entrant.rank), _left_out(cases, entrant)
    index, few, some = promising(cases, entrant.form, limit if out is None else np.where(out, -1, limit))
    if index.size:
        within = (cases, entrant.form, index) if together else None
        best.offer(index, (entrant.rank, entrant.dataflow, entrant.form.names), plans(few, some, limit[index], within))


def _keeps_more(cases: Cases) -> NDArray[np.bool_]:
    """As in ``search.contest``: where kept keys move less than attenio with every tile."""
    both = Dataflow.ATTENIO, Dataflow.KEPT_KEYS
    single, kept = (cases.of_every_case(cases.forms(forms_of(each))[0].phases[0]) for each in both)
    assert isinstance(single, RowTile) and isinstance(kept, KeptTile)
    return np.asarray(cases.free & keeps_more(cases.band, kept, most_rows(cases, single), cases.fast_words))


def _no_fewer_beside_keys(cases: Cases, form: Form) -> NDArray[np.bool_]:
    """As in ``search.contest``: where whole keys leave room for as many rows as elements, or elements are no unit."""
    single = cases.of_every_case(form.phases[0])
    assert isinstance(single, RowTile)
    kept = cases.of_every_case(cases.forms(forms_of(Dataflow.KEPT_KEYS))[0])
    return np.asarray(np.logical_not(cases.free) | (most_rows(cases, single) <= beside_one_key(kept, cases.fast_words)))


def _offer_products(cases: Cases, entrants: list[_Entrant], best: Solution) -> None:
    """Offer the dataflows that end with products of stored scores."""
    any_may_win = np.zeros(len(cases), dtype=np.bool_)
    for entrant in entrants:
        any_may_win[may_win(cases, entrant.form, np.where(any_may_win, -1, best.limit(entrant.rank)))] = True
    index = np.flatnonzero(any_may_win)
    if index.size:
        few, part = take(cases, index), take(best, index)
        for entrant in entrants:
            _offer(few, entrant, part, together=True)
        best.put(index, part)


def _flat_may_win(cases: Cases) -> NDArray[np.bool_]:
    """Where FLAT holds rows that attenio has no room for, which would read the same keys with less."""
    of_both = *cases.forms(forms_of(Dataflow.FLAT)), cases.forms(forms_of(Dataflow.ATTENIO))[0]
    complete, spilling, single = (cases.of_every_case(form.phases[0]) for form in of_both)
    assert isinstance(complete, RowTile) and isinstance(spilling, Resident) and isinstance(single, RowTile)
    held = complete.held
    fits = (cases.fast_words - held.beside) // (held.per_row + cases.keys * held.per_score)
    rows: Ints = largest_sizes(fits, cases.rows, cases.row_unit)
    one = ((cases.row_unit == 1) | (cases.rows == 1)) & (cases.fast_words >= spilling.beside)
    return np.asarray(np.maximum(rows, one * 1) > most_rows(cases, single))
