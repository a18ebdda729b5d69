"""The answer about a training step: what must move, what the best step moves, and what it saves between its passes."""

from dataclasses import dataclass
from typing import Any

from attenio.bounds import LowerBound, largest_absolute, largest_ordinary, lower_bounds
from attenio.catalogue import as_machine
from attenio.machine import Machine
from attenio.planning import TrainingCandidate, TrainingPlan, training_candidates, training_plan
from attenio.report.answer import Answer, answer
from attenio.workload import Direction, Workload, checked_workload


@dataclass(frozen=True, kw_only=True)
class TrainingAnswer:
    """A training step as a whole, and each of its passes by itself."""

    workload: Workload
    machine: Machine
    fast_words: int
    plan: TrainingPlan
    candidates: tuple[TrainingCandidate, ...]
    lower_bounds: tuple[LowerBound, ...]
    forward: Answer
    backward: Answer
    free_plan: TrainingPlan | None = None

    @property
    def granularity_price(self) -> float | None:
        """The share of words that the step moves more than with free tiles; None where tiles are free."""
        return None if self.free_plan is None else self.plan.moved_words / self.free_plan.moved_words - 1

    @property
    def bound(self) -> LowerBound:
        """The largest bound on a step with ordinary products."""
        return largest_ordinary(self.lower_bounds)

    @property
    def absolute_bound(self) -> LowerBound:
        """The largest bound on any step, one with fast products too."""
        return largest_absolute(self.lower_bounds)

    @property
    def gap(self) -> float:
        """Words of the step over the bound."""
        return self.plan.moved_words / self.bound.words

    @property
    def absolute_gap(self) -> float:
        """Words of the step over the absolute bound."""
        return self.plan.moved_words / self.absolute_bound.words

    def to_json(self) -> dict[str, Any]:
        """The answer as plain values."""
        from attenio.report.to_json import training_to_json

        return training_to_json(self)


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
