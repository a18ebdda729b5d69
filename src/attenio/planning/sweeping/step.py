"""Best training steps of many cases: the best passes, and what to save between them (see ``planning.training``)."""

from dataclasses import dataclass

import numpy as np

from attenio.masks.patterns.pattern import Counts
from attenio.planning.plan import Dataflow
from attenio.planning.problems.counting import seen_by
from attenio.planning.sweeping import first_tiles
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.columns import tile_columns
from attenio.planning.sweeping.forms import ROUNDING, Plans, floors, plans, promising
from attenio.planning.sweeping.rings import moves_on
from attenio.planning.sweeping.solution import Solution
from attenio.planning.training import Saved
from attenio.planning.words.backward.tiled_products import reading_forms
from attenio.planning.words.causal_sums import CausalSums, Sizes, held_words
from attenio.planning.words.dataflows import forms_of
from attenio.planning.words.first_tile import FEW
from attenio.planning.words.form import Form, KeptTile
from attenio.planning.words.standard import forms as standard_forms
from attenio.workload import Direction

_Passes = tuple[Solution, Solution]
# Cases of first tiles that are looked at together: many sizes are tried of each.
_AT_ONCE = 256


@dataclass
class _Steps:
    """The best steps so far: their passes, their words, what is saved, and the words of outputs that stay between."""

    passes: _Passes
    words: Ints
    saved: Ints
    stay: Ints

    def offer(self, index: Ints, saved: Saved, passes: _Passes, extra: Counts, stay: Counts = 0) -> None:
        """Take steps of some cases, with the words that their passes do not count, where they move less."""
        moved = passes[0].words + passes[1].words + extra
        better = np.flatnonzero(moved < self.words[index])
        chosen = index[better]
        for whole, part in zip(self.passes, passes, strict=True):
            whole.put(chosen, take(part, better))
        self.words[chosen], self.saved[chosen] = moved[better], list(Saved).index(saved)
        self.stay[chosen] = take(stay, better)


def best_steps(cases: Cases, forward: Solution, backward: Solution) -> dict[str, Ints]:
    """Steps made of the best passes, column by column; where saving something else pays, the passes are exchanged."""
    planned = (forward.words < NOTHING) & (backward.words < NOTHING)
    words = np.where(planned, np.where(planned, forward.words + backward.words, 0) + _statistics(cases), NOTHING)
    saved = np.where(planned, list(Saved).index(Saved.STATISTICS), -1)
    best = _Steps((forward, backward), words, saved, 0 * words)
    _offer_outputs(cases, best)
    _offer_probabilities(cases, best)
    peak = np.maximum(forward.peak, backward.peak) + best.stay
    numbers = {"saved": best.saved, "moved_words": best.words, "peak_words": peak}
    for way, one in ((Direction.FORWARD, forward), (Direction.BACKWARD, backward)):
        own = one.numbers(tile_columns(way, in_step=True))
        del own["peak_words"]
        numbers |= {f"{way.value}_{name}": values for name, values in own.items()}
    return numbers


def _statistics(cases: Cases) -> Ints:
    """Words of the log-sum-exp of every row that needs a key."""
    return np.asarray(cases.group * cases.touched_rows * cases.intermediate_words)


