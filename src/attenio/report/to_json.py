"""Answers as plain values, with the names that the command line documents."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attenio.approximation import Certificate
from attenio.bounds import LowerBound
from attenio.machine import Machine
from attenio.plain_values import plain_fields
from attenio.planning import Candidate, TrainingPlan
from attenio.planning.plan import Plan
from attenio.report.guarantee import guarantee
from attenio.workload import Workload

# An answer turns itself into plain values by what is here.
if TYPE_CHECKING:
    from attenio.report.answer import Answer, BoundaryAnswer, BoundaryFloor, Floor
    from attenio.report.training import TrainingAnswer


def answer_to_json(answer: "Answer") -> dict[str, Any]:
    """The whole answer as dictionaries, lists, strings and numbers."""
    return {
        **_asked(answer),
        "plan": _plan(answer.plan),
        **_gaps(answer),
        "candidates": [_candidate(candidate) for candidate in answer.candidates],
        "boundaries": [_boundary(boundary) for boundary in answer.boundaries],
        "roofline": _roofline(answer),
    }


def floor_to_json(floor: "Floor") -> dict[str, Any]:
    """What must move, without a plan."""
    return {
        **_asked(floor),
        "lower_bounds": [_bound(bound) for bound in floor.lower_bounds],
        "boundaries": [_floor(part) for part in floor.boundaries],
    }


def training_to_json(answer: "TrainingAnswer") -> dict[str, Any]:
    """A training step, every choice of what to save, and the answers about its two passes."""
    return {
        **_asked(answer),
        "plan": training_plan_to_json(answer.plan),
        **_gaps(answer),
        "candidates": [
            {
                "saved": candidate.saved.value,
                "moved_words": None if candidate.plan is None else candidate.plan.moved_words,
                "plan": None if candidate.plan is None else training_plan_to_json(candidate.plan),
                "fits": candidate.plan is not None,
                **plain_fields(candidate, "reason", "needed_words"),
            }
            for candidate in answer.candidates
        ],
        "forward": answer_to_json(answer.forward),
        "backward": answer_to_json(answer.backward),
    }


def training_plan_to_json(plan: TrainingPlan) -> dict[str, Any]:
    """A plan of a training step."""
    passes = {"forward": _plan(plan.forward), "backward": _plan(plan.backward)}
    return {
        "saved": plan.saved.value,
        **passes,
        **plain_fields(
            plan, "extra_words", "kept_outputs", "kept_keys", "kept_values", "kept_queries", "moved_words", "peak_words"
        ),
    }


def _asked(answer: "Answer | Floor | TrainingAnswer") -> dict[str, Any]:
    asked = {"workload": _workload(answer.workload), "machine": _machine(answer.machine)}
    return {**asked, "fast_words": answer.fast_words}


def _gaps(answer: "Answer | TrainingAnswer") -> dict[str, Any]:
    return {
        "granularity": _granularity(answer),
        "lower_bounds": [_bound(bound) for bound in answer.lower_bounds],
        "gap": answer.gap,
        "gap_strength": answer.bound.strength.value,
        "absolute_gap": answer.absolute_gap,
    }


def _workload(workload: Workload) -> dict[str, Any]:
    return {
        **plain_fields(workload, "queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch"),
        "mask": str(workload.mask),
        **plain_fields(workload, "dtype", "accumulator"),
        "scale": workload.softmax_scale,
        **plain_fields(workload, "scores", "direction", "tolerance", "entry_bound", "values_in_keys"),
        "kv_bits": 8 * workload.dtype.bytes // workload.entries_per_word,
        **plain_fields(workload, "sinks", "softcap"),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "levels": [asdict(level) for level in machine.levels],
        "flops_per_s": {dtype.value: rate for dtype, rate in machine.flops_per_s.items()},
        "granularity": {dtype.value: asdict(unit) for dtype, unit in machine.granularity.items()},
        **plain_fields(machine, "exponentials_per_s", "source"),
    }


def _granularity(answer: "Answer | TrainingAnswer") -> dict[str, Any] | None:
    """Of which multiples tiles are, and what that costs against free ones; None where they are free."""
    free = answer.free_plan
    if free is None:
        return None
    return {
        **asdict(answer.machine.granularity_of(answer.workload.dtype)),
        "free_plan": training_plan_to_json(free) if isinstance(free, TrainingPlan) else _plan(free),
        "more_than_free_tiles": answer.granularity_price,
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        **plain_fields(plan, "dataflow", "tiles", "moved_words", "peak_words", "rule"),
        "approximation": None if plan.certificate is None else _approximation(plan, plan.certificate),
    }


def _approximation(plan: Plan, certificate: Certificate) -> dict[str, Any]:
    """What a plan guarantees; errors are those of outputs, in units of half the range of a column of values."""
    polynomial = certificate.polynomial
    errors = plain_fields(certificate, "rounding_error", "storage_error", "guaranteed_error")
    return {
        "kind": None if polynomial is None else polynomial.kind.value,
        **plain_fields(certificate, "degree", "features"),
        "largest_score": certificate.scores.radius,
        "truncation_error": certificate.truncation_error,
        **{name: error if math.isfinite(error) else None for name, error in errors.items()},
        "guarantee": guarantee(plan),
    }


def _bound(bound: LowerBound) -> dict[str, Any]:
    fields = ("theorem", "words", "strength", "covers", "regime", "citation", "assumptions", "page")
    return plain_fields(bound, *fields)


def _candidate(candidate: Candidate) -> dict[str, Any]:
    plan = candidate.plan
    return {
        **plain_fields(candidate, "dataflow", "tiles"),
        "moved_words": None if plan is None else plan.moved_words,
        "peak_words": None if plan is None else plan.peak_words,
        "rule": candidate.rule.value,
        "fits": plan is not None,
        **plain_fields(candidate, "reason", "needed_words"),
    }


def _floor(part: "BoundaryAnswer | BoundaryFloor") -> dict[str, Any]:
    bound = {f"bound_{name}": value for name, value in plain_fields(part.bound, "words", "theorem", "strength").items()}
    return {"boundary": part.boundary.name, "fast_words": part.fast_words, **bound}


def _boundary(part: "BoundaryAnswer") -> dict[str, Any]:
    return {
        **_floor(part),
        "plan": None if part.plan is None else _plan(part.plan),
        "reason": part.reason or None,
        **plain_fields(part, "needed_words", "nested_words"),
        "more_than_free_tiles": part.granularity_price,
    }


def _roofline(answer: "Answer") -> dict[str, Any]:
    binding = answer.binding
    return {
        "times": [asdict(time) for time in answer.times],
        "times_of": answer.timed_plan,
        **plain_fields(answer, "unknown_rates", "uncounted"),
        "binding": None if binding is None else binding.resource,
        "nested_reason": answer.nested_reason or None,
        "nested_tiles": None
        if answer.nested is None
        else {
            "head_tile": answer.nested.head_tile,
            "levels": [plain_fields(tiles, "query_tile", "key_tile") for tiles in answer.nested.tiles],
        },
    }
