"""Best tiles of the key-stationary gradient: keys take the part of rows, as in FlashAttention-1."""

from math import inf

from attenio.planning.costs.backward.key_stationary import (
    fixed_words,
    passing_words,
    stationary_words,
    visit_words,
)
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile

__all__ = ["best_tiles", "floor_words", "least_visits"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """The fewest words with the smallest key tile, then the largest query tile that fits beside it."""
    room, across = _room(problems, fast_words), problems.transposed
    most = row_room(across, room)
    if most < 1:
        return None
    visits = RowWords(problems=across, live=0, loads=problems.group * visit_words(problems))
    words, key_tile = best_row_tile(visits, most)
    tiles = Tiles.of(query_tile=key_room(across, (room,), key_tile), key_tile=key_tile)
    return MovingTiles(problems.runs * (fixed_words(problems) + words), tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    most = row_room(problems.transposed, _room(problems, fast_words))
    if most < 1:
        return inf
    visits = problems.group * visit_words(problems) * least_visits(problems, most)
    return problems.runs * (fixed_words(problems) + visits)


def least_visits(problems: Problems, key_tile: int) -> int:
    """A number that row_visits does not go below: a tile visits a row for at most as many scores as it has keys."""
    return max(-(-problems.scores // key_tile), problems.transposed.least_key_loads(key_tile))


def _room(problems: Problems, fast_words: int) -> Room:
    per_row, per_key = stationary_words(problems), passing_words(problems)
    return Room(words=fast_words - 1, per_score=problems.intermediate_words, per_row=per_row, per_key=per_key)
