"""Best tiles of the score-stationary dataflow."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, row_room

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits or all move more than ``limit``."""
    own = problems.rows * problems.value_dim
    spare = None if limit is None else limit // (problems.group * problems.runs) - own
    best = best_rectangle(_words(problems), (_room(problems, fast_words),), spare)
    if best is None:
        return None
    tiles = Tiles.of(query_tile=best.rows, key_tile=best.keys)
    return MovingTiles(problems.group * problems.runs * (own + best.words), tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    room = _room(problems, fast_words)
    if row_room(problems, room) < 1:
        return float("inf")
    own = problems.rows * problems.value_dim
    return problems.group * problems.runs * (own + _words(problems).floor((room,)))


def _words(problems: Problems) -> RectangleWords:
    d, dv = problems.d, problems.value_dim
    carried = 2 * problems.intermediate_words * dv
    return RectangleWords(problems=problems, met=d + carried, loads=d + dv, kept=carried)


def _room(problems: Problems, fast_words: int) -> Room:
    w = problems.intermediate_words
    return Room(words=fast_words - 1, per_score=w, per_row=3 * w + max(1, w))
