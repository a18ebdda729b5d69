"""From phases whose bursts have an order to the moves of a schedule."""

from collections.abc import Sequence

from attenio.pebbling.game import Variant
from attenio.pebbling.schedule import Move, MoveKind, Schedule
from attenio.pebbling.solving.cp_sat.phases import Item, Phase, Task


def moves_of(task: Task, phases: Sequence[Phase], orders: Sequence[Sequence[Item]]) -> Schedule:
    """The schedule that plays the phases, each burst in its order, and deletes what is no longer asked for."""
    moves: list[Move] = []
    red: set[int] = set()
    for phase, order in zip(phases, orders, strict=True):
        _keep_only(moves, red, phase.start)
        moves.extend(Move(MoveKind.LOAD, v) for v in phase.loads)
        red |= phase.start
        last = {item.vertex: at for at, item in enumerate(order)}
        for at, (item, before, after) in enumerate(_demands(task, phase, order)):
            _keep_only(moves, red, before)
            moves.append(_computation(task, red, item, after))
            if moves[-1].kind is MoveKind.COMPUTE and moves[-1].parent is not None:
                red.remove(moves[-1].parent)
            red.add(item.vertex)
            if item.vertex in phase.stores and last[item.vertex] == at:
                moves.append(Move(MoveKind.STORE, item.vertex))
        _keep_only(moves, red, phase.end)
    return Schedule.of(moves)


def _keep_only(moves: list[Move], red: set[int], wanted: frozenset[int]) -> None:
    for vertex in sorted(red - wanted):
        moves.append(Move(MoveKind.DELETE, vertex))
        red.remove(vertex)


def _demands(task: Task, phase: Phase, order: Sequence[Item]) -> list[tuple[Item, frozenset[int], frozenset[int]]]:
    """For every item in order, what has to be red before and after it, found backwards."""
    partial = task.game.variant is Variant.PARTIAL
    first = {item.vertex: at for at, item in reversed(list(enumerate(order)))}
    demands = []
    after = phase.end
    for at in range(len(order) - 1, -1, -1):
        item = order[at]
        goes_on = partial and (item.vertex in phase.start or first[item.vertex] < at)
        before = (after | {item.vertex} if goes_on else after - {item.vertex}) | frozenset(item.reads)
        demands.append((item, before, after | {item.vertex}))
        after = before
    return demands[::-1]


def _computation(task: Task, red: set[int], item: Item, after: frozenset[int]) -> Move:
    if task.game.variant is Variant.PARTIAL:
        return Move(MoveKind.ACCUMULATE, item.vertex, item.reads[0])
    words = task.words([*red, item.vertex])
    if item.vertex in red or words <= task.game.red:
        return Move(MoveKind.COMPUTE, item.vertex)
    free = [u for u in item.reads if u not in after]
    return Move(MoveKind.COMPUTE, item.vertex, max(free, key=lambda u: task.weights[u]))
