"""Run a plan: real numbers through the counted memory, tile by tile as the plan says.

>>> from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
>>> plan = Plan(workload=Workload(n=8, d=2), fast_words=64, dataflow=Dataflow.ATTENIO, rule=TileRule.GIVEN,
...             tiles=Tiles.of(query_tile=4, key_tile=1), moved_words=96, peak_words=34)
>>> run = execute(plan)
>>> run.moved_words, run.peak_words, run.max_abs_error < 1e-2
(96, 34, True)
"""

from collections.abc import Callable
from dataclasses import replace
from math import comb
from typing import assert_never, overload

import numpy as np

from attenio.dataflows.backward.execute import backward_units, run_backward, saved_by_definition
from attenio.dataflows.forward import prepared, run_forward
from attenio.dataflows.host import check_host_memory
from attenio.dataflows.inputs import Given, checked_forward, given_or_random, sinks_beside
from attenio.dataflows.nested import attend_nested, nested_memories
from attenio.dataflows.problem import Advance, stacked_problems
from attenio.dataflows.run import NestedRun, Run, TrainingRun, max_abs_error
from attenio.dataflows.standing import Standing
from attenio.dataflows.training import run_training
from attenio.errors import InvalidInput
from attenio.memory import Trace
from attenio.names import checked_kind, show_value
from attenio.planning.approximate.applies import refused_tiles
from attenio.planning.costs import MAY_BE_NONE, checked_dataflow, tile_names
from attenio.planning.nested import NestedPlan
from attenio.planning.plan import Dataflow, Plan, Tiles, is_exact_forward, is_exact_gradient
from attenio.planning.training import Saved, TrainingPlan
from attenio.planning.words.last_columns import first_rows
from attenio.quantities import checked_count
from attenio.workload import Direction, Workload

Progress = Callable[[int, int], None] | None


