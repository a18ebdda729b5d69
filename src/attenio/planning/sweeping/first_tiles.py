"""Steps in which keys of the first causal tile stay in fast memory, with the last rows, in many cases at once."""

from typing import NamedTuple

import numpy as np

from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import Cases, Ints, take
from attenio.planning.sweeping.forms import Plans
from attenio.planning.sweeping.solution import Solution
from attenio.planning.words.causal_sums import CausalSums, Sizes, held_words, words_of_turns
from attenio.planning.words.dataflows import forms_of
from attenio.planning.words.exchanged_rows import ExchangedRows, ExchangeSizes, exchanged_held, exchanged_words
from attenio.planning.words.first_tile import Passes, Staying
from attenio.planning.words.form import Form
from attenio.planning.words.turn_rooms import NEVER


class Steps(NamedTuple):
    """Both passes, what stays between them, and the words held at once, of some cases."""

    forward: Solution
    backward: Solution
    staying: Staying
    peak: Ints


def may_gain(cases: Cases, words: Ints) -> Ints:
    """The cases in which one may move less than so much: few of many, for which alone it is searched."""
    once = 2 * (cases.rows + cases.keys) * (cases.d + cases.value_dim)
    return np.flatnonzero(_passes(cases).forward_fits & (words > once))


def best_steps(cases: Cases) -> tuple[Steps, Ints]:
    """The best steps, of those of the cases in which there is one."""
    passes = _passes(cases)
    again, sizes = passes.best()
    some = np.flatnonzero(again < NEVER)
    cases, sizes = take(cases, some), Sizes(*(size[some] for size in sizes))
    passes = _passes(cases)
    forward, backward = _forward(cases, passes), _backward(cases, passes, sizes)
    staying = passes.staying(sizes)
    held = np.maximum(passes.held_forward(staying), passes.held_backward(sizes, staying))
    return Steps(forward, backward, staying, np.maximum(held, backward.peak)), some


def _forms(cases: Cases) -> tuple[Form, Form]:
    """Rows that exchange, and tiles of causal keys."""
    pairs = (Dataflow.KEPT_KEYS, ExchangedRows), (Dataflow.KEPT_ROW_GRADIENTS, CausalSums)
    exchanging, turning = (
        next(form for form in cases.forms(forms_of(dataflow)) if isinstance(form.phases[0], kind))
        for dataflow, kind in pairs
    )
    return cases.of_every_case(exchanging), cases.of_every_case(turning)


def _passes(cases: Cases) -> Passes:
    exchanging, turning = (form.phases[0] for form in _forms(cases))
    assert isinstance(exchanging, ExchangedRows)
    assert isinstance(turning, CausalSums)
    return Passes(exchanging, turning, cases.d, cases.value_dim, cases.rows, cases.fast_words)


def _forward(cases: Cases, passes: Passes) -> Solution:
    form, later, shape = _forms(cases)[0], passes.exchanged, (cases.rows, cases.keys)
    sizes = ExchangeSizes(later, 0 * later + 1, cases.rows - later, cases.rows - later)
    way = passes.forward
    words = form.fixed.of(cases) + exchanged_words(way, shape, sizes)
    tiles = dict(zip(form.names, sizes, strict=True))
    return _all_of(Dataflow.KEPT_KEYS, form, Plans(words, exchanged_held(way, shape, sizes), tiles), len(cases))


def _backward(cases: Cases, passes: Passes, sizes: Sizes) -> Solution:
    form, phase, shape = _forms(cases)[1], passes.backward, (cases.rows, cases.keys)
    words = form.fixed.of(cases) + words_of_turns(phase, shape, sizes)
    tiles = {phase.tile: sizes.tile, phase.last: sizes.last, phase.sums: sizes.sums, phase.exchanged: sizes.exchanged}
    return _all_of(Dataflow.KEPT_ROW_GRADIENTS, form, Plans(words, held_words(phase, shape, sizes), tiles), len(cases))


def _all_of(dataflow: Dataflow, form: Form, plans: Plans, count: int) -> Solution:
    found = Solution.empty(count)
    found.offer(np.arange(count, dtype=np.int64), (0, dataflow, form.names), plans)
    return found
