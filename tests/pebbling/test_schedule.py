"""Schedules as values."""

from hypothesis import given
from hypothesis import strategies as st

from attenio.pebbling.checking import check
from attenio.pebbling.game import Game
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Move, MoveKind, Schedule

from .strategies import QUICK, games, spilling_schedule

GRAPH = ComputationGraph.from_edges([("a", "b"), ("b", "c")], weights={"a": 5, "b": 7})

moves = st.lists(st.builds(Move, st.sampled_from(MoveKind), st.integers(0, 2), st.none() | st.integers(0, 2)))


@QUICK
@given(moves)
def test_a_schedule_is_its_moves_in_order(listed: list[Move]) -> None:
    schedule = Schedule.of(listed)
    assert list(schedule) == listed
    assert [schedule[step] for step in range(len(schedule))] == listed
    assert schedule == Schedule.of(listed)
    assert schedule != Schedule.of([*listed, Move(MoveKind.LOAD, 0)])
    assert schedule != listed


@QUICK
@given(moves)
def test_cost_is_the_words_of_loads_and_stores(listed: list[Move]) -> None:
    moved = [move for move in listed if move.kind in (MoveKind.LOAD, MoveKind.STORE)]
    assert Schedule.of(listed).cost_words(GRAPH) == sum((5, 7, 1)[move.vertex] for move in moved)


@QUICK
@given(games(weighted=True))
def test_the_referee_counts_the_same_cost(game: Game) -> None:
    schedule = spilling_schedule(game)
    assert schedule.cost_words(game.graph) == check(game, schedule).cost_words


def test_moves_are_described_by_names() -> None:
    described = [
        Move(MoveKind.STORE, 0).describe(GRAPH),
        Move(MoveKind.COMPUTE, 1, 0).describe(GRAPH),
        Move(MoveKind.ACCUMULATE, 2, 1).describe(GRAPH),
        Move(MoveKind.DELETE, 9).describe(GRAPH),
    ]
    assert described == ["store a", "compute b in place of a", "accumulate c from b", "delete vertex 9"]
