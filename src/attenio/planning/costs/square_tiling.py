"""Square tiling: scores written tile by tile, read back for the product with V [SY alg. 1].

moved = (T(a,b) + U(a)) d + Z w + 2 n w + Z ceil(dv/c) w + U(a) dv + n dv
peak  = max(a'b'w + (a' + b')min(c, d) + a'w,  a'min(c, dv)w + a'b'w + b'min(c, dv) + 2a'w)
"""

from attenio.patterns.sums import ceil_div
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words", "written_scores_words"]

TILES = ("query_tile", "key_tile", "depth_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, every head by itself."""
    a, b, c = (tiles[name] for name in TILES)
    loads = problems.key_loads(a)
    products = (problems.tile_rows(a, b) + loads) * problems.d + loads * problems.value_dim
    return problems.group * problems.runs * int(products + written_scores_words(problems, c))


def written_scores_words(problems: Problems, columns: int) -> int:
    """Words of scores, row maxima and outputs of one head, when the scores are read once per tile of columns."""
    w, dv = problems.intermediate_words, problems.value_dim
    reads = int(ceil_div(dv, columns))
    return problems.scores * w * (1 + reads) + 2 * problems.rows * w + problems.rows * dv


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the larger phase of the largest problem."""
    a, b, c = (tiles[name] for name in TILES)
    w, depth, columns = problems.intermediate_words, min(c, problems.d), min(c, problems.value_dim)
    most = 0
    for rows, keys in problems.shapes:
        height, width = min(a, rows), min(b, keys)
        scores = height * width * w + (height + width) * depth + height * w
        outputs = height * columns * w + height * width * w + width * columns + 2 * height * w
        most = max(most, scores, outputs)
    return most
