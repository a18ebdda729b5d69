"""Best tiles of one pass over stored projections."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.weight_gradient.costs import one_pass
from attenio.weight_gradient.search.fused import sweep_room
from attenio.weight_gradient.search.products import best_projection, best_update


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    room = sweep_room(problems, fast_words)
    projection, update = best_projection(problems, fast_words), best_update(problems, fast_words)
    if room.most_rows() < 1 or projection is None or update is None:
        return None
    _, a = best_row_tile(RowWords(problems=problems, live=0, loads=2 * problems.d), room.most_rows())
    tiles = Tiles.of(
        projection_columns=projection.columns,
        query_tile=a,
        key_tile=min(problems.most_keys, room.most_keys(a)),
        weight_rows=update.rows,
        weight_columns=update.columns,
    )
    return MovingTiles(one_pass.moved_words(problems, tiles), tiles)
