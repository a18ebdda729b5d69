"""The front of the planner: best plans, published ones, plans with given tiles, and all of them side by side."""

from dataclasses import dataclass, replace
from typing import Any

from attenio.catalogue import as_machine
from attenio.display import Listed, Shown
from attenio.errors import DoesNotFit, InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.machine import Boundary, Machine
from attenio.names import checked_kind
from attenio.planning.approximate.guarantees import certificate_at
from attenio.planning.approximating import approximate_plan, best_approximate
from attenio.planning.costs import (
    checked_dataflow,
    computes,
    cost,
    cost_of,
    costed_plan,
    problems_of,
    tile_names,
)
from attenio.planning.given_tiles import check_given_tiles, one_by_one
from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.tile_sizes import keeps_to_granularity, smallest_tiles
from attenio.planning.published import has_published_rule, published_tiles
from attenio.planning.search.contest import applies, best_of_all
from attenio.planning.search.dataflow import ONE_BY_ONE, allowed_forms, best_tiles, contenders
from attenio.planning.tiles_of_masks import ROLLING_TILES
from attenio.quantities import checked_count, show_count, show_words
from attenio.workload import Direction, Workload, checked_workload


@dataclass(frozen=True, kw_only=True)
class Candidate(Shown):
    """A dataflow with tiles by some rule: its plan, or the reason why there is none.

    ``tiles`` are those of the plan; a published rule may also prescribe tiles that do not fit. ``needed_words`` are the
    words of fast memory that these tiles need, or else any; None where there is a plan, or no memory would help.
    """

    dataflow: Dataflow
    rule: TileRule
    plan: Plan | None
    tiles: Tiles | None
    reason: str | None = None
    needed_words: int | None = None

    def facts(self) -> dict[str, Any]:
        """What it moves, or why it has no plan."""
        plan = self.plan
        return {
            "dataflow": self.dataflow.value,
            "rule": self.rule.value,
            "tiles": None if self.tiles is None else str(self.tiles),
            "moved_words": None if plan is None else plan.moved_words,
            "gap": None if plan is None else plan.gap,
            "peak_words": None if plan is None else plan.peak_words,
            "reason": self.reason,
        }


def best_plan(workload: Workload, machine: Machine | str, *, dataflow: Dataflow | str | None = None) -> Plan:
    """The plan that moves the fewest words across the machine's slowest boundary, over all tiles that fit.

    Over all dataflows of the workload's direction, or the one named. Exact: no other feasible integer tiles move less.
    Where the machine has a granularity, tiles are of its multiples; ``machine.with_free_tiles()`` plans without it.

    >>> plan = best_plan(Workload(n=4096, d=64), Machine.with_fast_bytes(64 * 1024))
    >>> plan.dataflow.value, str(plan.tiles), plan.moved_words
    ('kept-keys', 'stacked_rows=251 kept_keys=4 value_columns=64 last_columns=32', 9173056)
    """
    machine = as_machine(machine)
    boundary, granularity = machine.slowest_boundary, machine.granularity_of(checked_workload(workload).dtype)
    fast_words = boundary.fast_words(workload.dtype)
    return _at(boundary, best_plan_for(workload, fast_words, dataflow=dataflow, granularity=granularity))


def _at(boundary: Boundary, plan: Plan) -> Plan:
    """The plan with the place where its words move."""
    return replace(plan, boundary=boundary)


def best_plan_for(
    workload: Workload,
    fast_words: int,
    *,
    dataflow: Dataflow | str | None = None,
    granularity: Granularity = FREE_TILES,
) -> Plan:
    """The best plan for a fast memory of ``fast_words`` words, with tiles of this granularity.

    A granularity is of tiles of scores: plans that approximate have none of these to keep to it.
    """
    check_memory(fast_words, granularity)
    _check_one_way(workload)
    if dataflow is None:
        best = best_of_all(workload, fast_words, Problems.separate(workload, granularity))
        if workload.tolerance is not None:
            best = _cheaper(best, best_approximate(workload, fast_words))
        if best is None:
            raise _nothing_fits(workload, fast_words, granularity)
        return best
    chosen = checked_dataflow(workload, dataflow)
    if chosen.is_approximate:
        return approximate_plan(workload, fast_words, chosen)
    problems = problems_of(workload, chosen, granularity)
    moving = best_tiles(problems, chosen, fast_words)
    if moving is None:
        raise _does_not_fit(workload, chosen, fast_words, granularity)
    return _plan(workload, fast_words, chosen, moving.tiles, problems=problems)


def plan_with(workload: Workload, machine: Machine | str, dataflow: Dataflow | str, tiles: Tiles) -> Plan:
    """The plan with the caller's own tiles; DoesNotFit says how many words they would need.

    Tiles that are larger than the problem are refused, and those of which a machine has no units.
    """
    machine = as_machine(machine)
    chosen = checked_dataflow(checked_workload(workload), dataflow)
    check_given_tiles(workload, chosen, tiles, machine.granularity_of(workload.dtype))
    return plan_of_tiles(workload, machine, chosen, tiles)


