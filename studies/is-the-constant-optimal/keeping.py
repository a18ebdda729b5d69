"""The schedule that keeps rows and lets keys pass: as few words as it takes, played and refereed."""

import re

import numpy as np

from attenio.pebbling import Game, Variant, check
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.scheduling.eviction import schedule_of
from attenio.pebbling.scheduling.program import program_of

__all__ = ["keeping_rows", "keeps_rows"]

_NAME = re.compile(r"(\w+)\[(\d+)(?:,(\d+))?(?:;(\d+))?\]")
_STAGES = {"S": 0, "P": 1, "sum": 2, "O": 3}


def keeping_rows(rows: int, d: int) -> int:
    """Words of fast memory, whatever the number of keys.

    Q, O and the softmax's sum of every row; and, while a key passes, either a score of every row with one word of the
    key or the value, or the whole key and value with one score.
    """
    return rows * (2 * d + 1) + min(rows, 2 * d) + 1


def keeps_rows(rows: int, keys: int, d: int) -> bool:
    """Whether a schedule with these words, key by key, is legal in the standard game and moves nothing twice."""
    graph = attention(Head(rows=rows, keys=keys, d=d), softmax=Softmax.UNSHIFTED)
    game = Game(graph=graph, red=keeping_rows(rows, d), variant=Variant.STANDARD, sliding=True)
    program = program_of(game)
    names = [graph.names[vertex] for vertex in program.targets.tolist()]
    # Rows one after the other where a whole key and value are fewer words than a score of every row.
    places = [_place(name, keys, d, row_by_row=2 * d <= rows) for name in names]
    order = np.array(sorted(range(len(names)), key=places.__getitem__), dtype=np.int64)
    schedule = schedule_of(program, order)
    return check(game, schedule).legal and schedule.cost_words(graph) == graph.compulsory_words


def _place(name: str, keys: int, d: int, *, row_by_row: bool) -> tuple[int, ...]:
    """Where a value is computed: first by key, then by row or by stage."""
    found = _NAME.fullmatch(name)
    assert found is not None, name
    what, row, other, after = found[1], int(found[2]), found[3], found[4]
    match what:
        case "S" | "P":
            key, part = int(other), d if after is None else int(after)
        case "sum":
            key, part = keys - 1 if after is None else int(after), 0
        case _:
            key, part = keys if after is None else int(after), int(other)
    return (key, row, _STAGES[what], part) if row_by_row else (key, _STAGES[what], part, row)
