"""Best tiles of FLAT: complete rows of scores, or as much of one row as fits."""

from bisect import bisect_left

from attenio.granularity import largest_size
from attenio.planning.costs.flat import moved_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.attenio import tile_room
from attenio.planning.search.room import row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile

__all__ = ["best_tiles", "floor_words", "most_complete_rows", "most_resident_keys"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    most = most_complete_rows(problems, fast_words)
    if most >= 1:
        words, query_tile = best_row_tile(_row_words(problems), most)
        moved = problems.group * problems.runs * (words + problems.rows * problems.value_dim)
        return MovingTiles(moved, Tiles.of(query_tile=query_tile))
    resident = most_resident_keys(problems, fast_words)
    if resident < 0:
        return None
    if problems.scores_beyond(resident) == 0:
        resident = bisect_left(range(resident), True, key=lambda kept: problems.scores_beyond(kept) == 0)
    tiles = Tiles.of(query_tile=1, resident_keys=resident)
    return MovingTiles(moved_words(problems, tiles), tiles)


def _row_words(problems: Problems) -> RowWords:
    """Words that the query tile decides; all keys are gone when values come, so a latent is read for both."""
    return RowWords(problems=problems, live=problems.d, loads=problems.d + problems.value_dim)


def most_complete_rows(problems: Problems, fast_words: int) -> int:
    """Rows whose scores fit at once, in every problem."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    most = problems.most_rows
    for rows, keys in problems.shapes:
        fits = (fast_words - max(d, dv, 2 * w)) // (d + keys * w + dv * w)
        most = most if fits >= rows else min(most, fits)
    return largest_size(most, problems.most_rows, problems.granularity.rows)


def most_resident_keys(problems: Problems, fast_words: int) -> int:
    """Scores of one row that fit when others are spilled; negative if it does not even work with none.

    Rows are spilled one at a time, which a granularity of rows allows only where there is no other row.
    """
    if problems.granularity.rows > 1 and problems.most_rows > 1:
        return -1
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    return min((fast_words - d - dv * w - max(d, dv)) // w - 3, problems.most_keys - 1)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits, or if attenio holds as many rows with less."""
    most = most_complete_rows(problems, fast_words)
    if most < 1 and most_resident_keys(problems, fast_words) < 0:
        return float("inf")
    if row_room(problems, tile_room(problems, fast_words)) >= max(most, 1):
        return float("inf")
    own = problems.rows * problems.value_dim
    return problems.group * problems.runs * (own + _row_words(problems).floor(max(most, 1)))