@overload
def execute(
    plan: Plan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> Run: ...
@overload
def execute(
    plan: NestedPlan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> NestedRun: ...
@overload
def execute(
    plan: TrainingPlan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> TrainingRun: ...
def execute(
    plan: Plan | NestedPlan | TrainingPlan,
    *,
    inputs: Given = None,
    seed: int = 0,
    record: bool = False,
    progress: Progress = None,
) -> Run | NestedRun | TrainingRun:
    """Execute a plan on its fast memory, over all batch elements, heads and documents.

    ``inputs`` are q, k and v as (batch, heads, rows, width) arrays, then one sink a head for a workload with sinks,
    then do for the gradient; random from ``seed`` when left out. Keys and values of fewer bits are rounded to these.
    What a backward plan finds saved comes from the definition; a training plan runs both passes. ``record`` keeps every
    event in the trace. ``progress`` is called with (done, total) after every tile of queries, or of keys.
    The run stops with MemoryOverflow when the plan does not fit, and with DoesNotFit when this computer cannot hold it.
    """
    if isinstance(plan, NestedPlan):
        return execute_nested(plan, inputs=inputs, seed=seed, record=record, progress=progress)
    if isinstance(plan, TrainingPlan):
        return _execute_training(plan, inputs=inputs, seed=seed, record=record, progress=progress)
    checked_kind(plan, Plan, "plan", "a plan, such as best_plan(workload, machine)")
    _check_tiles(plan)
    check_host_memory(plan)
    advance, trace = _advance(progress, _units(plan)), Trace(record=record)
    if plan.workload.direction is Direction.BACKWARD:
        given = given_or_random(plan.workload, inputs, seed)
        sinks = sinks_beside(plan.workload, inputs, seed)
        saved = saved_by_definition(plan, given, sinks)
        return run_backward(plan, given, saved, trace=trace, advance=advance, sinks=sinks)
    given_inputs, sinks = checked_forward(plan.workload, inputs, seed)
    return run_forward(plan, given_inputs, trace=trace, advance=advance, sinks=sinks)


def _execute_training(plan: TrainingPlan, *, inputs: Given, seed: int, record: bool, progress: Progress) -> TrainingRun:
    for one in (plan.forward, plan.backward):
        _check_tiles(one)
    check_host_memory(plan)
    units = _units(plan.forward) * (2 if plan.saved is Saved.NOTHING else 1) + _units(plan.backward)
    given = given_or_random(plan.workload, inputs, seed)
    sinks = sinks_beside(plan.workload, inputs, seed)
    return run_training(plan, given, record=record, advance=_advance(progress, units), sinks=sinks)


def execute_nested(
    plan: NestedPlan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> NestedRun:
    """Execute a nested plan on as many memories as it has boundaries, each the slow side of the one below it."""
    workload = checked_kind(plan, NestedPlan, "plan", "a nested plan, such as nested_plan(workload, machine)").workload
    passes = -(-workload.group // plan.head_tile)
    units = passes * workload.kv_heads * workload.batch * workload.queries
    check_host_memory(plan)
    given, sinks = checked_forward(workload, inputs, seed)
    shared = replace(prepared(plan, given, _advance(progress, units)), sinks=sinks)
    memories = nested_memories(plan, record=record)
    with np.errstate(over="ignore", under="ignore"), Standing(shared, memories) as standing:
        for problem in stacked_problems(shared):
            known = standing.beside(problem)
            for fast in memories:
                fast.trace.problem = problem.label
            attend_nested(known, plan, memories)
    return NestedRun(
        plan=plan,
        output=shared.output,
        traces=tuple(fast.trace for fast in memories),
        moved_words=tuple(fast.trace.moved_words for fast in memories),
        peak_words=tuple(fast.peak_words for fast in memories),
        max_abs_error=max_abs_error(shared.output, shared.inputs, workload, sinks),
    )


def _check_tiles(plan: Plan) -> None:
    checked_dataflow(plan.workload, plan.dataflow)
    given = set(plan.tiles)
    forms = (
        (len(given.difference(names)), [name for name in names if name not in given])
        for names in tile_names(plan.dataflow)
    )
    _, missing = min(forms, key=lambda form: (form[0], len(form[1])))  # of the form that has most of those given
    if missing:
        raise InvalidInput(
            f"{plan.dataflow.value} needs a size for {missing[0]}; the plan has {plan.tiles or 'no tiles'}"
        )
    for name, tile in plan.tiles.items():
        checked_count(name, tile, least=0 if name in MAY_BE_NONE else 1)
    reason = refused_tiles(plan.workload, plan.dataflow, plan.tiles) if plan.dataflow.is_approximate else None
    if reason is not None:
        raise InvalidInput(reason)


def _units(plan: Plan) -> int:
    """Rows that a run passes over, or keys where keys are the outer loop: what progress counts."""
    workload: Workload = plan.workload
    rows = workload.batch * workload.heads * workload.queries
    if is_exact_gradient(plan.dataflow):
        return backward_units(workload, plan.dataflow, plan.tiles)
    if not is_exact_forward(plan.dataflow):
        return _feature_units(plan)
    match plan.dataflow:
        case Dataflow.ATTENIO | Dataflow.FLASH_ATTENTION_2 | Dataflow.FLAT | Dataflow.SCORE_STATIONARY:
            return rows
        case Dataflow.SQUARE_TILING | Dataflow.RANK_ONE_TILING:
            return 2 * rows
        case Dataflow.STANDARD:
            return 3 * rows
        case Dataflow.KEPT_KEYS:
            return _groups_of_rows(workload, plan.tiles)
        case Dataflow.KEPT_ROWS:
            return workload.batch * workload.heads * workload.keys
        case Dataflow.FLASH_ATTENTION_1:
            return workload.batch * workload.kv_heads * workload.keys
        case Dataflow.STACKED_GROUPS | Dataflow.SPLIT_KEYS:
            passes = -(-workload.group // plan.tiles["head_tile"])
            sweeps = 2 if plan.dataflow is Dataflow.SPLIT_KEYS else 1
            return sweeps * passes * workload.kv_heads * workload.batch * workload.queries
        case _:
            assert_never(plan.dataflow)


def _groups_of_rows(workload: Workload, tiles: Tiles) -> int:
    """Rows of kept keys, each once for every group of columns; in a last tile there may be more of these."""
    rows = workload.group * workload.queries
    groups = -(-workload.value_dim // tiles.get("value_columns", workload.value_dim))
    late = rows - int(first_rows(rows, tiles["stacked_rows"])) if "last_columns" in tiles else 0
    more = -(-workload.value_dim // tiles.get("last_columns", workload.value_dim))
    return workload.batch * workload.kv_heads * ((rows - late) * groups + late * more)


def _feature_units(plan: Plan) -> int:
    """Positions that sweeps pass over; the gradient counts rows and keys."""
    workload, tiles = plan.workload, plan.tiles
    positions = workload.batch * workload.kv_heads * workload.queries
    if plan.dataflow is Dataflow.FEATURE_GRADIENT:
        return positions * workload.group + workload.batch * workload.kv_heads * workload.keys
    sweeps = -(-(workload.value_dim + 1) // tiles.get("value_columns", workload.value_dim + 1))
    groups = -(-(workload.d + 1) // tiles.get("coordinate_group", workload.d + 1))
    return sweeps * comb(groups + tiles["degree"] - 1, tiles["degree"]) * positions


def _advance(progress: Progress, total: int) -> Advance:
    if progress is not None and (not callable(progress) or isinstance(progress, type)):
        raise InvalidInput(f"progress is {show_value(progress)}; give a function of (done, total)")
    done = 0

    def advance(units: int) -> None:
        nonlocal done
        done += units
        if progress is not None:
            progress(done, total)

    return advance
