"""The answer about a training step: what must move, what the best step moves, and what it saves between its passes."""

from dataclasses import dataclass
from typing import Any

from attenio.bounds import lower_bounds
from attenio.catalogue import as_machine
from attenio.machine import Machine
from attenio.planning import Saved, TrainingCandidate, TrainingPlan, training_candidates, training_plan
from attenio.report.answer import Answer, Planned, answer
from attenio.workload import Direction, Workload, checked_workload


@dataclass(frozen=True, kw_only=True)
class TrainingAnswer(Planned[TrainingPlan]):
    """A training step as a whole, and each of its passes by itself."""

    candidates: tuple[TrainingCandidate, ...]
    forward: Answer
    backward: Answer

    def to_json(self) -> dict[str, Any]:
        """The answer as plain values."""
        from attenio.report.to_json import training_to_json

        return training_to_json(self)


def between_passes(plan: TrainingPlan) -> str:
    r"""How the words of both passes add up to those of the step, and what stays in fast memory between them.

    >>> step = training_plan(Workload(n=100, d=8, mask="causal"), Machine.with_fast_bytes(8192))
    >>> print(*between_passes(step).split(": "), sep="\n")
    The passes move 3,200 and 5,600 words by themselves and 2,400 fewer together
    100 keys, 100 rows of values and 100 queries stay in fast memory between them.
    >>> step.moved_words
    6400
    """
    sizes = f"The passes move {plan.forward.moved_words:,} and {plan.backward.moved_words:,} words by themselves"
    more = ""
    if plan.extra_words:
        more = f" and {abs(plan.extra_words):,} {'more' if plan.extra_words > 0 else 'fewer'} together"
    if plan.saved is Saved.NOTHING:
        return f"{sizes}{more}: the forward pass runs again."
    kept = (
        (plan.kept_outputs, "row of outputs", "rows of outputs"),
        (plan.kept_keys, "key", "keys"),
        (plan.kept_values, "row of values", "rows of values"),
        (plan.kept_queries, "query", "queries"),
    )
    staying = [f"{count:,} {one if count == 1 else many}" for count, one, many in kept if count]
    if staying:
        listed = " and ".join((", ".join(staying[:-1]), staying[-1])) if len(staying) > 1 else staying[0]
        return f"{sizes}{more}: {listed} stay in fast memory between them."
    stored = ": the forward pass also stores what is saved" if plan.extra_words > 0 else ""
    return f"{sizes}{more}{stored}."


def training_answer(workload: Workload, machine: Machine | str) -> TrainingAnswer:
    """The best training step, every choice of what to save, and the answers about its two passes."""
    machine, step = as_machine(machine), checked_workload(workload).towards(Direction.TRAINING)
    plan, free = training_plan(step, machine), machine.granularity_of(workload.dtype).is_free
    return TrainingAnswer(
        workload=step,
        machine=machine,
        fast_words=plan.fast_words,
        plan=plan,
        candidates=training_candidates(step, machine),
        lower_bounds=lower_bounds(step, machine),
        forward=answer(step.towards(Direction.FORWARD), machine),
        backward=answer(step.towards(Direction.BACKWARD), machine),
        free_plan=None if free else training_plan(step, machine.with_free_tiles()),
    )