def plan_of_tiles(workload: Workload, machine: Machine | str, dataflow: Dataflow | str, tiles: Tiles) -> Plan:
    """The same for tiles as kernels have them: of any size, those beyond the problem as large as it is."""
    fast_words, chosen = _fast_words(workload, machine), checked_dataflow(workload, dataflow)
    plan = _plan(workload, fast_words, chosen, tiles, rule=TileRule.GIVEN)
    if plan.peak_words > fast_words:
        raise _too_large(plan)
    return _at(as_machine(machine).slowest_boundary, plan)


def published_plan(workload: Workload, machine: Machine | str, dataflow: Dataflow | str) -> Plan | None:
    """The plan with the published tiles; None where there is no published rule or its tiles do not fit."""
    machine = as_machine(machine)
    units = _parallel_units(machine)
    plan = published_plan_for(workload, _fast_words(workload, machine), dataflow, units=units)
    return None if plan is None else _at(machine.slowest_boundary, plan)


def published_plan_for(workload: Workload, fast_words: int, dataflow: Dataflow | str, *, units: int = 1) -> Plan | None:
    """The same for a fast memory of ``fast_words`` words in each of ``units`` parallel units."""
    check_memory(fast_words, FREE_TILES)
    checked_count("parallel units", units, most=2**20)
    return _published(workload, fast_words, checked_dataflow(checked_workload(workload), dataflow), units).plan


def candidates(workload: Workload, machine: Machine | str) -> Listed[Candidate]:
    """Every dataflow that applies, with its best tiles and, where a paper has a rule, its published ones.

    The best tiles keep to the machine's granularity; published ones are as published.
    """
    machine = as_machine(machine)
    fast_words, units = _fast_words(workload, machine), _parallel_units(machine)
    every = candidates_for(workload, fast_words, units=units, granularity=machine.granularity_of(workload.dtype))
    boundary = machine.slowest_boundary
    return Listed(each if each.plan is None else replace(each, plan=_at(boundary, each.plan)) for each in every)


def candidates_for(
    workload: Workload, fast_words: int, *, units: int = 1, granularity: Granularity = FREE_TILES
) -> Listed[Candidate]:
    """The same for a fast memory of ``fast_words`` words in each of ``units`` parallel units."""
    check_memory(fast_words, granularity)
    checked_count("parallel units", units, most=2**20)
    _check_one_way(workload)
    every = []
    for dataflow in Dataflow.towards(workload.direction):
        if not applies(workload, dataflow):
            continue
        try:
            plan = best_plan_for(workload, fast_words, dataflow=dataflow, granularity=granularity)
            every.append(Candidate(dataflow=dataflow, rule=TileRule.BEST, plan=plan, tiles=plan.tiles))
        except DoesNotFit as problem:
            every.append(_absent(dataflow, TileRule.BEST, None, problem))
        if has_published_rule(dataflow):
            every.append(_published(workload, fast_words, dataflow, units))
    if workload.tolerance is not None:
        every += [_approximate(workload, fast_words, each) for each in Dataflow.approximating(workload.direction)]
    return Listed(every)


def _approximate(workload: Workload, fast_words: int, dataflow: Dataflow) -> Candidate:
    try:
        plan = approximate_plan(workload, fast_words, dataflow)
    except DoesNotFit as problem:
        return Candidate(dataflow=dataflow, rule=TileRule.BEST, plan=None, tiles=None, reason=str(problem))
    return Candidate(dataflow=dataflow, rule=TileRule.BEST, plan=plan, tiles=plan.tiles)


def _cheaper(exact: Plan | None, approximate: Plan | None) -> Plan | None:
    """The one that moves less; of equals the exact one."""
    if exact is None or approximate is None:
        return exact or approximate
    return approximate if approximate.moved_words < exact.moved_words else exact


def _published(workload: Workload, fast_words: int, dataflow: Dataflow, units: int) -> Candidate:
    rule = TileRule.PUBLISHED
    if not has_published_rule(dataflow):
        return _absent(dataflow, rule, None, DoesNotFit(f"{dataflow.value} has no published tiles"))
    tiles = published_tiles(problems_of(workload, dataflow), dataflow, fast_words, units=units)
    if tiles is None:
        return _absent(dataflow, rule, None, _does_not_fit(workload, dataflow, fast_words))
    plan = _plan(workload, fast_words, dataflow, tiles, rule=rule)
    if plan.peak_words > fast_words:
        return _absent(dataflow, rule, tiles, _too_large(plan))
    return Candidate(dataflow=dataflow, rule=rule, plan=plan, tiles=tiles)


