"""Value columns: blocks of columns of [1, V] take turns, each with all features of its state in fast memory.

With c = dv + 1 columns in blocks of b, r = C(d + t, t) features of degree t, and P = ceil(c/b) sweeps, per KV head:

moved = P m d + m dv + g (P n d + n dv + P n w if P > 1)
peak  = r b'w + k'(d + min(b', dv)) + d + b'w + (t+1) w + (w if P > 1)

The sums that outputs are divided by come from the first sweep; the others read them. Rows that need no key are not
read, and their outputs are zeros. A tile of k keys is added to the state at once, which costs no word and keeps
rounding small.
"""

from math import comb

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems

TILES = ("degree", "value_columns", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    return swept_words(problems, -(-columns(problems) // tiles["value_columns"]))


def swept_words(problems: Problems, sweeps: int) -> int:
    """Words of this many sweeps over keys and queries."""
    counts = problems.counts
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    sums = sweeps * counts.touched_rows * w if sweeps > 1 else 0
    keys = counts.touched_keys * (sweeps * d + dv)
    rows = sweeps * counts.touched_rows * d + counts.rows * dv + sums
    return problems.runs * (keys + problems.group * rows)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once."""
    block = min(tiles["value_columns"], columns(problems))
    divided = problems.intermediate_words if block < columns(problems) else 0
    features = feature_count(problems.d, tiles["degree"])
    return swept_state_words(problems, tiles, features, (problems.d, block)) + divided


def swept_state_words(problems: Problems, tiles: Tiles, features: int, widths: tuple[int, int]) -> int:
    """Words for the state of a block of columns, a tile of keys, a row of queries, one of outputs, and products.

    ``widths`` are the coordinates of a row and the columns of the block.
    """
    w, (depth, block) = problems.intermediate_words, widths
    keys = min(tiles["key_tile"], problems.counts.most_keys) * (depth + min(block, problems.value_dim))
    return features * block * w + keys + depth + block * w + (tiles["degree"] + 1) * w


def columns(problems: Problems) -> int:
    """Columns of [1, V]."""
    return problems.value_dim + 1


def feature_count(d: int, degree: int) -> int:
    """Monomials of degree up to ``degree`` in d variables."""
    return comb(d + degree, degree)


def best_tiles(problems: Problems, fast_words: int, degree: int, key_tile: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits.

    Words grow with the sweeps, and the room needed with the block: the largest block that fits has the fewest sweeps.
    """
    sweeps, block = 1, columns(problems)
    tiles = Tiles.of(degree=degree, value_columns=block, key_tile=key_tile)
    while peak_words(problems, tiles) > fast_words:
        if block == 1:
            return None
        sweeps = -(-columns(problems) // (block - 1))
        block = -(-columns(problems) // sweeps)
        tiles = Tiles.of(degree=degree, value_columns=block, key_tile=key_tile)
    return MovingTiles(swept_words(problems, sweeps), tiles)
