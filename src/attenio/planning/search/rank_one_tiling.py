"""Best tiles of rank-one tiling: its two phases are searched by themselves, each with all of the fast memory."""

from attenio.planning.costs.square_tiling import written_scores_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.columns import OutputRoom, best_output_tile, output_floor
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, row_room

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits or all move more than ``limit``."""
    outputs = best_output_tile(problems, _output_room(fast_words))
    if outputs is None:
        return None
    spare = None if limit is None else limit // (problems.group * problems.runs) - _fixed(problems) - outputs.words
    scores = best_rectangle(_products(problems), (_score_room(problems, fast_words),), spare)
    if scores is None:
        return None
    tiles = Tiles.of(
        score_rows=scores.rows, score_keys=scores.keys, output_rows=outputs.rows, output_columns=outputs.columns
    )
    words = _fixed(problems) + outputs.words + scores.words
    return MovingTiles(problems.group * problems.runs * words, tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    room = _score_room(problems, fast_words)
    if row_room(problems, room) < 1:
        return float("inf")
    words = _fixed(problems) + _products(problems).floor((room,)) + output_floor(problems, _output_room(fast_words))
    return problems.group * problems.runs * words


def _fixed(problems: Problems) -> int:
    """Words that no tile changes: scores written, row maxima and outputs."""
    return written_scores_words(problems, problems.value_dim) - problems.scores * problems.intermediate_words


def _products(problems: Problems) -> RectangleWords:
    return RectangleWords(problems=problems, met=problems.d, loads=problems.d)


def _score_room(problems: Problems, fast_words: int) -> Room:
    w = problems.intermediate_words
    return Room(words=fast_words - 1, per_score=w, per_row=1 + w)


def _output_room(fast_words: int) -> OutputRoom:
    return OutputRoom(words=fast_words - 1, extra=3)
