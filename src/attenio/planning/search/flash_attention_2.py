"""Best tiles of FlashAttention-2: as AttenIO, with room for a key and a value together."""

from attenio.planning.plan import MovingTiles
from attenio.planning.problems import Problems
from attenio.planning.search.attenio import query_stationary_tiles, tile_room

__all__ = ["best_tiles"]


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    room = tile_room(problems, fast_words, per_key=problems.key_words)
    return query_stationary_tiles(problems, room)
