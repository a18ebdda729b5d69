"""One question, one answer: what must move, what the best plan moves, and how far apart the two are."""

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from attenio.bounds import LowerBound, largest_absolute, largest_ordinary, lower_bounds
from attenio.catalogue import as_machine
from attenio.errors import DoesNotFit
from attenio.granularity import Granularity
from attenio.machine import Boundary, Machine
from attenio.planning import Candidate, NestedPlan, TrainingPlan, best_plan, best_plan_for, candidates, nested_plan
from attenio.planning.approximate.guarantees import certified
from attenio.planning.plan import Dataflow, Plan
from attenio.quantities import bytes_of
from attenio.workload import Direction, Workload, checked_workload


@dataclass(frozen=True, kw_only=True)
class BoundaryAnswer:
    """What crosses one boundary: at least, with a plan made for it alone, and with one plan nested over all levels.

    ``plan`` is None where nothing fits that level, which would have to hold ``needed_words``, and ``reason`` says so;
    ``nested_words`` is None on two levels. ``free_words`` are those of the best plan with tiles of any size, None where
    the machine has no granularity or nothing fits.
    """

    boundary: Boundary
    fast_words: int
    bound: LowerBound
    plan: Plan | None
    reason: str
    needed_words: int | None
    nested_words: int | None
    free_words: int | None = None

    @property
    def granularity_price(self) -> float | None:
        """The share of words that the plan made for this boundary moves more than with free tiles, if they are not."""
        return None if self.free_words is None or self.plan is None else self.plan.moved_words / self.free_words - 1

    @property
    def moved_words(self) -> int | None:
        """Words that cross here when the machine runs one plan over all its levels."""
        if self.nested_words is not None:
            return self.nested_words
        return None if self.plan is None else self.plan.moved_words


@dataclass(frozen=True, kw_only=True)
class BoundaryFloor:
    """What must cross one boundary, given the words of fast memory on its near side."""

    boundary: Boundary
    fast_words: int
    bound: LowerBound


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """A workload on a machine, and every bound on what it moves there."""

    workload: Workload
    machine: Machine
    fast_words: int
    lower_bounds: tuple[LowerBound, ...]

    @property
    def bound(self) -> LowerBound:
        """The largest bound that every algorithm with ordinary products obeys, as every plan here is."""
        return largest_ordinary(self.lower_bounds)

    @property
    def absolute_bound(self) -> LowerBound:
        """The largest bound that every algorithm obeys, one with fast products too."""
        return largest_absolute(self.lower_bounds)


P = TypeVar("P", Plan, TrainingPlan)


@dataclass(frozen=True, kw_only=True)
class Planned(Bounded, Generic[P]):
    """The same with the best plan; ``free_plan`` is that with tiles of any size, None where tiles are free anyway."""

    plan: P
    free_plan: P | None = None

    @property
    def gap(self) -> float:
        """Words of the plan over the bound; 1 is a proof that nothing with ordinary products moves less."""
        return self.plan.moved_words / self.bound.words

    @property
    def absolute_gap(self) -> float:
        """Words of the plan over the absolute bound; 1 is a proof that nothing at all moves less."""
        return self.plan.moved_words / self.absolute_bound.words

    @property
    def granularity_price(self) -> float | None:
        """The share of words that the plan moves more than with free tiles; None where tiles are free."""
        return None if self.free_plan is None else self.plan.moved_words / self.free_plan.moved_words - 1


@dataclass(frozen=True, kw_only=True)
class Floor(Bounded):
    """What algorithms must move, whether or not a plan for it is known."""

    boundaries: tuple[BoundaryFloor, ...]

    def to_json(self) -> dict[str, Any]:
        """The floor as plain values."""
        from attenio.report.to_json import floor_to_json

        return floor_to_json(self)


