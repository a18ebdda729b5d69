"""Best tiles of the tiled products: the score tile and every product are searched by themselves."""

from math import inf

from attenio.planning.costs.backward.tiled_products import delta_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.backward.products import Product, least_product_words, product_sizes, product_tiles
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, row_room

__all__ = ["best_reading_tiles", "best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits or all move more than ``limit``."""
    return _best_tiles(problems, fast_words, limit, reading=False)


def best_reading_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """The same where the forward pass has saved its probabilities, and they are read."""
    return _best_tiles(problems, fast_words, None, reading=True)


def _best_tiles(problems: Problems, fast_words: int, limit: int | None, *, reading: bool) -> MovingTiles | None:
    products = product_tiles(problems, fast_words, _products(problems))
    if products is None:
        return None
    words = sum(product.words for product in products)
    fixed = _fixed(problems, reading=reading)
    spare = None if limit is None else (limit // problems.runs - fixed) // problems.group - words
    scores = best_rectangle(_words(problems, reading=reading), (_room(problems, fast_words),), spare)
    if scores is None:
        return None
    kind = "gradient" if reading else "score"
    tiles = Tiles.of(
        **{f"{kind}_rows": scores.rows, f"{kind}_keys": scores.keys}, **product_sizes(_products(problems), products)
    )
    return MovingTiles(problems.runs * (fixed + problems.group * (words + scores.words)), tiles)


def floor_words(problems: Problems, fast_words: int, *, reading: bool = False) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    room = _room(problems, fast_words)
    if row_room(problems, room) < 1:
        return inf
    words = _words(problems, reading=reading).floor((room,))
    words += least_product_words(problems, fast_words, _products(problems))
    return problems.runs * (_fixed(problems, reading=reading) + problems.group * words)


def _products(problems: Problems) -> tuple[Product, ...]:
    return ("value", problems.value_dim), ("key", problems.d), ("query", problems.d)


def _fixed(problems: Problems, *, reading: bool) -> int:
    """Words of one run that no tile changes: D, probabilities and their gradients written once, all gradients."""
    scores = (2 if reading else 3) * problems.scores * problems.intermediate_words
    gradients = problems.keys * (problems.d + problems.value_dim)
    return delta_words(problems) + gradients + problems.group * (scores + problems.rows * problems.d)


def _words(problems: Problems, *, reading: bool) -> RectangleWords:
    """Words that the score tile decides: two products and two statistics of a row, or one and one."""
    width = problems.value_dim if reading else problems.d + problems.value_dim
    statistics = (1 if reading else 2) * problems.intermediate_words
    return RectangleWords(problems=problems, met=width, loads=width, kept=-statistics)


def _room(problems: Problems, fast_words: int) -> Room:
    w = problems.intermediate_words
    return Room(words=fast_words - 1 - w, per_score=w, per_row=1 + w)
