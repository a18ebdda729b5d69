"""Best tiles of the fused pass: words depend on the query tile alone, through keys read and the number of tiles.

Both are concave in the tile between two kinks (the number of tiles is constant there), so ends of pieces are enough.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room
from attenio.planning.search.row_tiles import RowWords, even_tile, piece_ends
from attenio.weight_gradient.costs import fused

_AT_ONCE = 2**16
_LARGEST_INT64_SUM = 2**62


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits."""
    room = sweep_room(problems, fast_words)
    if room.most_rows() < 1:
        return None
    a = query_tile(problems, room.most_rows(), per_tile=weight_words(problems))
    tiles = Tiles.of(query_tile=a, key_tile=min(problems.most_keys, room.most_keys(a)))
    return MovingTiles(fused.moved_words(problems, tiles), tiles)


def sweep_room(problems: Problems, fast_words: int, *, kept: int = 0) -> Room:
    """Room for rows with two projections, three sums and four statistics, and ``kept`` words of their inputs."""
    d, w = problems.d, problems.intermediate_words
    return Room(words=fast_words, per_score=w, per_row=5 * d * w + 4 * w + kept, per_key=2 * d)


def query_tile(problems: Problems, most: int, *, per_tile: int) -> int:
    """The smallest tile up to ``most`` with the fewest words, ``per_tile`` of them for every tile."""
    most = min(most, problems.most_rows)
    even = even_tile(problems.most_rows, most)
    if problems.is_dense:
        return even
    best = min((_words(problems, tile, per_tile), tile) for tile in (even, most))
    keys = RowWords(problems=problems, live=0, loads=2 * problems.d)
    # Tiles below this one read too many keys even if weights cost no more than with the fewest tiles.
    spare = best[0] - per_tile * -(-problems.rows // most)
    least = keys.least_tile(spare)
    kinks = problems.kinks
    assert kinks is not None
    ends = piece_ends(kinks, least, most)
    tried = np.arange(least, most + 1) if ends is None else np.asarray(ends, dtype=np.int64)
    for start in range(0, len(tried), _AT_ONCE):
        best = min(best, _best_of(problems, tried[start : start + _AT_ONCE], per_tile))
    return best[1]


def _best_of(problems: Problems, tiles: NDArray[np.int64], per_tile: int) -> tuple[int, int]:
    most = 2 * problems.d * problems.area + per_tile * problems.rows
    exact = np.int64 if most < _LARGEST_INT64_SUM else object
    words = 2 * problems.d * problems.key_loads(tiles).astype(exact)
    words = words + per_tile * (-(-problems.rows // tiles)).astype(exact)
    fewest = words.min()
    return int(fewest), int(tiles[words == fewest].min())


def _words(problems: Problems, tile: int, per_tile: int) -> int:
    return int(2 * problems.d * problems.key_loads(tile) + per_tile * -(-problems.rows // tile))


def weight_words(problems: Problems) -> int:
    """Weights read, and partial gradients of them read and written, for every tile."""
    return problems.d**2 * (2 + 4 * problems.intermediate_words)
