"""A call with a tolerance: whether its data may be approximated, whether that is worth it, and the run.

Whether a polynomial is good enough depends on the data, so the decision is made before the registered operator is
called, from the norms of queries and keys and the range of values: a pass over them and, on a GPU, a wait for it. Where
tensors have no data to look at (``torch.compile``, ``vmap``, fake tensors, CUDA graphs) exact attention runs, which
keeps every tolerance.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.errors import AttenioError, InvalidInput
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.promise import RATE, Promise, exact_operations
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.kernels.call.watching import is_concrete
from attenio.kernels.choice import choose, features_of, place_of, workload_of
from attenio.kernels.gpu import tensor_cores
from attenio.machine import Machine
from attenio.masks import Causal, Dense
from attenio.planning import Dataflow, plan_of_tiles
from attenio.planning.approximate.forms import best_approximate_tiles
from attenio.planning.costs import problems_of
from attenio.planning.plan import ApproximateDataflow
from attenio.quantities import show_words

_BY_FEATURES: tuple[ApproximateDataflow, ...] = (
    Dataflow.FEATURE_STATE,
    Dataflow.VALUE_COLUMNS,
    Dataflow.FEATURE_BLOCKS,
)


class Words(NamedTuple):
    """What crosses the boundary of a core's cache or an SM's memory: exactly, and by features in the best dataflow."""

    exact: int
    approximate: int | None
    dataflow: str | None
    tiles: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """How a call with a tolerance runs: approximately, or exactly for the ``reason`` given."""

    tolerance: float
    reason: str | None
    promise: Promise | None = None
    exact_operations: int | None = None
    operations: int | None = None
    words: Words | None = None

    @property
    def approximates(self) -> bool:
        """Whether a polynomial takes the place of the exponential."""
        return self.reason is None

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, strings and numbers; what there is no certificate for is None."""
        certificate = None if self.promise is None else self.promise.certificate
        return {
            "tolerance": self.tolerance,
            "runs": "approximate" if self.approximates else "exact",
            "reason": self.reason,
            "radius": None if certificate is None else certificate.scores.radius,
            "degree": None if certificate is None else certificate.degree,
            "needed_degree": None if certificate is None else certificate.needed_degree,
            "features": None if certificate is None else certificate.features,
            "added_error": None if certificate is None or certificate.degree is None else certificate.added_error,
            "guaranteed_error": None
            if certificate is None or certificate.degree is None
            else certificate.guaranteed_error,
            "error_unit": None if certificate is None else certificate.scores.value_unit,
            "operations": self.operations,
            "exact_operations": self.exact_operations,
            "words": None if self.words is None else self.words.approximate,
            "exact_words": None if self.words is None else self.words.exact,
            "dataflow": None if self.words is None else self.words.dataflow,
        }

    def __str__(self) -> str:
        lines = [f"tolerance  {self.tolerance:g}: {'approximate' if self.approximates else 'exact'} attention runs"]
        if self.reason is not None:
            lines[0] += f", because {self.reason}"
        certificate = None if self.promise is None else self.promise.certificate
        if certificate is not None and certificate.degree is not None:
            lines.append(
                f"  degree {certificate.degree}, {certificate.features:,} features,"
                f" scores within ±{certificate.scores.radius:.4g}:"
                f" outputs move by at most {certificate.added_error:.2g} of half the range of values,"
                f" {certificate.guaranteed_error:.2g} when stored"
            )
        if self.operations is not None and self.exact_operations is not None:
            lines.append(f"  {self.operations:,} operations approximately, {self.exact_operations:,} exactly")
        if self.words is not None and self.words.approximate is not None:
            lines.append(
                f"  {show_words(self.words.approximate)} approximately ({self.words.dataflow}, {self.words.tiles}),"
                f" {self.words.exact:,} exactly"
            )
        return "\n".join(lines)


def approximated(problem: KernelProblem, tolerance: float) -> Tensor | None:
    """The output (batch, KV heads, group, queries, width) within the tolerance; None where exact should run."""
    way = way_for(problem, tolerance)
    if way.promise is None or not way.approximates:
        return None
    seen, causal = _supported(problem)
    assert seen is not None
    try:
        output: Tensor = features_of(seen.query).attend_by_features(seen, way.promise, causal=causal)
    except InvalidInput:  # sums overflowed, or tiles do not fit: no certificate is about that
        return None
    return output


