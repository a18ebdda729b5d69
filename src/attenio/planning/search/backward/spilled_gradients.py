"""Best tiles of spilled gradients: the key pass and the products after it are searched by themselves, in both forms."""

from math import inf

from attenio.planning.costs.backward.spilled_gradients import fixed_words, resident_key_words
from attenio.planning.costs.backward.two_pass import visit_words, visiting_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.backward.key_stationary import least_visits
from attenio.planning.search.backward.products import Product, least_product_words, product_sizes, product_tiles
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """The form with the fewest words, with the fewest resident keys, then the most rows that fit beside them.

    None if none fits, and perhaps if none stays within ``limit``.
    """
    best = _best_tiles(problems, fast_words, limit, lean=False)
    lean = _best_tiles(problems, fast_words, limit if best is None else best.moved_words - 1, lean=True)
    return lean if lean is not None and (best is None or lean.moved_words < best.moved_words) else best


def _best_tiles(problems: Problems, fast_words: int, limit: int | None, *, lean: bool) -> MovingTiles | None:
    room, across = _room(problems, fast_words, lean=lean), problems.transposed
    most = row_room(across, room)
    products = _products(problems, lean=lean)
    found = product_tiles(problems, fast_words, products)
    if most < 1 or found is None:
        return None
    own = fixed_words(problems) + problems.group * sum(product.words for product in found)
    visits = RowWords(problems=across, live=0, loads=problems.group * visit_words(problems))
    if limit is not None and problems.runs * (own + visits.floor(most)) > limit:
        return None
    words, key_tile = best_row_tile(visits, most)
    tiles = Tiles.of(
        query_tile=key_room(across, (room,), key_tile), key_tile=key_tile, **product_sizes(products, found)
    )
    return MovingTiles(problems.runs * (own + words), tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    return min(_floor_words(problems, fast_words, lean=lean) for lean in (False, True))


def _floor_words(problems: Problems, fast_words: int, *, lean: bool) -> float:
    most = row_room(problems.transposed, _room(problems, fast_words, lean=lean))
    if most < 1:
        return inf
    words = visit_words(problems) * least_visits(problems, most)
    products = least_product_words(problems, fast_words, _products(problems, lean=lean))
    return problems.runs * (fixed_words(problems) + problems.group * (words + products))


def _products(problems: Problems, *, lean: bool) -> tuple[Product, ...]:
    return (("key", problems.d), ("query", problems.d)) if lean else (("query", problems.d),)


def _room(problems: Problems, fast_words: int, *, lean: bool) -> Room:
    per_row, per_key = resident_key_words(problems, lean=lean), visiting_words(problems)
    return Room(words=fast_words - 1, per_score=problems.intermediate_words, per_row=per_row, per_key=per_key)
