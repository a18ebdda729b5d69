"""Best tiles of square tiling: both phases share rows and keys, and the depth tile takes room from them.

Depth only decides how often the scores are read again; for each number of reads the least depth leaves the most room.
"""

from attenio.planning.costs.square_tiling import moved_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.columns import column_tiles
from attenio.planning.search.floors import RectangleWords
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, row_room

__all__ = ["best_tiles"]


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, the fewest rows and then the least depth among equals; None if none fits."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    form = RectangleWords(problems=problems, met=d, loads=d + dv)
    choices = []
    for reads, depth in column_tiles(dv):
        rooms = _rooms(problems, fast_words, depth)
        if min(row_room(problems, room) for room in rooms) >= 1:
            fixed = reads * problems.scores * w
            choices.append((fixed + form.floor(rooms), fixed, depth))
    best: tuple[int, int, int, int] | None = None
    for floor, fixed, depth in sorted(choices):
        # the floor is in floating point: rounding must not rule out an equal
        if best is not None and floor * (1 - 1e-12) > best[0]:
            break
        tile = best_rectangle(form, _rooms(problems, fast_words, depth))
        assert tile is not None
        found = (fixed + tile.words, tile.rows, depth, tile.keys)
        best = found if best is None else min(best, found)
    if best is None:
        return None
    tiles = Tiles.of(query_tile=best[1], key_tile=best[3], depth_tile=best[2])
    return MovingTiles(moved_words(problems, tiles), tiles)


def _rooms(problems: Problems, fast_words: int, depth: int) -> tuple[Room, Room]:
    w, deep, wide = problems.intermediate_words, min(depth, problems.d), min(depth, problems.value_dim)
    return (
        Room(words=fast_words, per_score=w, per_row=deep + w, per_key=deep),
        Room(words=fast_words, per_score=w, per_row=wide * w + 2 * w, per_key=wide),
    )