def _offer_outputs(cases: Cases, best: _Steps) -> None:
    """Offer passes that read and write everything once, with outputs that stay in what they leave of fast memory."""
    may = cases.once & (cases.row_unit == 1) & (cases.key_unit == 1)
    keys_stay = moves_on(cases) & (cases.group == 1) & (cases.keys <= cases.rows)
    for with_keys in (False, True):
        index = np.flatnonzero(may & (keys_stay == with_keys))
        if index.size:
            _offer_outputs_of(take(cases, index), best, index, with_keys=with_keys)
    staircase = may & keys_stay & cases.kind.staircase & (cases.rows == cases.keys) & (cases.rows > 1)
    for of_few_keys in (True, False):
        index = np.flatnonzero(staircase & ((cases.keys <= FEW) == of_few_keys))
        for part in np.array_split(index, -(-index.size // _AT_ONCE) or 1):
            if part.size:
                _offer_first_tiles(take(cases, part), best, part)


def _offer_outputs_of(cases: Cases, best: _Steps, index: Ints, *, with_keys: bool) -> None:
    """The same of cases in which keys stay too, or of others."""
    forward = _ring(cases, Dataflow.KEPT_KEYS)
    backward = _rows_for_keys(cases) if with_keys else _ring(cases.heads_as_rows, Dataflow.KEPT_ROW_GRADIENTS)
    beside = cases.fast_words - np.maximum(forward.peak, backward.peak)
    rows, some = cases.group * cases.touched_rows, np.flatnonzero(beside >= 0)
    each = cases.d if with_keys else cases.value_dim  # queries or outputs
    stay = np.minimum(beside // each, rows) * each
    extra = (-cases.keys * (cases.d + cases.value_dim) if with_keys else _statistics(cases)) - stay
    best.offer(index[some], Saved.OUTPUTS, take((forward, backward), some), extra[some], stay[some])


def _offer_first_tiles(cases: Cases, best: _Steps, index: Ints) -> None:
    """Offer passes between which keys of a first tile stay with the last rows, in causal cases of few keys or many."""
    able = first_tiles.may_gain(cases, best.words[index])
    if not able.size:
        return
    cases, index = take(cases, able), index[able]
    few, some = first_tiles.best_steps(cases)
    if some.size:
        index = index[some]
        extra = _statistics(take(cases, some)) - few.staying.words(*take((cases.d, cases.value_dim), some))
        beside = few.peak - np.maximum(few.forward.peak, few.backward.peak)
        best.offer(index, Saved.OUTPUTS, (few.forward, few.backward), extra, np.maximum(beside, 0))


def _ring(cases: Cases, dataflow: Dataflow) -> Solution:
    """One row, or key, at a time, beside slots for all that it needs."""
    form = cases.of_every_case(cases.forms(forms_of(dataflow))[0])
    (phase,) = form.phases
    assert isinstance(phase, KeptTile)
    seen = seen_by(cases, phase)
    slots = np.maximum(seen.band.longest_row, 1)
    one, read = np.ones_like(slots), seen.scores - seen.band.kept_loads(1, slots)
    words = form.fixed.of(cases) + cases.group * (phase.live * seen.touched_rows + phase.loads * read)
    peak = phase.per_row + slots * phase.per_slot + phase.beside
    sizes = {phase.tile: one, phase.slots: slots, **dict(form.constant)}
    ring = Solution.empty(len(cases))
    ring.offer(np.arange(len(cases), dtype=np.int64), (0, dataflow, form.names), Plans(words, peak, sizes))
    return ring


def _rows_for_keys(cases: Cases) -> Solution:
    """All keys first, and rows in the places of those that are done."""
    form = next(form for form in cases.forms(forms_of(Dataflow.KEPT_ROW_GRADIENTS)) if _is_causal(form))
    form = cases.of_every_case(form)
    (phase,) = form.phases
    assert isinstance(phase, CausalSums)
    none = 0 * cases.keys
    sizes = Sizes(none + 1, cases.keys, none, none)
    peak = np.asarray(held_words(phase, (cases.rows, cases.keys), sizes))
    found = Solution.empty(len(cases))
    tiles = dict(zip(phase[:4], sizes, strict=True))
    offers = Plans(form.fixed.of(cases) + none, peak, tiles)
    found.offer(np.arange(len(cases), dtype=np.int64), (0, Dataflow.KEPT_ROW_GRADIENTS, form.names), offers)
    return found


def _is_causal(form: Form) -> bool:
    return isinstance(form.phases[0], CausalSums)


def _offer_probabilities(cases: Cases, best: _Steps) -> None:
    """Offer standard attention, and tiled products that read its probabilities."""
    (standard,) = cases.forms(standard_forms)
    index, few, standard = promising(cases, standard, np.where(best.words < NOTHING, best.words - 1, -1))
    rows = few.heads_as_rows
    passing, resident = (floors(rows, rows.of_every_case(form)) for form in rows.forms(reading_forms))
    least = (floors(few, standard) + np.minimum(passing, resident)) * ROUNDING
    index = index[least < best.words[index]]
    if index.size:
        best.offer(index, Saved.PROBABILITIES, _with_probabilities(take(cases, index)), 0)


def _with_probabilities(cases: Cases) -> _Passes:
    """Both passes, in cases in which both fit."""
    every = np.arange(len(cases), dtype=np.int64)
    first, second = Solution.empty(len(cases)), Solution.empty(len(cases))
    (standard,), limit = cases.forms(standard_forms), np.full(len(cases), NOTHING - 1, dtype=np.int64)
    first.offer(every, (0, Dataflow.STANDARD, standard.names), plans(cases, cases.of_every_case(standard), limit))
    cases = cases.heads_as_rows
    for rank, form in enumerate(cases.forms(reading_forms)):
        index, few, some = promising(cases, form, second.limit(rank))
        offers = plans(few, some, second.limit(rank)[index], (cases, form, index))
        second.offer(index, (rank, Dataflow.TILED_PRODUCTS, form.names), offers)
    return first, second