def _absent(dataflow: Dataflow, rule: TileRule, tiles: Tiles | None, problem: DoesNotFit) -> Candidate:
    return Candidate(
        dataflow=dataflow, rule=rule, plan=None, tiles=tiles, reason=str(problem), needed_words=problem.needed_words
    )


def _plan(
    workload: Workload,
    fast_words: int,
    dataflow: Dataflow,
    tiles: Tiles,
    *,
    rule: TileRule = TileRule.BEST,
    problems: Problems | None = None,
) -> Plan:
    words = cost(workload, dataflow, tiles) if problems is None else cost_of(problems, dataflow, tiles)
    plan = costed_plan(workload, fast_words, dataflow, tiles, words, rule=rule)
    return replace(plan, certificate=certificate_at(workload, tiles)) if dataflow.is_approximate else plan


def _parallel_units(machine: Machine | str) -> int:
    """Units that a rule for parallel machines has to keep busy: those of the most divided level."""
    return max(level.units for level in as_machine(machine).levels)


def _fast_words(workload: Workload, machine: Machine | str) -> int:
    return as_machine(machine).slowest_boundary.fast_words(checked_workload(workload).dtype)


def check_memory(fast_words: object, granularity: object) -> None:
    """Refuse what is no size of a fast memory, and what says nothing about tiles."""
    checked_count("fast memory (words)", fast_words, least=0, most=2**60)
    checked_kind(granularity, Granularity, "granularity", "a Granularity, such as Granularity(rows=64, keys=16)")


def _check_one_way(workload: Workload) -> None:
    if checked_workload(workload).direction is Direction.TRAINING:
        raise InvalidInput(
            "a training step has two plans, a forward and a backward one; use training_plan,"
            " or set the direction to forward or backward (--direction)"
        )


def _smallest(workload: Workload, dataflow: Dataflow, granularity: Granularity) -> tuple[int, Tiles]:
    """The least fast memory that a dataflow works with, and the tiles that need no more."""
    problems = problems_of(workload, dataflow, granularity)
    if dataflow.is_approximate:
        options = [smallest_tiles(problems, names) for names in tile_names(dataflow)]
    else:
        forms = [form for form in allowed_forms(problems, dataflow) if ROLLING_TILES.keys().isdisjoint(form.names)]
        options = [Tiles.of(**{**smallest_tiles(problems, form.names), **dict(form.constant)}) for form in forms]
    fits = (
        (cost(workload, dataflow, tiles).peak_words, tiles)
        for tiles in options
        if keeps_to_granularity(problems, tiles)
    )
    return min(fits, key=lambda pair: pair[0])


def _does_not_fit(
    workload: Workload, dataflow: Dataflow, fast_words: int, granularity: Granularity = FREE_TILES
) -> DoesNotFit:
    if dataflow is Dataflow.SPLIT_KEYS:
        keys = problems_of(workload, dataflow).counts.most_keys
        if keys == 1:
            return DoesNotFit(f"{dataflow.value} has nothing to split with one key; use attenio")
        if keys <= granularity.keys:
            return DoesNotFit(
                f"{dataflow.value} has nothing to split: its {show_count(keys, 'key')} make one tile of"
                f" {granularity.keys}; use"
                " attenio, or free tiles (--free-tiles)"
            )
    if dataflow in ONE_BY_ONE and not granularity.is_free:
        return DoesNotFit(one_by_one(dataflow, granularity))
    words, tiles = _smallest(workload, dataflow, granularity)
    return DoesNotFit(
        f"{dataflow.value} needs at least {show_words(words)} of fast memory ({tiles}); the machine has"
        f" {fast_words:,}: use a larger fast memory, a narrower head or another dataflow{or_free_tiles(granularity)}",
        needed_words=words,
    )


def _nothing_fits(workload: Workload, fast_words: int, granularity: Granularity) -> DoesNotFit:
    words, dataflow = min(
        (_smallest(workload, dataflow, granularity)[0], dataflow.value)
        for dataflow in contenders(workload.direction)
        if computes(workload, dataflow) and (granularity.is_free or dataflow not in ONE_BY_ONE)
    )
    return DoesNotFit(
        f"no dataflow fits: the least demanding, {dataflow}, needs at least {show_words(words)} of fast memory;"
        f" the machine has {fast_words:,}: use a larger fast memory{or_free_tiles(granularity)}",
        needed_words=words,
    )


def or_free_tiles(granularity: Granularity) -> str:
    """What else there is to do where a granularity asks for tiles of some size."""
    return "" if granularity.is_free else f"; this machine computes with {granularity}, and --free-tiles plans others"


def _too_large(plan: Plan) -> DoesNotFit:
    return DoesNotFit(
        f"{plan.dataflow.value} with {plan.tiles} needs {show_words(plan.peak_words)} of fast memory; the machine has"
        f" {plan.fast_words:,}: use smaller tiles or a larger fast memory",
        needed_words=plan.peak_words,
    )
