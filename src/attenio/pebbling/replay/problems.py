"""The graphs that a plan's problems ask for: one a problem, from its shapes, mask, form of softmax and runs of keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attenio.dataflows.key_slots import keeping_slots
from attenio.errors import InvalidInput
from attenio.masks import SharedPrefix
from attenio.masks.patterns import Band, Pattern
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.attention import Head, attention
from attenio.pebbling.replay.grouping import (
    exchanged_grouping,
    grouping,
    rolling_grouping,
    stacked_grouping,
    turning_grouping,
)
from attenio.planning.plan import OF_GROUPS, Dataflow, Plan, takes_heads_as_rows
from attenio.reference import segments


@dataclass(frozen=True, kw_only=True)
class PebbledProblem:
    """One problem of a plan as a graph; row ``head * pattern.rows + position`` as everywhere."""

    head: Head
    graph: ComputationGraph


def pebbled_problems(plan: Plan) -> Iterator[PebbledProblem]:
    """The problems of a plan, in the order in which a run works on them."""
    by_pattern: dict[int, PebbledProblem] = {}
    for pattern, group in _patterns(plan):
        if id(pattern) not in by_pattern:
            by_pattern[id(pattern)] = _pebbled(plan, pattern, group)
        yield by_pattern[id(pattern)]


def _pebbled(plan: Plan, pattern: Pattern, group: int) -> PebbledProblem:
    workload = plan.workload
    required = pattern.required(0, pattern.rows, np.arange(pattern.keys, dtype=np.int64))
    empty = np.flatnonzero(~required.any(axis=1))
    if len(empty):
        raise InvalidInput(
            f"row {empty[0]} needs no key under the mask {workload.mask}: it stores zeros, which no graph computes;"
            " replay a workload in which every row needs a key"
        )
    keeping = None
    if plan.dataflow is Dataflow.KEPT_KEYS and "kept_keys" in plan.tiles:
        keeping = keeping_slots(pattern, min(plan.tiles["kept_keys"], pattern.keys))
    if "rolling_rows" in plan.tiles:
        assert isinstance(pattern, Band)
        keys = rolling_grouping(pattern, plan.tiles).stacked(group)
    elif "exchanged_rows" in plan.tiles:
        keys = exchanged_grouping(pattern.rows, pattern.keys, plan.tiles).stacked(group)
    elif "exchanged_keys" in plan.tiles:
        keys = turning_grouping(group * pattern.rows, pattern.keys, plan.tiles)
    elif "stacked_rows" in plan.tiles:
        keys = stacked_grouping(group * pattern.rows, pattern.keys, plan.tiles, workload.value_dim)
    else:
        keys = grouping(plan.dataflow, plan.tiles, required, keeping=keeping).stacked(group)
    head = Head(
        rows=group * pattern.rows,
        keys=pattern.keys,
        d=workload.d,
        value_dim=workload.value_dim,
        required=np.tile(required, (group, 1)),
        accumulator_words=workload.accumulator_words,
    )
    graph = attention(
        head, softmax=keys.softmax, runs=keys.runs, splits=keys.splits, idle=keys.idle, settled=keys.settled
    )
    return PebbledProblem(head=head, graph=graph)


def _patterns(plan: Plan) -> Iterator[tuple[Pattern, int]]:
    """The pattern of each problem, and how many heads it stacks."""
    workload = plan.workload
    stacks = plan.dataflow in (Dataflow.STACKED_GROUPS, Dataflow.SPLIT_KEYS)
    if stacks and isinstance(workload.mask, SharedPrefix):
        ((pattern, _),) = workload.stacked_patterns
        for _ in range(workload.kv_heads):
            yield pattern, workload.group
        return
    stacks |= plan.dataflow is Dataflow.FLASH_ATTENTION_1 or not OF_GROUPS.isdisjoint(plan.tiles)
    stacks |= takes_heads_as_rows(workload, plan.dataflow)
    group = workload.group if stacks else 1
    each = [segment.pattern for segment in segments(workload)]
    for _ in range(workload.batch * workload.heads // group):
        yield from ((pattern, group) for pattern in each)


def disjoint_union(graphs: Sequence[tuple[str, ComputationGraph]]) -> ComputationGraph:
    """Graphs side by side, the vertices of each named after its label; a single graph stays as it is."""
    if len(graphs) == 1:
        return graphs[0][1]
    tops = np.cumsum([0, *(len(graph) for _, graph in graphs)])
    edges = np.cumsum([0, *(graph.edges for _, graph in graphs)])
    placed = [(graph, int(top), int(edge)) for (_, graph), top, edge in zip(graphs, tops, edges, strict=False)]
    return ComputationGraph(
        name=f"{graphs[0][1].name} of {len(graphs)} problems",
        names=tuple(f"{label}: {name}" for label, graph in graphs for name in graph.names),
        parent_starts=np.concatenate([[0], *(graph.parent_starts[1:] + edge for graph, _, edge in placed)]),
        parent_numbers=np.concatenate([graph.parent_numbers + top for graph, top, _ in placed]),
        weights=np.concatenate([graph.weights for graph, _, _ in placed]),
        outputs=np.concatenate([graph.outputs + top for graph, top, _ in placed]),
    )
