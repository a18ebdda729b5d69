"""Plans of a training step: a forward and a backward pass, and what the first saves for the second.

    statistics       the forward pass also stores the log-sum-exp of every row that needs a key
    outputs          the same, and outputs of the last rows stay in fast memory, where the backward pass finds them;
                     under a causal mask all keys with their values do instead, and the last queries, and no sums are
                     stored, since rows make them again; or, where not all keys fit, those of the backward pass's first
                     tile, values of some of them, and queries and outputs of the last rows
    probabilities    standard attention leaves the probabilities that it writes anyway, and tiled products read them
    nothing          the backward pass begins by running the forward pass again, which then stores the log-sum-exp

Both passes have all of the fast memory, so the best step is made of the best passes; but for outputs that stay, which
take what neither pass needs to read and write everything once, and so do queries. Keys that stay take nothing: the
forward pass ends with all of them, and the backward pass begins with them. What stays of a first tile takes what the
passes leave then, the forward pass at its end and the backward one at its beginning.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, assert_never

from attenio.catalogue import as_machine
from attenio.errors import DoesNotFit, InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.machine import Boundary, Machine
from attenio.names import member_named
from attenio.planning.against_bounds import AgainstBounds
from attenio.planning.best import best_plan_for, check_memory, or_free_tiles
from attenio.planning.costs import checked_dataflow, cost_of, knows_forms_of
from attenio.planning.first_tile import may_stay, tile_passes
from attenio.planning.plan import Dataflow, Plan, TileRule
from attenio.planning.problems import Problems
from attenio.planning.problems.tile_sizes import smallest_tiles
from attenio.planning.rings import keys_stay, rings, room_for_rings, why_no_outputs
from attenio.planning.search.contest import best_of_all
from attenio.planning.search.dataflow import best_of_forms
from attenio.planning.search.forms import floor_of_form
from attenio.planning.words.backward.tiled_products import reading_forms
from attenio.planning.words.dataflows import known_forms
from attenio.quantities import show_words
from attenio.workload import Direction, Workload, checked_workload

# Floors in floating point are off by less than this factor.
_ROUNDING = 1 - 1e-12


class Saved(Enum):
    """What a forward pass leaves in slow memory for the backward one, beside its output; preferred in this order."""

    STATISTICS = "statistics"
    OUTPUTS = "outputs"
    PROBABILITIES = "probabilities"
    NOTHING = "nothing"

    @classmethod
    def named(cls, name: "str | Saved") -> "Saved":
        """The choice with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "choice of what to save")


@dataclass(frozen=True, kw_only=True)
class TrainingPlan(AgainstBounds):
    """A forward and a backward plan, and the words that they move together.

    ``extra_words`` are those that neither plan counts by itself: what is stored for the backward pass, and a forward
    pass that runs again, less the ``kept_outputs`` rows of outputs, ``kept_keys`` keys, ``kept_values`` and
    ``kept_queries`` that the backward pass finds in fast memory. ``moved_words`` has them in it. Unless they are of a
    ``first_tile`` outputs and queries stay beside all that a pass holds.
    """

    workload: Workload
    fast_words: int
    forward: Plan
    backward: Plan
    saved: Saved
    extra_words: int
    moved_words: int
    peak_words: int
    kept_outputs: int = 0
    kept_keys: int = 0
    kept_values: int = 0
    kept_queries: int = 0
    boundary: Boundary | None = field(default=None, compare=False, repr=False)

    @property
    def first_tile(self) -> bool:
        """Whether keys stay that are not all keys."""
        return self.saved is Saved.OUTPUTS and 0 < self.kept_keys < self.workload.keys

    def facts(self) -> dict[str, Any]:
        """Both passes, what they move together, and how far that is from the bound."""
        return {
            "workload": str(self.workload),
            "forward": f"{self.forward.dataflow.value}, {self.forward.tiles}",
            "backward": f"{self.backward.dataflow.value}, {self.backward.tiles}",
            "saved": self.saved.value,
            "moved_words": self.moved_words,
            "bound_words": (bound := self.bound).words,
            "gap": self.moved_words / bound.words,
            "bound": f"{bound.theorem} ({bound.strength.value})",
            "peak_words": self.peak_words,
            "fast_words": self.fast_words,
        }


@dataclass(frozen=True, kw_only=True)
class TrainingCandidate:
    """A choice of what to save: its best plan, or the reason why there is none and the words it would need."""

    saved: Saved
    plan: TrainingPlan | None
    reason: str | None = None
    needed_words: int | None = None


