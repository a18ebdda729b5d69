"""Run a plan: real numbers through the counted memory, tile by tile as the plan says.

>>> from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
>>> plan = Plan(workload=Workload(n=8, d=2), fast_words=64, dataflow=Dataflow.ATTENIO, rule=TileRule.GIVEN,
...             tiles=Tiles.of(query_tile=4, key_tile=1), moved_words=96, peak_words=34)
>>> run = execute(plan)
>>> run.moved_words, run.peak_words, run.max_abs_error < 1e-2
(96, 34, True)
"""

from collections.abc import Callable, Iterator
from typing import assert_never, overload

import numpy as np
from numpy.typing import ArrayLike

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.attenio import attenio
from attenio.dataflows.flash_attention_1 import flash_attention_1
from attenio.dataflows.flash_attention_2 import flash_attention_2
from attenio.dataflows.flat import flat
from attenio.dataflows.host import check_host_memory
from attenio.dataflows.inputs import checked_inputs, random_inputs
from attenio.dataflows.nested import attend_nested, nested_memories
from attenio.dataflows.problem import Advance, Problem, Sharing, separate_problems, stacked_problems
from attenio.dataflows.rank_one_tiling import rank_one_tiling
from attenio.dataflows.run import NestedRun, Run, max_abs_error
from attenio.dataflows.score_stationary import score_stationary
from attenio.dataflows.split_keys import split_keys
from attenio.dataflows.square_tiling import square_tiling
from attenio.dataflows.stacked_groups import stacked_groups
from attenio.dataflows.standard import standard
from attenio.errors import InvalidInput
from attenio.memory import FastMemory, Trace
from attenio.planning.nested_plan import NestedPlan
from attenio.planning.plan import Dataflow, Plan
from attenio.quantities import checked_count
from attenio.workload import Workload

__all__ = ["execute", "execute_nested"]

Given = tuple[ArrayLike, ArrayLike, ArrayLike] | None
Progress = Callable[[int, int], None] | None


