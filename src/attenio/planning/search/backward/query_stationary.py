"""Best tiles of the query-stationary gradient: as many rows as pay, then as many keys as still fit."""

from math import inf

from attenio.planning.costs.backward.key_stationary import passing_words, stationary_words
from attenio.planning.costs.backward.query_stationary import fixed_words, load_words, own_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """The fewest words with the smallest query tile, then the largest key tile that fits beside it."""
    room = _room(problems, fast_words)
    most = row_room(problems, room)
    if most < 1:
        return None
    words, query_tile = best_row_tile(_words(problems), most)
    tiles = Tiles.of(query_tile=query_tile, key_tile=key_room(problems, (room,), query_tile))
    return MovingTiles(problems.runs * (fixed_words(problems) + problems.group * words), tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    most = row_room(problems, _room(problems, fast_words))
    if most < 1:
        return inf
    return problems.runs * (fixed_words(problems) + problems.group * _words(problems).floor(most))


def _words(problems: Problems) -> RowWords:
    return RowWords(problems=problems, live=own_words(problems), loads=load_words(problems))


def _room(problems: Problems, fast_words: int) -> Room:
    per_row, per_key = passing_words(problems), stationary_words(problems)
    return Room(words=fast_words - 1, per_score=problems.intermediate_words, per_row=per_row, per_key=per_key)