def way_for(problem: KernelProblem, tolerance: float, machine: str | Machine | None = None) -> Way:
    """Whether ``attention`` would run exactly or by features, and why not the other."""
    seen, causal = _supported(problem)
    if seen is None:
        reason = "features are for calls in which queries see all keys, or all up to their own, and drop no weights"
        return Way(tolerance=tolerance, reason=reason)
    captured = seen.query.is_cuda and torch.cuda.is_current_stream_capturing()
    if captured or not is_concrete((seen.query, seen.key, seen.value)):
        return Way(tolerance=tolerance, reason="there are no data to look at before the call runs")
    backend: Any = tensor_cores
    try:
        if machine is None:
            backend = features_of(seen.query)
        exact = exact_operations(seen, causal=causal)
        least: int = backend.approximate_operations(seen, 1, causal=causal)
        if least >= RATE * exact:
            reason = (
                f"features of any degree compute more than {RATE:g} of what it does, and run at {RATE:g} of its rate"
            )
            return Way(tolerance=tolerance, reason=reason, operations=least, exact_operations=exact)
        promise: Promise = backend.promise_for(seen, tolerance, causal=causal)
    except InvalidInput as problem_with_data:
        return Way(tolerance=tolerance, reason=str(problem_with_data).removeprefix("use exact: "))
    degree = promise.certificate.degree
    if degree is None:
        return Way(tolerance=tolerance, reason=promise.certificate.reason, promise=promise, exact_operations=exact)
    count: int = backend.approximate_operations(seen, degree, causal=causal)
    words = _words(seen, max(1, degree), machine, causal=causal)
    return Way(
        tolerance=tolerance, reason=_why_not(count, exact, words), promise=promise, operations=count,
        exact_operations=exact, words=words,
    )  # fmt: skip


def _why_not(count: int, exact: int, words: Words | None) -> str | None:
    if count >= RATE * exact:
        return f"features compute more than {RATE:g} of what it does, and run at {RATE:g} of its rate"
    if words is not None and words.approximate is not None and words.approximate > words.exact:
        return "it moves less"
    return None


def _supported(problem: KernelProblem) -> tuple[KernelProblem | None, bool]:
    """The problem with the keys that are seen at all, if features can compute it, and whether it is causal."""
    visible = problem.visible
    data = (visible.first, visible.stop, visible.query_ids, visible.key_ids, visible.blocks, visible.bias)
    causal = visible.above == 0
    plain = visible.below <= -UNBOUNDED and (causal or visible.above >= UNBOUNDED)
    empty = 0 in problem.query.shape or 0 in problem.value.shape
    if not plain or empty or any(x is not None for x in data) or problem.dropout is not None or problem.prefix:
        return None, causal
    if not causal or problem.queries == problem.keys:
        return problem, causal
    if problem.queries > problem.keys:
        return None, causal
    n = problem.queries  # query i sees keys up to i: no query sees those past the last one's
    return replace(problem, key=problem.key[:, :, :n], value=problem.value[:, :, :n]), causal


def _words(problem: KernelProblem, degree: int, machine: str | Machine | None, *, causal: bool) -> Words | None:
    shapes = tuple(tuple(tensor.shape) for tensor in (problem.query, problem.key, problem.value))
    call = (shapes, problem.query.dtype, problem.query.device, degree, str(machine), causal, torch.get_num_threads())
    if call not in _KNOWN:
        if len(_KNOWN) > _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[call] = _planned(problem, degree, machine, causal=causal)
    return _KNOWN[call]


_MOST_KNOWN = 1024
_KNOWN: dict[tuple[Any, ...], Words | None] = {}


def _planned(problem: KernelProblem, degree: int, machine: str | Machine | None, *, causal: bool) -> Words | None:
    place = place_of(problem, machine)
    choice = choose(problem, place)
    workload = workload_of(problem, Causal() if causal else Dense(), place.dtype)
    try:
        exact = plan_of_tiles(workload, place.boundary, choice.dataflow, choice.tiles)
    except AttenioError:  # the plan of the kernel is none of the planner's
        return None
    plans = [
        (tried.moved_words, each.value, str(tried.tiles))
        for each in _BY_FEATURES
        if (tried := best_approximate_tiles(problems_of(workload, each), each, exact.fast_words, degree, 1)) is not None
    ]
    words, name, shape = min(plans, default=(None, None, None))
    return Words(exact.moved_words, words, name, shape)
