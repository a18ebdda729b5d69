"""Best tiles of AttenIO: as many query rows as pay, one key at least, then as many keys as still fit."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room, key_room, row_room
from attenio.planning.search.row_tiles import RowWords, best_row_tile, even_tile

__all__ = ["best_tiles", "floor_words", "row_words", "some_words", "tile_room"]


def best_tiles(problems: Problems, fast_words: int, limit: int | None = None) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    return query_stationary_tiles(problems, tile_room(problems, fast_words))


def query_stationary_tiles(problems: Problems, room: Room) -> MovingTiles | None:
    """The fewest words with the smallest query tile, then the largest key tile that fits beside it."""
    most = row_room(problems, room)
    if most < 1:
        return None
    words, query_tile = best_row_tile(row_words(problems), most)
    moved = problems.group * problems.runs * (words + problems.rows * problems.value_dim)
    return MovingTiles(moved, Tiles.of(query_tile=query_tile, key_tile=key_room(problems, (room,), query_tile)))


def some_words(problems: Problems, fast_words: int) -> int | None:
    """Words of one good tile, quickly; None if none fits."""
    most = row_room(problems, tile_room(problems, fast_words))
    if most < 1:
        return None
    words = row_words(problems).words(even_tile(problems.most_rows, most, problems.granularity.rows))
    return problems.group * problems.runs * (words + problems.rows * problems.value_dim)


def row_words(problems: Problems, *, heads: int = 1, head_tiles: int = 1) -> RowWords:
    """Words that the query tile decides."""
    return RowWords(problems=problems, live=heads * problems.d, loads=head_tiles * problems.key_words)


def tile_room(problems: Problems, fast_words: int, *, heads: int = 1, per_key: int | None = None) -> Room:
    """Room for a tile of ``heads`` rows a position: queries, outputs, three statistics, scores, and keys."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    buffer = max(d, dv) if per_key is None else per_key
    return Room(words=fast_words, per_score=heads * w, per_row=heads * (d + (dv + 3) * w), per_key=buffer)


def floor_words(problems: Problems, fast_words: int) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    most = row_room(problems, tile_room(problems, fast_words))
    if most < 1:
        return float("inf")
    own = problems.rows * problems.value_dim
    return problems.group * problems.runs * (own + row_words(problems).floor(most))
