"""Best tiles of the fused pass with resident rows: the same words, less room."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs import resident_rows
from attenio.weight_gradient.search.fused import query_tile, sweep_room, weight_words


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    room = sweep_room(problems, fast_words, kept=2 * problems.d)
    if room.most_rows() < 1:
        return None
    a = query_tile(problems, room.most_rows(), per_tile=weight_words(problems))
    tiles = Tiles.of(query_tile=a, key_tile=min(problems.most_keys, room.most_keys(a)))
    return MovingTiles(resident_rows.moved_words(problems, tiles), tiles)
