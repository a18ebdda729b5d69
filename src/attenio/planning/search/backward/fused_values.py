"""Best tiles of the fused gradient of values: the pair of score tiles and both products are searched by themselves."""

from math import inf

from attenio.planning.costs.backward.tiled_products import delta_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.backward.products import Product, least_product_words, product_sizes, product_tiles
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, row_room

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits or all move more than ``limit``."""
    products = product_tiles(problems, fast_words, _products(problems))
    if products is None:
        return None
    words = sum(product.words for product in products)
    fixed = _fixed(problems)
    spare = None if limit is None else (limit // problems.runs - fixed) // problems.group - words
    scores = best_rectangle(_words(problems), (_room(problems, fast_words),), spare)
    if scores is None:
        return None
    tiles = Tiles.of(score_rows=scores.rows, score_keys=scores.keys, **product_sizes(_products(problems), products))
    return MovingTiles(problems.runs * (fixed + problems.group * (words + scores.words)), tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    room = _room(problems, fast_words)
    if row_room(problems, room) < 1:
        return inf
    words = _words(problems).floor((room,)) + least_product_words(problems, fast_words, _products(problems))
    return problems.runs * (_fixed(problems) + problems.group * words)


def _products(problems: Problems) -> tuple[Product, ...]:
    return ("key", problems.d), ("query", problems.d)


def _fixed(problems: Problems) -> int:
    """Words of one run that no tile changes; a key's first visit loads and its last stores no partial gradient."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    gradients = problems.keys * (d + dv) - 2 * w * dv * problems.touched_keys
    return delta_words(problems) + gradients + problems.group * (problems.scores * w + problems.rows * d)


def _words(problems: Problems) -> RectangleWords:
    """Words of one head that the tiles decide."""
    both, w = problems.d + problems.value_dim, problems.intermediate_words
    return RectangleWords(problems=problems, met=both, loads=both + 2 * w * problems.value_dim, kept=-2 * w)


def _room(problems: Problems, fast_words: int) -> Room:
    w = problems.intermediate_words
    return Room(words=fast_words - 1 - w, per_score=2 * w, per_row=1 + 2 * w)