def training_plan(workload: Workload, machine: Machine | str, *, saved: Saved | str | None = None) -> TrainingPlan:
    """The training step that moves the fewest words across the machine's slowest boundary.

    Over everything that may be saved, or what is named. The workload's own direction does not matter.

    >>> plan = training_plan(Workload(n=4096, d=64), Machine.with_fast_bytes(64 * 1024))
    >>> plan.saved.value, plan.forward.dataflow.value, plan.backward.dataflow.value, plan.moved_words
    ('statistics', 'kept-keys', 'two-pass', 41461824)
    """
    machine = as_machine(machine)
    boundary, granularity = machine.slowest_boundary, machine.granularity_of(checked_workload(workload).dtype)
    plan = training_plan_for(workload, boundary.fast_words(workload.dtype), saved=saved, granularity=granularity)
    passes = {name: replace(getattr(plan, name), boundary=boundary) for name in ("forward", "backward")}
    return replace(plan, boundary=boundary, **passes)


def training_plan_for(
    workload: Workload,
    fast_words: int,
    *,
    saved: Saved | str | None = None,
    granularity: Granularity = FREE_TILES,
    alone: bool = True,
) -> TrainingPlan:
    """The best training step for a fast memory of ``fast_words`` words, with tiles of this granularity.

    Not ``alone``, it is one of several, whose passes come between its own: no outputs stay in fast memory.
    """
    check_memory(fast_words, granularity)
    problems = Problems.separate(checked_workload(workload), granularity)
    if saved is not None:
        return _plan(workload, fast_words, Saved.named(saved), problems)
    # Saving nothing moves as much as saving statistics, and a forward pass more.
    best = _plan(workload, fast_words, Saved.STATISTICS, problems)
    if alone and why_no_outputs(problems) is None:
        best = min([best, *_with_outputs(workload, fast_words, problems)], key=lambda plan: plan.moved_words)
    if not knows_forms_of(workload, Dataflow.TILED_PRODUCTS):
        return best
    if _least_with_probabilities(problems, fast_words) >= best.moved_words:
        return best
    return min(best, _plan(workload, fast_words, Saved.PROBABILITIES, problems), key=lambda plan: plan.moved_words)


def _least_with_probabilities(problems: Problems, fast_words: int) -> float:
    """Words that no step which saves probabilities goes below; infinite if none fits."""
    (standard,) = known_forms(Dataflow.STANDARD, problems.sizes)
    forward = floor_of_form(problems.unmasked, standard, fast_words)  # it is blind to the mask
    rows = problems.heads_as_rows
    backward = min(floor_of_form(rows, form, fast_words) for form in reading_forms(rows.sizes))
    return (forward + backward) * _ROUNDING


def training_candidates(workload: Workload, machine: Machine | str) -> tuple[TrainingCandidate, ...]:
    """Everything that may be saved, with the best plan for each."""
    machine = as_machine(machine)
    fast_words = machine.slowest_boundary.fast_words(checked_workload(workload).dtype)
    return training_candidates_for(workload, fast_words, granularity=machine.granularity_of(workload.dtype))


def training_candidates_for(
    workload: Workload, fast_words: int, *, granularity: Granularity = FREE_TILES
) -> tuple[TrainingCandidate, ...]:
    """The same for a fast memory of ``fast_words`` words, with tiles of this granularity."""
    check_memory(fast_words, granularity)
    every, problems = [], Problems.separate(checked_workload(workload), granularity)
    for saved in Saved:
        try:
            every.append(TrainingCandidate(saved=saved, plan=_plan(workload, fast_words, saved, problems)))
        except InvalidInput as problem:
            if workload.tolerance is not None:
                raise
            every.append(TrainingCandidate(saved=saved, plan=None, reason=str(problem)))
        except DoesNotFit as problem:
            needed = problem.needed_words
            every.append(TrainingCandidate(saved=saved, plan=None, reason=str(problem), needed_words=needed))
    return tuple(every)


def _plan(workload: Workload, fast_words: int, saved: Saved, problems: Problems) -> TrainingPlan:
    if workload.tolerance is not None:
        raise InvalidInput(
            f"a training step is planned exactly, and the workload allows an error of {workload.tolerance:g}; leave"
            " tolerance out, or set the direction to forward or backward (--direction)"
        )
    forwards, backwards = workload.towards(Direction.FORWARD), workload.towards(Direction.BACKWARD)
    statistics = _statistics(problems)
    match saved:
        case Saved.STATISTICS:
            forward, backward = (_best(way, fast_words, problems) for way in (forwards, backwards))
            extra = statistics
        case Saved.OUTPUTS:
            if not (found := _with_outputs(workload, fast_words, problems)):
                raise _no_outputs(workload, fast_words, problems)
            return min(found, key=lambda plan: plan.moved_words)
        case Saved.PROBABILITIES:
            granularity = problems.granularity
            forward = best_plan_for(forwards, fast_words, dataflow=Dataflow.STANDARD, granularity=granularity)
            backward = _reading_plan(backwards, problems, fast_words)
            extra = 0
        case Saved.NOTHING:
            forward, backward = (_best(way, fast_words, problems) for way in (forwards, backwards))
            extra = forward.moved_words + statistics
        case _:
            assert_never(saved)
    return _step(workload, fast_words, saved, (forward, backward), extra)


