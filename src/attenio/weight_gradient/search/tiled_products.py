"""Best tiles of tiled products: six phases, each searched by itself."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.columns import OutputRoom, best_output_tile
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room
from attenio.weight_gradient.costs import tiled_products
from attenio.weight_gradient.search.products import best_tiled_projection, best_update


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    w = problems.intermediate_words
    # Of all phases this one needs the most room for a single score.
    gradient_room = Room(words=fast_words - 1 - w, per_score=w, per_row=4 * w)
    if gradient_room.most_rows() < 1:
        return None
    form = RectangleWords(problems=problems, met=problems.d * w, loads=problems.d)
    scores = best_rectangle(form, (Room(words=fast_words - 1, per_score=w, per_row=3 * w),))
    gradients = best_rectangle(form, (gradient_room,))
    outputs = best_output_tile(problems, OutputRoom(words=fast_words - 1, extra=3))
    queries = best_output_tile(problems, OutputRoom(words=fast_words - 1, extra=1))
    projection, update = best_tiled_projection(problems, fast_words), best_update(problems, fast_words)
    assert scores and gradients and outputs and queries and projection and update
    tiles = Tiles.of(
        projection_rows=projection.rows,
        projection_columns=projection.columns,
        score_rows=scores.rows,
        score_keys=scores.keys,
        output_rows=outputs.rows,
        output_columns=outputs.columns,
        gradient_rows=gradients.rows,
        gradient_keys=gradients.keys,
        query_rows=queries.rows,
        query_columns=queries.columns,
        weight_rows=update.rows,
        weight_columns=update.columns,
    )
    return MovingTiles(tiled_products.moved_words(problems, tiles), tiles)
