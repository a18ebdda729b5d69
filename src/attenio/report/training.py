"""The answer about a training step: what must move, what the best step moves, and what it saves between its passes."""

from dataclasses import dataclass
from typing import Any

from attenio.bounds import lower_bounds
from attenio.catalogue import as_machine
from attenio.machine import Machine
from attenio.planning import TrainingCandidate, TrainingPlan, training_candidates, training_plan
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