def _step(workload: Workload, fast_words: int, saved: Saved, passes: tuple[Plan, Plan], extra: int) -> TrainingPlan:
    """A step of these passes, which moves so many words that they do not count; nothing stays in fast memory."""
    forward, backward = passes
    return TrainingPlan(
        workload=workload.towards(Direction.TRAINING),
        fast_words=fast_words,
        forward=forward,
        backward=backward,
        saved=saved,
        extra_words=extra,
        moved_words=forward.moved_words + backward.moved_words + extra,
        peak_words=max(forward.peak_words, backward.peak_words),
    )


def _statistics(problems: Problems) -> int:
    """Words of the log-sum-exp of every row that needs a key."""
    return int(problems.runs * problems.group * problems.counts.touched_rows * problems.intermediate_words)


def _with_outputs(workload: Workload, fast_words: int, problems: Problems) -> list[TrainingPlan]:
    """Steps with outputs, or keys, that stay in fast memory, as far as they fit."""
    found = []
    if why_no_outputs(problems) is None and fast_words >= room_for_rings(workload, problems):
        found.append(_around_rings(workload, fast_words, problems))
    passes = tile_passes(workload, fast_words, problems) if may_stay(problems) else None
    if passes is not None:
        keys, values, rows = passes.staying
        extra = _statistics(problems) - passes.staying.words(problems.d, problems.value_dim)
        step = _step(workload, fast_words, Saved.OUTPUTS, passes[:2], extra)
        step = replace(step, kept_outputs=rows, kept_keys=keys, kept_values=values, kept_queries=rows)
        found.append(replace(step, peak_words=passes.peak_words))
    return found


def _no_outputs(workload: Workload, fast_words: int, problems: Problems) -> InvalidInput | DoesNotFit:
    """Why no outputs stay."""
    reason = why_no_outputs(problems)
    if reason is not None:
        return InvalidInput(f"{reason}; save statistics")
    room = room_for_rings(workload, problems)
    if may_stay(problems):
        every = range(fast_words, room)
        room = every[0] + bisect_left(every, 1, key=lambda words: tile_passes(workload, words, problems) is not None)
    return DoesNotFit(
        f"to keep outputs in fast memory a step needs at least {show_words(room)} of fast memory for both passes;"
        f" the machine has {fast_words:,}: use a larger fast memory, or save statistics",
        needed_words=room,
    )


def _around_rings(workload: Workload, fast_words: int, problems: Problems) -> TrainingPlan:
    """Both passes read and write everything once, and what they leave of fast memory is for outputs, or queries."""
    forward, backward = rings(workload, problems)
    free = fast_words - max(forward.peak_words, backward.peak_words)
    rows, kept, keys, queries = problems.group * problems.counts.touched_rows, 0, 0, 0
    if keys_stay(problems):
        keys, queries = problems.counts.keys, min(free // problems.d, rows)
        extra = -keys * (problems.d + problems.value_dim) - queries * problems.d
    else:
        kept = min(free // problems.value_dim, rows)
        extra = _statistics(problems) - kept * problems.value_dim
    step = _step(workload, fast_words, Saved.OUTPUTS, (forward, backward), extra)
    step = replace(step, kept_outputs=kept, kept_keys=keys, kept_values=keys, kept_queries=queries)
    return replace(step, peak_words=step.peak_words + kept * problems.value_dim + queries * problems.d)


def _best(workload: Workload, fast_words: int, problems: Problems) -> Plan:
    """The best plan of one pass; both passes are over the same problems."""
    best = best_of_all(workload, fast_words, problems.held_by(workload))
    return best or best_plan_for(workload, fast_words, granularity=problems.granularity)  # which says why not


def _reading_plan(workload: Workload, problems: Problems, fast_words: int) -> Plan:
    """The best tiled products that read saved probabilities."""
    checked_dataflow(workload, Dataflow.TILED_PRODUCTS)  # which says why not
    problems = problems.heads_as_rows
    forms = reading_forms(problems.sizes)
    best = best_of_forms(problems, forms, fast_words)
    if best is None:
        smallest = smallest_tiles(problems, forms[0].names)
        needed = cost_of(problems, Dataflow.TILED_PRODUCTS, smallest).peak_words
        raise DoesNotFit(
            f"tiled-products needs at least {show_words(needed)} of fast memory to read probabilities; the machine has"
            f" {fast_words:,}: use a larger fast memory{or_free_tiles(problems.granularity)}",
            needed_words=needed,
        )
    return Plan(
        workload=workload,
        fast_words=fast_words,
        dataflow=Dataflow.TILED_PRODUCTS,
        tiles=best.tiles,
        rule=TileRule.BEST,
        moved_words=best.moved_words,
        peak_words=cost_of(problems, Dataflow.TILED_PRODUCTS, best.tiles).peak_words,
    )