@overload
def execute(
    plan: Plan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> Run: ...
@overload
def execute(
    plan: NestedPlan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> NestedRun: ...
def execute(
    plan: Plan | NestedPlan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> Run | NestedRun:
    """Execute a plan on its fast memory, over all batch elements, heads and documents.

    ``inputs`` are q, k and v as (batch, heads, rows, width) arrays, random from ``seed`` when left out. ``record``
    keeps every event in the trace. ``progress`` is called with (done, total) after every tile of queries. The run
    stops with MemoryOverflow when the plan does not fit, and with DoesNotFit when this computer cannot hold it.
    """
    if isinstance(plan, NestedPlan):
        return execute_nested(plan, inputs=inputs, seed=seed, record=record, progress=progress)
    _check_tiles(plan)
    shared = _prepared(plan, inputs, seed, _advance(progress, _units(plan)))
    trace = Trace(record=record)
    fast = FastMemory(plan.fast_words, intermediate_words=plan.workload.accumulator_words, trace=trace)
    with np.errstate(over="ignore", under="ignore"):
        for problem in _problems(plan.dataflow, shared):
            trace.problem = problem.label
            _attend(plan, problem, fast)
    return Run(
        plan=plan,
        output=shared.output,
        trace=trace,
        moved_words=trace.moved_words,
        peak_words=fast.peak_words,
        max_abs_error=max_abs_error(shared.output, shared.inputs, plan.workload),
    )


def execute_nested(
    plan: NestedPlan, *, inputs: Given = None, seed: int = 0, record: bool = False, progress: Progress = None
) -> NestedRun:
    """Execute a nested plan on as many memories as it has boundaries, each the slow side of the one below it."""
    workload = plan.workload
    passes = -(-workload.group // plan.head_tile)
    units = passes * workload.kv_heads * workload.batch * workload.queries
    shared = _prepared(plan, inputs, seed, _advance(progress, units))
    memories = nested_memories(plan, record=record)
    with np.errstate(over="ignore", under="ignore"):
        for problem in stacked_problems(shared):
            for fast in memories:
                fast.trace.problem = problem.label
            attend_nested(problem, plan, memories)
    return NestedRun(
        plan=plan,
        output=shared.output,
        traces=tuple(fast.trace for fast in memories),
        moved_words=tuple(fast.trace.moved_words for fast in memories),
        peak_words=tuple(fast.peak_words for fast in memories),
        max_abs_error=max_abs_error(shared.output, shared.inputs, workload),
    )


def _prepared(plan: Plan | NestedPlan, given: Given, seed: int, advance: Advance) -> Sharing:
    workload = plan.workload
    check_host_memory(plan)
    inputs = random_inputs(workload, seed) if given is None else checked_inputs(workload, given)
    shape = (workload.batch, workload.heads, workload.queries, workload.value_dim)
    return Sharing(
        workload=workload,
        inputs=inputs,
        output=np.full(shape, np.nan, dtype=np.float32),
        arithmetic=Arithmetic.of(workload, *inputs),
        advance=advance,
    )


def _problems(dataflow: Dataflow, shared: Sharing) -> Iterator[Problem]:
    if dataflow in (Dataflow.STACKED_GROUPS, Dataflow.SPLIT_KEYS):
        return stacked_problems(shared)
    return separate_problems(shared, by_group=dataflow is Dataflow.FLASH_ATTENTION_1)


def _attend(plan: Plan, problem: Problem, fast: FastMemory) -> None:
    """Run the plan's loop nest on one problem."""
    match plan.dataflow:
        case Dataflow.STANDARD:
            standard(problem, plan.tiles, fast)
        case Dataflow.FLAT:
            flat(problem, plan.tiles, fast)
        case Dataflow.FLASH_ATTENTION_1:
            flash_attention_1(problem, plan.tiles, fast)
        case Dataflow.FLASH_ATTENTION_2:
            flash_attention_2(problem, plan.tiles, fast)
        case Dataflow.ATTENIO:
            attenio(problem, plan.tiles, fast)
        case Dataflow.SQUARE_TILING:
            square_tiling(problem, plan.tiles, fast)
        case Dataflow.RANK_ONE_TILING:
            rank_one_tiling(problem, plan.tiles, fast)
        case Dataflow.SCORE_STATIONARY:
            score_stationary(problem, plan.tiles, fast)
        case Dataflow.SPLIT_KEYS:
            split_keys(problem, plan.tiles, fast)
        case Dataflow.STACKED_GROUPS:
            stacked_groups(problem, plan.tiles, fast)
        case _:
            assert_never(plan.dataflow)


def _tile_names(dataflow: Dataflow) -> tuple[str, ...]:
    match dataflow:
        case Dataflow.STANDARD:
            return ("score_rows", "score_keys", "resident_keys", "output_rows", "output_columns")
        case Dataflow.FLAT:
            return ("query_tile",)
        case Dataflow.FLASH_ATTENTION_1 | Dataflow.FLASH_ATTENTION_2 | Dataflow.ATTENIO | Dataflow.SCORE_STATIONARY:
            return ("query_tile", "key_tile")
        case Dataflow.SQUARE_TILING:
            return ("query_tile", "key_tile", "depth_tile")
        case Dataflow.RANK_ONE_TILING:
            return ("score_rows", "score_keys", "output_rows", "output_columns")
        case Dataflow.SPLIT_KEYS:
            return ("query_tile", "head_tile", "keys_per_split", "key_tile")
        case Dataflow.STACKED_GROUPS:
            return ("query_tile", "head_tile", "key_tile")
        case _:
            assert_never(dataflow)


def _check_tiles(plan: Plan) -> None:
    for name in _tile_names(plan.dataflow):
        if name not in plan.tiles:
            raise InvalidInput(
                f"{plan.dataflow.value} needs a size for {name}; the plan has {plan.tiles or 'no tiles'}"
            )
    for name, tile in plan.tiles.items():
        checked_count(name, tile, least=0 if name == "resident_keys" else 1)


def _units(plan: Plan) -> int:
    """Rows that a run passes over, or keys where keys are the outer loop: what progress counts."""
    workload: Workload = plan.workload
    rows = workload.batch * workload.heads * workload.queries
    match plan.dataflow:
        case Dataflow.ATTENIO | Dataflow.FLASH_ATTENTION_2 | Dataflow.FLAT | Dataflow.SCORE_STATIONARY:
            return rows
        case Dataflow.SQUARE_TILING | Dataflow.RANK_ONE_TILING:
            return 2 * rows
        case Dataflow.STANDARD:
            return 3 * rows
        case Dataflow.FLASH_ATTENTION_1:
            return workload.batch * workload.kv_heads * workload.keys
        case Dataflow.STACKED_GROUPS | Dataflow.SPLIT_KEYS:
            passes = -(-workload.group // plan.tiles["head_tile"])
            sweeps = 2 if plan.dataflow is Dataflow.SPLIT_KEYS else 1
            return sweeps * passes * workload.kv_heads * workload.batch * workload.queries
        case _:
            assert_never(plan.dataflow)


def _advance(progress: Progress, total: int) -> Advance:
    done = 0

    def advance(units: int) -> None:
        nonlocal done
        done += units
        if progress is not None:
            progress(done, total)

    return advance
