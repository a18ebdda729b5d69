"""Best tiles of products with weights: few shapes matter, since only the number of tiles each way does."""

from typing import NamedTuple

from attenio.planning.cuts import column_tiles
from attenio.planning.problems import Problems
from attenio.planning.search.row_tiles import even_tile
from attenio.weight_gradient.costs.products import projection_words, tiled_projection_words, update_words

__all__ = ["ProductTile", "best_projection", "best_tiled_projection", "best_update"]


class ProductTile(NamedTuple):
    """A tile and its words; fewest words first."""

    words: int
    rows: int
    columns: int


def best_projection(problems: Problems, fast_words: int) -> ProductTile | None:
    """As many columns of resident weights as fit; None if none does."""
    d = problems.d
    most = min(d, (fast_words - 1) // (d + problems.intermediate_words))
    if most < 1:
        return None
    columns = even_tile(d, most)
    return ProductTile(projection_words(problems, columns), d, columns)


def best_tiled_projection(problems: Problems, fast_words: int) -> ProductTile | None:
    """For each number of column tiles, the narrowest leaves room for the most rows."""
    found = []
    for _, columns in column_tiles(problems.d):
        most = min(problems.rows, (fast_words - 1) // (columns * problems.intermediate_words + 1))
        if most >= 1:
            rows = even_tile(problems.rows, most)
            found.append(ProductTile(tiled_projection_words(problems, rows, columns), rows, columns))
    return min(found, default=None)


def best_update(problems: Problems, fast_words: int) -> ProductTile | None:
    """The same for tiles of weight gradients."""
    w, found = problems.intermediate_words, []
    for _, columns in column_tiles(problems.d):
        most = min(problems.d, (fast_words - w) // (columns * w + 1))
        if most >= 1:
            rows = even_tile(problems.d, most)
            found.append(ProductTile(update_words(problems, rows, columns), rows, columns))
    return min(found, default=None)
