"""Best tiles of FlashAttention-1: keys take the part of rows, so the search runs over the transposed patterns."""

from attenio.planning.costs.flash_attention_1 import fixed_words, visit_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """The fewest words with the smallest key tile, then the largest query tile that fits beside it."""
    room, across = _room(problems, fast_words), problems.transposed
    most = row_room(across, room)
    if most < 1:
        return None
    words, key_tile = best_row_tile(_visits(problems), most)
    tiles = Tiles.of(query_tile=key_room(across, (room,), key_tile), key_tile=key_tile)
    return MovingTiles(problems.runs * (fixed_words(problems) + words), tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    most = row_room(problems.transposed, _room(problems, fast_words))
    if most < 1:
        return float("inf")
    # A key tile visits a row for at most as many scores as it has keys.
    visits = max(problems.touched_rows, -(-problems.scores // most))
    return problems.runs * (fixed_words(problems) + problems.group * visit_words(problems) * visits)


def _visits(problems: Problems) -> RowWords:
    return RowWords(problems=problems.transposed, live=0, loads=problems.group * visit_words(problems))


def _room(problems: Problems, fast_words: int) -> Room:
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    return Room(words=fast_words, per_score=w, per_row=problems.key_words, per_key=d + (dv + 3) * w)
