"""Best training steps of many cases: the best passes, and what to save between them (see ``planning.training``)."""

import numpy as np

from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.forms import ROUNDING, floors, plans, promising
from attenio.planning.sweeping.solution import Solution
from attenio.planning.training import Saved
from attenio.planning.words.backward.tiled_products import reading_forms
from attenio.planning.words.standard import forms as standard_forms


def best_steps(cases: Cases, forward: Solution, backward: Solution) -> dict[str, Ints]:
    """Steps made of the best passes, column by column; where saving probabilities pays, the passes are exchanged."""
    planned = (forward.words < NOTHING) & (backward.words < NOTHING)
    statistics = cases.group * cases.band.touched_rows * cases.intermediate_words
    words = np.where(planned, np.where(planned, forward.words + backward.words, 0) + statistics, NOTHING)
    saved = np.where(planned, list(Saved).index(Saved.STATISTICS), -1)
    (standard,) = cases.forms(standard_forms)
    index, few, standard = promising(cases, standard, np.where(planned, words - 1, -1))
    passing, resident = (floors(few, few.of_every_case(form)) for form in few.forms(reading_forms))
    least = (floors(few, standard) + np.minimum(passing, resident)) * ROUNDING
    index = index[least < words[index]]
    if index.size:
        passes = _with_probabilities(take(cases, index), forward, backward)
        moved = passes[0].words + passes[1].words
        better = np.flatnonzero(moved < words[index])
        chosen = index[better]
        for whole, part in zip((forward, backward), passes, strict=True):
            whole.put(chosen, take(part, better))
        words[chosen], saved[chosen] = moved[better], list(Saved).index(Saved.PROBABILITIES)
    numbers = {"saved": saved, "moved_words": words, "peak_words": np.maximum(forward.peak, backward.peak)}
    for way, one in (("forward", forward), ("backward", backward)):
        own = one.numbers()
        del own["peak_words"]
        numbers |= {f"{way}_{name}": values for name, values in own.items()}
    return numbers


def _with_probabilities(cases: Cases, forward: Solution, backward: Solution) -> tuple[Solution, Solution]:
    """Standard attention, and tiled products that read its probabilities, in cases in which both fit."""
    every = np.arange(len(cases), dtype=np.int64)
    first, second = (Solution.empty(len(cases), tuple(each.tiles)) for each in (forward, backward))
    (standard,), limit = cases.forms(standard_forms), np.full(len(cases), NOTHING - 1, dtype=np.int64)
    first.offer(every, (0, Dataflow.STANDARD), plans(cases, cases.of_every_case(standard), limit))
    for rank, form in enumerate(cases.forms(reading_forms)):
        index, few, some = promising(cases, form, second.limit(rank))
        found = plans(few, some, second.limit(rank)[index], (cases, form, index))
        second.offer(index, (rank, Dataflow.TILED_PRODUCTS), found)
    return first, second