def floor(workload: Workload, machine: Machine | str) -> Floor:
    """Every bound for the machine's slowest boundary, and the largest of ordinary products for each."""
    checked_workload(workload)
    machine = as_machine(machine)
    return Floor(
        workload=workload,
        machine=machine,
        fast_words=machine.slowest_boundary.fast_words(workload.dtype),
        lower_bounds=lower_bounds(workload, machine, degree=_degree(workload)),
        boundaries=tuple(
            BoundaryFloor(
                boundary=boundary,
                fast_words=boundary.fast_words(workload.dtype),
                bound=largest_ordinary(lower_bounds(workload, machine, boundary=boundary)),
            )
            for boundary in machine.boundaries
        ),
    )


@dataclass(frozen=True, kw_only=True)
class TimeFloor:
    """Seconds that a resource of the machine needs: ``least_seconds`` by the bound, ``plan_seconds`` for our plan.

    The least is for ordinary products; None where it is not known: what it takes within a tolerance is not.
    """

    resource: str
    rate_per_s: float
    unit: str
    least_seconds: float | None
    plan_seconds: float


@dataclass(frozen=True, kw_only=True)
class Answer(Planned[Plan]):
    """Everything attenio knows about a workload on a machine.

    ``nested`` is one plan over all levels; it is None on two levels, and where a level is too small for it, which
    ``nested_reason`` then explains. ``dataflow`` is the one that was asked for, None where all were; it rules the plan
    and the plans of single boundaries, not the nested one.
    """

    candidates: tuple[Candidate, ...]
    boundaries: tuple[BoundaryAnswer, ...]
    nested: NestedPlan | None
    nested_reason: str
    times: tuple[TimeFloor, ...]
    dataflow: Dataflow | None = None

    @property
    def granularity(self) -> Granularity:
        """Of which multiples the tiles are."""
        return self.machine.granularity_of(self.workload.dtype)

    @property
    def binding(self) -> TimeFloor | None:
        """The resource that takes longest of those with a known rate.

        None on a machine without rates, and where the plan's arithmetic is not counted: that might bind.
        """
        return None if self.uncounted else max(self.times, key=lambda time: time.plan_seconds, default=None)

    @property
    def unknown_rates(self) -> tuple[str, ...]:
        """Resources whose rate the machine does not state: they are in no time, and any of them might bind."""
        rates = {part.boundary.name: part.boundary.slow.bandwidth_bytes_per_s for part in self.boundaries}
        rates["arithmetic"] = self.machine.flops_per_s.get(self.workload.dtype)
        rates["exponentials"] = self.machine.exponentials_per_s
        return tuple(name for name, rate in rates.items() if rate is None)

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Resources whose work is not counted: arithmetic and exponentials of plans that approximate."""
        return () if _counts_work(self.boundaries) else ("arithmetic", "exponentials")

    @property
    def timed_plan(self) -> str:
        """Whose words the times are of: the plan's on two levels, else of the nested plan or of a plan a boundary."""
        if len(self.boundaries) == 1:
            return "this plan"
        return "best alone" if self.nested is None else "nested plan"

    def to_json(self) -> dict[str, Any]:
        """The answer as plain values."""
        from attenio.report.to_json import answer_to_json

        return answer_to_json(self)


def answer_at_slowest(workload: Workload, machine: Machine | str, *, dataflow: Dataflow | str | None = None) -> Answer:
    """What is known about the slowest boundary alone: bounds, the best plan and every candidate, but no times."""
    machine, chosen = as_machine(machine), None if dataflow is None else Dataflow.named(dataflow)
    plan = best_plan(workload, machine, dataflow=chosen)
    return Answer(
        workload=workload,
        machine=machine,
        fast_words=plan.fast_words,
        plan=plan,
        lower_bounds=lower_bounds(workload, machine, degree=_degree(workload)),
        candidates=candidates(workload, machine),
        boundaries=(),
        nested=None,
        nested_reason="",
        times=(),
        dataflow=chosen,
        free_plan=_free_plan(workload, machine, chosen),
    )


