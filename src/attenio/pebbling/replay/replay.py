"""A recorded run as a pebble game: the graph of what it computes, and its own moves as a schedule on that graph.

The graph comes from the workload and the plan's tiles, the loads, stores and computations from the events of the run;
neither is made from the other. A value is deleted where it is needed for the last time. So when the referee accepts the
schedule, the run computes attention in full, moves exactly the words that were counted, and needs no more fast memory
than was counted: a witness beside the planner's closed form and the counted memory.

>>> from attenio.dataflows import execute
>>> from attenio.pebbling.checking import check
>>> from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
>>> from attenio.workload import Workload
>>> plan = Plan(workload=Workload(n=4, d=2), fast_words=64, dataflow=Dataflow.ATTENIO, rule=TileRule.GIVEN,
...             tiles=Tiles.of(query_tile=2, key_tile=1), moved_words=48, peak_words=18)
>>> run = execute(plan, record=True)
>>> played = replay(run)
>>> verdict = check(played.game, played.schedule)
>>> verdict.legal, verdict.cost_words, played.game.red, verdict.peak_red
(True, 48, 18, 18)
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.run import Run
from attenio.errors import InvalidInput
from attenio.memory import Event, EventKind, Step
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.replay.expansion import Expansion
from attenio.pebbling.replay.problems import disjoint_union, pebbled_problems
from attenio.pebbling.schedule import Move, MoveKind, Schedule
from attenio.workload import refuse_forms

Words = NDArray[np.int64]

_INPUT_BUFFERS = ("Q", "K", "V", "KV")


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """A run as a game on as many red words as its fast memory held at most, and the schedule that it played.

    ``reserved_words`` are the words that its buffers took when each move was made, and ``reserved_input_words`` those
    of them that are meant for Q, K and V.
    """

    game: Game
    schedule: Schedule
    reserved_words: Words
    reserved_input_words: Words


def replay(run: Run) -> Replay:
    """The game of a recorded run.

    Every problem (a head, or the heads that share keys) has its own part of the graph, inputs included, as the run
    treats them. Scores that a mask hides are left out where they move no word; where they do, the graph has them as
    values that nothing needs. The game is one-shot unless the run computes a value twice.
    """
    if not run.trace.events:
        raise InvalidInput("the run has no events to replay; run it with execute(plan, record=True)")
    if run.plan.workload.values_in_keys:
        raise InvalidInput("a game has keys and values as separate inputs; replay a run with values_in_keys=False")
    refuse_forms(run.plan.workload, "a game has no")
    recorded = [(label, list(events)) for label, events in groupby(run.trace.events, key=lambda event: event.problem)]
    problems = list(pebbled_problems(run.plan))
    graph = disjoint_union([(label, each.graph) for (label, _), each in zip(recorded, problems, strict=True)])
    moves: list[Move] = []
    in_use: list[tuple[int, int]] = []
    reserved: Counter[bool] = Counter()
    top = 0
    for (_, events), problem in zip(recorded, problems, strict=True):
        expansion = Expansion(problem)
        for event in piece_by_piece(events):
            if event.kind in (EventKind.RESERVE, EventKind.RELEASE):
                sign = 1 if event.kind is EventKind.RESERVE else -1
                reserved[event.operand in _INPUT_BUFFERS] += sign * event.words
            moves_of_event = expansion.moves(event)
            moves.extend(Move(kind, top + vertex) for kind, vertex in moves_of_event)
            in_use.extend([(reserved.total(), reserved[True])] * len(moves_of_event))
        top += len(problem.graph)
    played = with_deletions(graph, moves)
    computed = [move.vertex for move in moves if move.kind is MoveKind.COMPUTE]
    variant = Variant.ONE_SHOT if len(set(computed)) == len(computed) else Variant.STANDARD
    words = np.repeat(np.array(in_use, dtype=np.int64), [len(several) for several in played], axis=0)
    return Replay(
        game=Game(graph=graph, red=run.peak_words, variant=variant, sliding=True),
        schedule=Schedule.of(move for several in played for move in several),
        reserved_words=words[:, 0],
        reserved_input_words=words[:, 1],
    )


def piece_by_piece(events: Iterable[Event]) -> Iterator[Event]:
    """The events, with every stream cut: its first piece goes through all its events before the second one arrives.

    >>> stream = [Event(kind=EventKind.LOAD, operand="K", rows=np.array([4, 7]), stream=1, along="rows"),
    ...           Event(kind=EventKind.COMPUTE, operand="S", columns=np.array([4, 7]), step=Step.SCORES, stream=1)]
    >>> [(event.kind.value, event.rows.tolist(), event.columns.tolist()) for event in piece_by_piece(stream)]
    [('load', [4], []), ('compute', [], [4]), ('load', [7], []), ('compute', [], [7])]
    """
    for stream, together in groupby(events, key=lambda event: event.stream):
        if stream == 0:
            yield from together
            continue
        interleaved = list(together)
        first = interleaved[0]
        if first.along == "elements":
            for key, column in product(first.rows.tolist(), first.columns.tolist()):
                yield from (_element(event, np.array([key]), np.array([column])) for event in interleaved)
            continue
        by_key = first.along == "rows" or first.operand == "S"
        for number in (first.rows if first.along == "rows" else first.columns).tolist():
            for event in interleaved:
                yield _piece(event, np.array([number], dtype=np.int64), by_key=by_key)


def _element(event: Event, key: NDArray[np.intp], column: NDArray[np.intp]) -> Event:
    """What an event does with one element of a key, or of a value."""
    if event.kind is EventKind.LOAD:
        return replace(event, rows=key, columns=column)
    if event.step is Step.SCORES:
        return replace(event, columns=key, inner=column)
    assert event.step is Step.OUTPUT
    return replace(event, columns=column, inner=key)


def _piece(event: Event, number: NDArray[np.intp], *, by_key: bool) -> Event:
    """What an event does with one key, or with one value column."""
    if by_key and event.kind is EventKind.LOAD and event.operand in ("K", "V"):
        return replace(event, rows=number)
    if by_key and event.step in (Step.OUTPUT, Step.RESCALED_OUTPUT):
        return replace(event, inner=number)
    return replace(event, columns=number)


def with_deletions(graph: ComputationGraph, moves: Sequence[Move]) -> list[list[Move]]:
    """For each load, store or computation, the move itself (computations in place) and the deletions after it.

    A value leaves fast memory as soon as nothing needs it any more, or it is loaded or computed again. Whatever the
    order of loads, stores and computations, no other choice of deletions holds fewer words at any time. A computed
    value takes the place of a parent that is needed for the last time, as accumulating in place does.

    >>> graph = ComputationGraph.from_edges([("a", "b"), ("a", "c"), ("b", "c")])
    >>> moves = [Move(MoveKind.LOAD, 0), Move(MoveKind.COMPUTE, 1), Move(MoveKind.COMPUTE, 2), Move(MoveKind.STORE, 2)]
    >>> [[move.describe(graph) for move in several] for several in with_deletions(graph, moves)]
    [['load a'], ['compute b'], ['compute c in place of a', 'delete b'], ['store c', 'delete c']]
    """
    weights = graph.weights.tolist()
    needed_later = bytearray(len(graph))
    played: list[list[Move]] = []
    for move in reversed(moves):
        vertex = move.vertex
        if move.kind is MoveKind.STORE:
            used: tuple[int, ...] = (vertex,)
        elif move.kind is MoveKind.COMPUTE:
            used = graph.parents[vertex]
        else:
            used = ()
        leaving = [each for each in used if not needed_later[each]]
        if move.kind is not MoveKind.STORE and not needed_later[vertex]:
            leaving.append(vertex)
        place = None
        if move.kind is MoveKind.COMPUTE and (free := [each for each in leaving if each != vertex]):
            place = max(free, key=lambda each: weights[each])
            leaving.remove(place)
        played.append([Move(move.kind, vertex, place), *(Move(MoveKind.DELETE, each) for each in leaving)])
        if move.kind is not MoveKind.STORE:
            needed_later[vertex] = 0
        for each in used:
            needed_later[each] = 1
    return played[::-1]
