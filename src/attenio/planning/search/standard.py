"""Best tiles of standard attention: three operators searched by themselves, each with all of the fast memory."""

from attenio.planning.costs.standard import moved_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.columns import OutputRoom, best_output_tile, output_floor
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, row_room

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    every, resident = problems.unmasked, resident_keys(problems, fast_words)
    scores = best_rectangle(_products(every), (_score_room(problems, fast_words),))
    outputs = best_output_tile(every, _output_room(fast_words))
    if scores is None or outputs is None or resident < 0:
        return None
    tiles = Tiles.of(
        score_rows=scores.rows,
        score_keys=scores.keys,
        resident_keys=resident,
        output_rows=outputs.rows,
        output_columns=outputs.columns,
    )
    return MovingTiles(moved_words(problems, tiles), tiles)


def resident_keys(problems: Problems, fast_words: int) -> int:
    """Scores of a row that need not be read a second time; negative if the softmax does not fit at all."""
    return min(fast_words // problems.intermediate_words - 3, problems.most_keys)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits. Quick: it counts required scores only."""
    room = _score_room(problems, fast_words)
    if row_room(problems, room) < 1 or resident_keys(problems, fast_words) < 0:
        return float("inf")
    # scores written, read and written by the softmax; their last reading is in the outputs' floor
    scores = 3 * problems.scores * problems.intermediate_words
    words = scores + _products(problems).floor((room,)) + output_floor(problems, _output_room(fast_words))
    return problems.group * problems.runs * (words + problems.rows * problems.value_dim)


def _products(every: Problems) -> RectangleWords:
    return RectangleWords(problems=every, met=every.d, loads=every.d)


def _score_room(problems: Problems, fast_words: int) -> Room:
    return Room(words=fast_words - 1, per_score=problems.intermediate_words, per_row=1)


def _output_room(fast_words: int) -> OutputRoom:
    return OutputRoom(words=fast_words - 1, extra=1)
