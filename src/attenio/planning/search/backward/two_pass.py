"""Best tiles of the two-pass gradient: its passes are searched by themselves, each with all of the fast memory."""

from collections.abc import Callable
from math import inf

from attenio.planning.costs.backward.key_stationary import passing_words, stationary_words
from attenio.planning.costs.backward.two_pass import fixed_words, own_words, visit_words, visiting_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.backward.key_stationary import least_visits
from attenio.planning.search.columns import head_tiles
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.planning.search.stacked_groups import best_head_tile

__all__ = ["best_tiles", "floor_words"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits.

    In the first pass the fewest rows among equals, then the fewest heads; in the second the fewest keys that stay.
    Whatever passes gets the room that is left.
    """
    second, across = _key_room(problems, fast_words), problems.transposed
    most = row_room(across, second)
    if most < 1:
        return None
    first = best_head_tile(problems, _query_rooms(problems, fast_words), lambda tiles: _rows(problems, tiles))
    if first is None:
        return None
    words, heads, query_tile = first
    visits, stationary = best_row_tile(_visits(problems), most)
    tiles = Tiles.of(
        query_tile=query_tile,
        head_tile=heads,
        key_tile=key_room(problems, (_query_rooms(problems, fast_words)(heads),), query_tile),
        stationary_keys=stationary,
        passing_queries=key_room(across, (second,), stationary),
    )
    return MovingTiles(problems.runs * (fixed_words(problems) + words + visits), tiles)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    most = row_room(problems.transposed, _key_room(problems, fast_words))
    floors = [_rows(problems, count).floor(rows) for count, rows in _options(problems, fast_words)]
    if most < 1 or not floors:
        return inf
    visits = problems.group * visit_words(problems) * least_visits(problems, most)
    return problems.runs * (fixed_words(problems) + min(floors) + visits)


def _options(problems: Problems, fast_words: int) -> list[tuple[int, int]]:
    """Every number of head tiles for which one position fits, and the most positions."""
    room_for = _query_rooms(problems, fast_words)
    counts = [
        (count, row_room(problems, room_for(heads), heads))
        for count, heads in head_tiles(problems.group, problems.granularity.rows)
    ]
    return [(count, rows) for count, rows in counts if rows >= 1]


def _rows(problems: Problems, head_tiles: int) -> RowWords:
    """Words that the query tile of the first pass decides."""
    live, loads = problems.group * own_words(problems), head_tiles * (problems.d + problems.value_dim)
    return RowWords(problems=problems, live=live, loads=loads)


def _visits(problems: Problems) -> RowWords:
    """Words that the keys which stay in the second pass decide."""
    return RowWords(problems=problems.transposed, live=0, loads=problems.group * visit_words(problems))


def _query_rooms(problems: Problems, fast_words: int) -> Callable[[int], Room]:
    row, w, key = passing_words(problems), problems.intermediate_words, problems.d + problems.value_dim
    return lambda heads: Room(words=fast_words - 1, per_score=heads * w, per_row=heads * row, per_key=key)


def _key_room(problems: Problems, fast_words: int) -> Room:
    per_row, per_key = stationary_words(problems), visiting_words(problems)
    return Room(words=fast_words, per_score=problems.intermediate_words, per_row=per_row, per_key=per_key)
