"""Schedules survive their files, and a broken file is refused in one line that says where."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from attenio.errors import InvalidInput
from attenio.pebbling.checking import check
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.product import product
from attenio.pebbling.schedule import Move, MoveKind, Schedule
from attenio.pebbling.schedule_files import ScheduleHeader, read_schedule, read_schedule_header, write_schedule

from .strategies import QUICK, games, spilling_schedule

GRAPH = product(2, 2, 2)
LOAD = '{"move": "load", "vertex": "A[0,0]"}\n'


@QUICK
@given(games(weighted=True))
def test_a_schedule_and_its_game_survive_their_file(game: Game) -> None:
    schedule = spilling_schedule(game)
    with TemporaryDirectory() as folder:
        path = write_schedule(schedule, game.graph, Path(folder) / "play.jsonl", game)
        again = read_schedule(path, game.graph)
        header = read_schedule_header(path)
    assert again == schedule
    assert check(game, again).legal
    assert header == ScheduleHeader(graph="random", red=game.red, game=game.variant, sliding=game.sliding)


def test_the_header_may_be_left_out(tmp_path: Path) -> None:
    schedule = Schedule.of([Move(MoveKind.LOAD, 0), Move(MoveKind.STORE, 0), Move(MoveKind.DELETE, 0)])
    path = write_schedule(schedule, GRAPH, tmp_path / "play.jsonl")
    assert path.read_text().count("\n") == 3
    assert read_schedule(path, GRAPH) == schedule
    assert read_schedule_header(path) is None


def test_lines_are_written_as_documented(tmp_path: Path) -> None:
    graph = ComputationGraph.from_edges([('q "1"', "é")])
    moves = [Move(MoveKind.COMPUTE, 1, 0), Move(MoveKind.ACCUMULATE, 1, 0), Move(MoveKind.COMPUTE, 1)]
    path = write_schedule(
        Schedule.of(moves), graph, tmp_path / "a.jsonl", Game(graph=graph, red=2, variant=Variant.PARTIAL)
    )
    assert path.read_text().splitlines() == [
        '{"graph": "graph", "red": 2, "game": "partial", "sliding": false}',
        '{"move": "compute", "vertex": "\\u00e9", "in_place_of": "q \\"1\\""}',
        '{"move": "accumulate", "vertex": "\\u00e9", "parent": "q \\"1\\""}',
        '{"move": "compute", "vertex": "\\u00e9"}',
    ]
    assert list(read_schedule(path, graph)) == moves


def test_an_empty_file_is_a_schedule_without_moves_and_blank_lines_are_none(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert len(read_schedule(path, GRAPH)) == 0
    assert read_schedule_header(path) is None
    path.write_text(f'\n{{"red": 3}}\n\n{LOAD}\n')
    assert list(read_schedule(path, GRAPH)) == [Move(MoveKind.LOAD, 0)]
    assert read_schedule_header(path) == ScheduleHeader(red=3)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (LOAD + "{broken\n", "line 2: '{broken' is not JSON; write one object a line"),
        (LOAD + "[1, 2]\n", "line 2: a move is an object such as"),
        (LOAD + '"load"\n', "line 2: a move is an object such as"),
        (LOAD + '{"red": 3}\n', "line 2: move is None; moves are load, store, compute, accumulate, delete"),
        ('{"move": "laod", "vertex": "A[0,0]"}\n', "line 1: move is 'laod'; did you mean load? moves are"),
        ('{"move": ["load"], "vertex": "A[0,0]"}\n', "line 1: move is ['load']"),
        ('{"move": "load", "vertex": "A[0;0]"}\n', "line 1: product has no vertex 'A[0;0]'; did you mean A[0,0]?"),
        (
            LOAD + '{"move": "compute", "vertex": "C[0,0;1]", "in_place_of": "A(0,0)"}',
            "line 2: product has no vertex 'A(0,0)'; did you mean A[0,0]?",
        ),
        (
            LOAD + '{"move": "load", "vertex": "~~~~~~~~"}',
            "line 2: product has no vertex '~~~~~~~~'; check that the file",
        ),
        ('{"move": "load"}\n', "line 1: the move names no vertex; write"),
        ('{"move": "load", "vertex": 3}\n', "line 1: vertex is 3; give the name of a vertex"),
        (
            '{"move": "load", "vertex": "A[0,0]", "parent": "B[0,0]"}\n',
            "line 1: a load move has no 'parent'; it takes vertex",
        ),
        ('{"move": "compute", "vertex": "C[0,0]", "parent": "B[0,0]"}', "it takes vertex, in_place_of"),
        ('{"red": "three"}\n', "line 1: red is 'three'; give a whole number"),
        ('{"red": true}\n', "line 1: red is True; give a whole number"),
        ('{"sliding": 1}\n', "line 1: sliding is 1; give true or false"),
        ('{"game": "one-shoot"}\n', "line 1: game is 'one-shoot'; did you mean one-shot? use standard"),
        ('{"game": "chess"}\n', "line 1: game is 'chess'; use standard, one-shot, partial"),
        ('{"vertex": "A[0,0]"}\n', "line 1: the first line has 'vertex'; it says 'move', or graph, red, game, sliding"),
        ("[" * 100_000, "line 1: '[[[["),
    ],
)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidInput) as refusal:
        read_schedule(path, GRAPH)
    assert str(refusal.value).startswith(f"{path} line")
    assert complaint in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        read_schedule(tmp_path / "none.jsonl", GRAPH)
    with pytest.raises(InvalidInput, match="cannot read"):
        read_schedule(tmp_path, GRAPH)
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="not UTF-8 text"):
        read_schedule(tmp_path / "binary.jsonl", GRAPH)


def test_a_schedule_of_another_graph_is_not_written(tmp_path: Path) -> None:
    for vertex in (-1, len(GRAPH)):
        with pytest.raises(InvalidInput, match="write it with its own graph"):
            write_schedule(Schedule.of([Move(MoveKind.LOAD, vertex)]), GRAPH, tmp_path / "play.jsonl")
    assert not list(tmp_path.iterdir())
