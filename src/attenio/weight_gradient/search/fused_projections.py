"""Best tiles of the pass that makes its projections: as the fused one, but for weights that are read only."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs import fused_projections
from attenio.weight_gradient.search.fused import query_tile, sweep_room
from attenio.weight_gradient.search.products import best_update


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    room, update = sweep_room(problems, fast_words), best_update(problems, fast_words)
    if room.most_rows() < 1 or update is None:
        return None
    a = query_tile(problems, room.most_rows(), per_tile=2 * problems.d**2)
    tiles = Tiles.of(
        query_tile=a,
        key_tile=min(problems.most_keys, room.most_keys(a)),
        weight_rows=update.rows,
        weight_columns=update.columns,
    )
    return MovingTiles(fused_projections.moved_words(problems, tiles), tiles)
