"""Best tiles of two passes over stored projections: each pass is searched by itself."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.weight_gradient.costs import two_pass
from attenio.weight_gradient.search.products import best_projection, best_update


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    d, w = problems.d, problems.intermediate_words
    forward = _pass(problems, Room(words=fast_words, per_score=w, per_row=2 * d * w + 3 * w, per_key=d))
    gradient = _pass(problems, Room(words=fast_words, per_score=w, per_row=3 * d * w + 4 * w, per_key=2 * d))
    projection, update = best_projection(problems, fast_words), best_update(problems, fast_words)
    if forward is None or gradient is None or projection is None or update is None:
        return None
    tiles = Tiles.of(
        projection_columns=projection.columns,
        query_tile=forward[0],
        key_tile=forward[1],
        gradient_rows=gradient[0],
        gradient_keys=gradient[1],
        weight_rows=update.rows,
        weight_columns=update.columns,
    )
    return MovingTiles(two_pass.moved_words(problems, tiles), tiles)


def _pass(problems: Problems, room: Room) -> tuple[int, int] | None:
    """The rows that read the fewest keys, and the most keys that fit beside them."""
    if room.most_rows() < 1:
        return None
    _, rows = best_row_tile(RowWords(problems=problems, live=0, loads=2 * problems.d), room.most_rows())
    return rows, min(problems.most_keys, room.most_keys(rows))
