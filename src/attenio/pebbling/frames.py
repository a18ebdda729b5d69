"""A game as a film: what each move changes on the board, for players and explorers.

>>> from attenio.pebbling.graph import ComputationGraph
>>> from attenio.pebbling.schedule import Move, MoveKind
>>> graph = ComputationGraph.from_edges([("a", "b")])
>>> game = Game(graph=graph, red=2)
>>> for frame in frames(game, Schedule.of([Move(MoveKind.LOAD, 0), Move(MoveKind.COMPUTE, 1)])):
...     print(frame.step, frame.move, frame.reddened, frame.cost_words)
0 start () 0
1 load a (0,) 1
2 compute b (1,) 1
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attenio.errors import InvalidInput
from attenio.pebbling.checking import Board
from attenio.pebbling.game import Game
from attenio.pebbling.schedule import Move, Schedule


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The board after a move, as what the move changed; the first frame puts blue pebbles on the inputs."""

    step: int
    move: str
    reddened: tuple[int, ...]
    unreddened: tuple[int, ...]
    blued: tuple[int, ...]
    unblued: tuple[int, ...]
    cost_words: int
    red_words: int


def frames(game: Game, schedule: Schedule) -> Iterator[Frame]:
    """The film of a legal schedule; an illegal move ends it with InvalidInput, which says why."""
    board = Board(game)
    inputs = tuple(game.graph.inputs.tolist())
    yield Frame(step=0, move="start", reddened=(), unreddened=(), blued=inputs, unblued=(), cost_words=0, red_words=0)
    for step, move in enumerate(schedule, 1):
        touched = (move.vertex,) if move.parent is None else (move.vertex, move.parent)
        known = [vertex for vertex in touched if 0 <= vertex < len(game.graph)]
        before = [(vertex, board.red[vertex], board.blue[vertex]) for vertex in known]
        reason = board.play(move)
        if reason is not None:
            raise InvalidInput(f"move {step:,} ({move.describe(game.graph)}) is illegal: {reason}; mend the schedule")
        yield _frame(board, step, move, before)


def _frame(board: Board, step: int, move: Move, before: list[tuple[int, int, int]]) -> Frame:
    def changed(pebbles: bytearray, which: int, now: int) -> tuple[int, ...]:
        return tuple(state[0] for state in before if state[which] != pebbles[state[0]] == now)

    return Frame(
        step=step,
        move=move.describe(board.game.graph),
        reddened=changed(board.red, 1, 1),
        unreddened=changed(board.red, 1, 0),
        blued=changed(board.blue, 2, 1),
        unblued=changed(board.blue, 2, 0),
        cost_words=board.loaded_words + board.stored_words,
        red_words=board.red_words,
    )


def film_to_json(game: Game, schedule: Schedule) -> dict[str, Any]:
    """The graph, the rules and every frame as plain values; pebbles are vertex numbers."""
    graph = game.graph
    return {
        "graph": {
            "name": graph.name,
            "vertices": list(graph.names),
            "parents": [list(needs) for needs in graph.parents],
            "weights": graph.weights.tolist(),
            "outputs": graph.outputs.tolist(),
        },
        "game": game.variant.value,
        "sliding": game.sliding,
        "red": game.red,
        "frames": [
            {
                "step": frame.step,
                "move": frame.move,
                "red_added": list(frame.reddened),
                "red_removed": list(frame.unreddened),
                "blue_added": list(frame.blued),
                "blue_removed": list(frame.unblued),
                "cost_words": frame.cost_words,
                "red_words": frame.red_words,
            }
            for frame in frames(game, schedule)
        ],
    }
