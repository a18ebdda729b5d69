"""Answers as plain values, with the names that the command line documents."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attenio.approximation import Certificate
from attenio.bounds import LowerBound
from attenio.machine import Machine
from attenio.planning import Candidate, TrainingPlan
from attenio.planning.plan import Plan
from attenio.report.guarantee import guarantee
from attenio.workload import Workload

# An answer turns itself into plain values by what is here.
if TYPE_CHECKING:
    from attenio.report.answer import Answer, BoundaryAnswer, Floor, TimeFloor
    from attenio.report.training import TrainingAnswer


def answer_to_json(answer: "Answer") -> dict[str, Any]:
    """The whole answer as dictionaries, lists, strings and numbers."""
    return {
        "workload": _workload(answer.workload),
        "machine": _machine(answer.machine),
        "fast_words": answer.fast_words,
        "plan": _plan(answer.plan),
        "granularity": _granularity(answer),
        "lower_bounds": [_bound(bound) for bound in answer.lower_bounds],
        "gap": answer.gap,
        "gap_strength": answer.bound.strength.value,
        "absolute_gap": answer.absolute_gap,
        "candidates": [_candidate(candidate) for candidate in answer.candidates],
        "boundaries": [_boundary(boundary) for boundary in answer.boundaries],
        "roofline": _roofline(answer),
    }


def floor_to_json(floor: "Floor") -> dict[str, Any]:
    """What must move, without a plan."""
    return {
        "workload": _workload(floor.workload),
        "machine": _machine(floor.machine),
        "fast_words": floor.fast_words,
        "lower_bounds": [_bound(bound) for bound in floor.lower_bounds],
        "boundaries": [
            {
                "boundary": part.boundary.name,
                "fast_words": part.fast_words,
                "bound_words": part.bound.words,
                "bound_theorem": part.bound.theorem,
                "bound_strength": part.bound.strength.value,
            }
            for part in floor.boundaries
        ],
    }


def training_to_json(answer: "TrainingAnswer") -> dict[str, Any]:
    """A training step, every choice of what to save, and the answers about its two passes."""
    return {
        "workload": _workload(answer.workload),
        "machine": _machine(answer.machine),
        "fast_words": answer.fast_words,
        "plan": training_plan_to_json(answer.plan),
        "granularity": _granularity(answer),
        "lower_bounds": [_bound(bound) for bound in answer.lower_bounds],
        "gap": answer.gap,
        "gap_strength": answer.bound.strength.value,
        "absolute_gap": answer.absolute_gap,
        "candidates": [
            {
                "saved": candidate.saved.value,
                "moved_words": None if candidate.plan is None else candidate.plan.moved_words,
                "plan": None if candidate.plan is None else training_plan_to_json(candidate.plan),
                "fits": candidate.plan is not None,
                "reason": candidate.reason,
                "needed_words": candidate.needed_words,
            }
            for candidate in answer.candidates
        ],
        "forward": answer_to_json(answer.forward),
        "backward": answer_to_json(answer.backward),
    }


def training_plan_to_json(plan: TrainingPlan) -> dict[str, Any]:
    """A plan of a training step."""
    return {
        "saved": plan.saved.value,
        "forward": _plan(plan.forward),
        "backward": _plan(plan.backward),
        "extra_words": plan.extra_words,
        "moved_words": plan.moved_words,
        "peak_words": plan.peak_words,
    }


def _workload(workload: Workload) -> dict[str, Any]:
    return {
        "queries": workload.queries,
        "keys": workload.keys,
        "d": workload.d,
        "value_dim": workload.value_dim,
        "heads": workload.heads,
        "kv_heads": workload.kv_heads,
        "batch": workload.batch,
        "mask": str(workload.mask),
        "dtype": workload.dtype.value,
        "accumulator": None if workload.accumulator is None else workload.accumulator.value,
        "scale": workload.softmax_scale,
        "scores": workload.scores,
        "direction": workload.direction.value,
        "tolerance": workload.tolerance,
        "entry_bound": workload.entry_bound,
        "values_in_keys": workload.values_in_keys,
    }


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "levels": [
            {
                "name": level.name,
                "capacity_bytes": level.capacity_bytes,
                "bandwidth_bytes_per_s": level.bandwidth_bytes_per_s,
                "units": level.units,
            }
            for level in machine.levels
        ],
        "flops_per_s": {dtype.value: rate for dtype, rate in machine.flops_per_s.items()},
        "granularity": {dtype.value: asdict(unit) for dtype, unit in machine.granularity.items()},
        "exponentials_per_s": machine.exponentials_per_s,
        "source": machine.source,
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
        "dataflow": plan.dataflow.value,
        "tiles": dict(plan.tiles),
        "moved_words": plan.moved_words,
        "peak_words": plan.peak_words,
        "rule": plan.rule.value,
        "approximation": None if plan.certificate is None else _approximation(plan, plan.certificate),
    }


def _approximation(plan: Plan, certificate: Certificate) -> dict[str, Any]:
    """What a plan guarantees; errors are those of outputs, in units of half the range of a column of values."""
    polynomial = certificate.polynomial

    def finite(error: float) -> float | None:
        return error if math.isfinite(error) else None

    return {
        "kind": None if polynomial is None else polynomial.kind.value,
        "degree": certificate.degree,
        "features": certificate.features,
        "largest_score": certificate.scores.radius,
        "truncation_error": certificate.truncation_error,
        "rounding_error": finite(certificate.rounding_error),
        "storage_error": finite(certificate.storage_error),
        "guaranteed_error": finite(certificate.guaranteed_error),
        "guarantee": guarantee(plan),
    }


def _bound(bound: LowerBound) -> dict[str, Any]:
    return {
        "theorem": bound.theorem,
        "words": bound.words,
        "strength": bound.strength.value,
        "covers": bound.covers,
        "regime": bound.regime,
        "citation": bound.citation,
        "assumptions": list(bound.assumptions),
        "page": bound.page,
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    plan = candidate.plan
    return {
        "dataflow": candidate.dataflow.value,
        "tiles": None if candidate.tiles is None else dict(candidate.tiles),
        "moved_words": None if plan is None else plan.moved_words,
        "peak_words": None if plan is None else plan.peak_words,
        "rule": candidate.rule.value,
        "fits": plan is not None,
        "reason": candidate.reason,
        "needed_words": candidate.needed_words,
    }


def _boundary(part: "BoundaryAnswer") -> dict[str, Any]:
    return {
        "boundary": part.boundary.name,
        "fast_words": part.fast_words,
        "bound_words": part.bound.words,
        "bound_theorem": part.bound.theorem,
        "bound_strength": part.bound.strength.value,
        "plan": None if part.plan is None else _plan(part.plan),
        "reason": part.reason or None,
        "needed_words": part.needed_words,
        "nested_words": part.nested_words,
        "more_than_free_tiles": part.granularity_price,
    }


def _roofline(answer: "Answer") -> dict[str, Any]:
    binding = answer.binding
    return {
        "times": [_time(time) for time in answer.times],
        "times_of": answer.timed_plan,
        "unknown_rates": list(answer.unknown_rates),
        "uncounted": list(answer.uncounted),
        "binding": None if binding is None else binding.resource,
        "nested_reason": answer.nested_reason or None,
        "nested_tiles": None
        if answer.nested is None
        else {
            "head_tile": answer.nested.head_tile,
            "levels": [{"query_tile": tiles.query_tile, "key_tile": tiles.key_tile} for tiles in answer.nested.tiles],
        },
    }


def _time(time: "TimeFloor") -> dict[str, Any]:
    return {
        "resource": time.resource,
        "rate_per_s": time.rate_per_s,
        "unit": time.unit,
        "least_seconds": time.least_seconds,
        "plan_seconds": time.plan_seconds,
    }
