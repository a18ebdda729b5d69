"""Schedules in files: JSON Lines, a move a line, vertices by name.

The first line may say what the schedule is for::

    {"graph": "product", "red": 5, "game": "standard", "sliding": false}
    {"move": "load", "vertex": "A[0,0]"}
    {"move": "compute", "vertex": "C[0,0;2]", "in_place_of": "C[0,0;1]"}
    {"move": "accumulate", "vertex": "C[0,0]", "parent": "C[0,0;*1]"}

>>> import tempfile
>>> from attenio.pebbling.graphs.product import product
>>> path = Path(tempfile.mkdtemp()) / "play.jsonl"
>>> _ = path.write_text('{"move": "load", "vertex": "A[0;0]"}')
>>> read_schedule(path, product(1, 1, 1))  # doctest: +ELLIPSIS
Traceback (most recent call last):
attenio.errors.InvalidInput: ...play.jsonl line 1: product has no vertex 'A[0;0]'; did you mean A[0,0]?
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from attenio.errors import InvalidInput
from attenio.files import write_atomically
from attenio.names import did_you_mean
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import CODES, MoveKind, Schedule

_KINDS = {kind.value: kind for kind in MoveKind}
# What a move calls its second vertex.
SECOND = {MoveKind.COMPUTE: "in_place_of", MoveKind.ACCUMULATE: "parent"}
# Names compared to find the one that was meant; among millions it would take minutes.
_COMPARED = 2_000
_SHOWN = 40


@dataclass(frozen=True, kw_only=True)
class ScheduleHeader:
    """What the first line says that the schedule was made for."""

    graph: str | None = None
    red: int | None = None
    game: Variant | None = None
    sliding: bool | None = None


def write_schedule(schedule: Schedule, graph: ComputationGraph, path: Path | str, game: Game | None = None) -> Path:
    """Write the moves, after a line that says which game they play where it is given; the path written."""
    if len(schedule) and not 0 <= int(schedule.vertices.min()) <= int(schedule.vertices.max()) < len(graph):
        raise InvalidInput(f"the schedule has vertices that {graph.name} has not; write it with its own graph")
    names = [json.dumps(name) for name in graph.names]
    lines = []
    if game is not None:
        header = {"graph": graph.name, "red": game.red, "game": game.variant.value, "sliding": game.sliding}
        lines.append(json.dumps(header))
    for kind, vertex, parent in schedule:
        second = "" if parent is None or kind not in SECOND else f', "{SECOND[kind]}": {names[parent]}'
        lines.append(f'{{"move": "{kind.value}", "vertex": {names[vertex]}{second}}}')
    return write_atomically(path, "".join(f"{line}\n" for line in lines))


def read_schedule(path: Path | str, graph: ComputationGraph) -> Schedule:
    """The moves in a file, of vertices of this graph. Whether they are legal is for the referee to say."""
    place = Path(path)
    kinds, vertices, parents = array("B"), array("q"), array("q")
    for position, (number, fields) in enumerate(_lines(place)):
        if position == 0 and "move" not in fields:
            _header(fields, place)
            continue
        kind = _kind(fields, place, number)
        second = SECOND.get(kind)
        for field in fields:
            if field not in ("move", "vertex", second):
                takes = ", ".join(filter(None, ("vertex", second)))
                raise _complaint(place, number, f"a {kind.value} move has no {field!r}; it takes {takes}")
        kinds.append(CODES[kind])
        vertices.append(_vertex(fields.get("vertex"), "vertex", graph, place, number))
        named = fields.get(second) if second else None
        parents.append(-1 if named is None else _vertex(named, str(second), graph, place, number))
    return Schedule(
        np.array(kinds, dtype=np.uint8), np.array(vertices, dtype=np.int64), np.array(parents, dtype=np.int64)
    )


def read_schedule_header(path: Path | str) -> ScheduleHeader | None:
    """What the first line says, or None where the moves begin at once."""
    place = Path(path)
    first = next(iter(_lines(place)), None)
    return None if first is None or "move" in first[1] else _header(first[1], place)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of the lines that hold something, with the numbers of the lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, _object(line, path, number)
    except FileNotFoundError:
        raise InvalidInput(f"{path} does not exist; check its name") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or type(error).__name__}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text; save it as UTF-8") from None


def _object(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        shown = line.strip()
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        raise _complaint(path, number, f"{shown!r} is not JSON; write one object a line") from None
    if not isinstance(value, dict):
        raise _complaint(path, number, 'a move is an object such as {"move": "load", "vertex": "Q[0,0]"}')
    return value


def _header(fields: Mapping[str, Any], path: Path) -> ScheduleHeader:
    expected = {"graph": str, "red": int, "game": str, "sliding": bool}
    for name, value in fields.items():
        if name not in expected:
            known = f"it says 'move', or {', '.join(expected)}"
            raise _complaint(path, 1, f"the first line has {name!r}; {known}")
        # a bool counts as an int to Python, and not to anybody else
        if not isinstance(value, expected[name]) or (expected[name] is int and isinstance(value, bool)):
            what = {str: "text", int: "a whole number", bool: "true or false"}[expected[name]]
            raise _complaint(path, 1, f"{name} is {value!r}; give {what}")
    variants = {variant.value: variant for variant in Variant}
    game = fields.get("game")
    if game is not None and game not in variants:
        raise _complaint(path, 1, f"game is {game!r}; {did_you_mean(game, variants)}use {', '.join(variants)}")
    return ScheduleHeader(**{**fields, "game": None if game is None else variants[game]})


def _kind(fields: Mapping[str, Any], path: Path, number: int) -> MoveKind:
    move = fields.get("move")
    if not isinstance(move, str) or move not in _KINDS:
        suggestion = did_you_mean(move, _KINDS) if isinstance(move, str) else ""
        raise _complaint(path, number, f"move is {move!r}; {suggestion}moves are {', '.join(_KINDS)}")
    return _KINDS[move]


def _vertex(name: object, field: str, graph: ComputationGraph, path: Path, number: int) -> int:
    if name is None:
        raise _complaint(path, number, f'the move names no {field}; write "{field}": and its name')
    if not isinstance(name, str):
        raise _complaint(path, number, f"{field} is {name!r}; give the name of a vertex")
    try:
        return graph.number(name)
    except InvalidInput:
        suggestion = did_you_mean(name, _alike(name, graph.names)).strip() or "check that the file is for this graph"
        raise _complaint(path, number, f"{graph.name} has no vertex {name!r}; {suggestion}") from None


def _alike(name: str, names: Iterable[str]) -> list[str]:
    """A few of the names, first those with the same letters before the bracket and about as long."""
    letters, listed = name.partition("[")[0], list(names)
    alike = (each for each in listed if each.partition("[")[0] == letters and abs(len(each) - len(name)) <= 2)
    return list(islice(chain(alike, listed), _COMPARED))


def _complaint(path: Path, number: int, what: str) -> InvalidInput:
    return InvalidInput(f"{path} line {number:,}: {what}")