def answer(workload: Workload, machine: Machine | str, *, dataflow: Dataflow | str | None = None) -> Answer:
    """Bounds, the best plan (of one dataflow, if named), every candidate, and every boundary of the machine."""
    found = answer_at_slowest(workload, machine, dataflow=dataflow)
    machine = found.machine
    nested, nested_reason = _nested(workload, machine)
    boundaries = tuple(_boundary(workload, machine, k, found.dataflow, nested) for k in range(len(machine.boundaries)))
    times = _times(workload, machine, boundaries)
    return replace(found, boundaries=boundaries, nested=nested, nested_reason=nested_reason, times=times)


def _free_plan(workload: Workload, machine: Machine, dataflow: Dataflow | None) -> Plan | None:
    if machine.granularity_of(workload.dtype).is_free:
        return None
    return best_plan(workload, machine.with_free_tiles(), dataflow=dataflow)


def _degree(workload: Workload) -> int | None:
    """The degree that the workload's tolerance takes, if it has one and features can do it."""
    return None if workload.tolerance is None else certified(workload).degree


def _nested(workload: Workload, machine: Machine) -> tuple[NestedPlan | None, str]:
    if len(machine.boundaries) < 2:
        return None, ""
    if workload.direction is not Direction.FORWARD:
        return None, f"Plans are nested over all levels for the forward pass only; this is {workload.direction.value}."
    try:
        return nested_plan(workload, machine), ""
    except DoesNotFit as error:
        return None, str(error)


def _boundary(
    workload: Workload, machine: Machine, k: int, dataflow: Dataflow | None, nested: NestedPlan | None
) -> BoundaryAnswer:
    boundary = machine.boundaries[k]
    fast_words = boundary.fast_words(workload.dtype)
    plan, free, reason, needed = None, None, "", None
    granularity = machine.granularity_of(workload.dtype)
    try:
        plan = best_plan_for(workload, fast_words, dataflow=dataflow, granularity=granularity)
        free = None if granularity.is_free else best_plan_for(workload, fast_words, dataflow=dataflow)
    except DoesNotFit as error:
        reason, needed = str(error), error.needed_words
    return BoundaryAnswer(
        boundary=boundary,
        fast_words=fast_words,
        bound=largest_ordinary(lower_bounds(workload, machine, boundary=boundary)),
        plan=plan,
        reason=reason,
        needed_words=needed,
        nested_words=None if nested is None else nested.moved_words[k],
        free_words=None if free is None else free.moved_words,
    )


def _times(workload: Workload, machine: Machine, boundaries: tuple[BoundaryAnswer, ...]) -> tuple[TimeFloor, ...]:
    """Seconds of every resource whose rate the machine states; words at a boundary where nothing fits take none."""
    times = []
    for part in boundaries:
        rate, moved = part.boundary.slow.bandwidth_bytes_per_s, part.moved_words
        if rate is not None and moved is not None:
            least = bytes_of(part.bound.words, element_bytes=workload.dtype.bytes) / rate
            ours = bytes_of(moved, element_bytes=workload.dtype.bytes) / rate
            times.append(
                TimeFloor(
                    resource=part.boundary.name, rate_per_s=rate, unit="B", least_seconds=least, plan_seconds=ours
                )
            )
    if not _counts_work(boundaries):
        return tuple(times)
    work = (
        ("arithmetic", "FLOP", workload.flops, machine.flops_per_s.get(workload.dtype)),
        ("exponentials", "exp", workload.scores, machine.exponentials_per_s),
    )
    for resource, unit, amount, rate in work:
        if rate is not None:
            seconds = amount / rate
            # within a tolerance, others may compute less
            known = None if workload.tolerance is not None else seconds
            times.append(
                TimeFloor(resource=resource, rate_per_s=rate, unit=unit, least_seconds=known, plan_seconds=seconds)
            )
    return tuple(times)


def _counts_work(boundaries: tuple[BoundaryAnswer, ...]) -> bool:
    """Whether the plans that are timed are exact, as every nested one is: their arithmetic is the definition's."""
    timed = (part.plan for part in boundaries if part.nested_words is None)
    return not any(plan is not None and plan.dataflow.is_approximate for plan in timed)
