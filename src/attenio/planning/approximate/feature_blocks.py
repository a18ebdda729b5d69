"""Feature blocks: coordinates in groups; the features made of one multiset of groups take turns, and so do columns.

With the constant 1 as one more coordinate, monomials of degree up to t in d variables are products of just t of d + 1.
Cut into G = ceil((d+1)/s) groups of s, each belongs to one of F = C(G + t - 1, t) multisets of t groups. A multiset
needs the coordinates of its groups, and C(G + t - 2, t - 1) multisets have a given group, so that over all of them
A = d C(G + t - 2, t - 1) coordinates of a row are read. With P = ceil((dv+1)/b) blocks of columns, per KV head:

moved = P m A + F m dv + g (P n A + 2 (F-1) n (dv+1) w + n dv + P n w if P > 1)
peak  = f b'w + k'(a + min(b', dv)) + a + b'w + (t+1) w + (w if P > 1)

where f and a are the most features and coordinates of a multiset. Sums of outputs are stored and loaded again between
multisets.
"""

from functools import cache
from itertools import combinations_with_replacement
from math import comb

from attenio.planning.approximate.value_columns import columns, swept_state_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems

TILES = ("degree", "coordinate_group", "value_columns", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    groups = -(-(problems.d + 1) // tiles["coordinate_group"])
    blocks = -(-columns(problems) // tiles["value_columns"])
    return visiting_words(problems, tiles["degree"], groups, blocks)


def visiting_words(problems: Problems, degree: int, groups: int, blocks: int) -> int:
    """Words when so many groups of coordinates and blocks of columns take turns."""
    counts = problems.counts
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    multisets, read = comb(groups + degree - 1, degree), d * comb(groups + degree - 2, degree - 1)
    sums = 2 * (multisets - 1) * columns(problems) * w + (blocks * w if blocks > 1 else 0)
    keys = counts.touched_keys * (blocks * read + multisets * dv)
    rows = counts.touched_rows * (blocks * read + sums) + counts.rows * dv
    return problems.runs * (keys + problems.group * rows)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once."""
    block = min(tiles["value_columns"], columns(problems))
    divided = problems.intermediate_words if block < columns(problems) else 0
    features, coordinates = largest_block(problems.d, tiles["degree"], tiles["coordinate_group"])
    return swept_state_words(problems, tiles, features, (coordinates, block)) + divided


@cache
def largest_block(d: int, degree: int, group: int) -> tuple[int, int]:
    """The most features of a multiset of groups, and the most coordinates that one needs.

    Groups are alike but for the first, which has the constant and so a coordinate fewer to read, and a last one that
    may be smaller. So it is enough to look at multisets of the first, the last, and as many others as are drawn.

    >>> largest_block(4, 2, 2)
    (4, 3)
    """
    size = min(group, d + 1)
    groups = -(-(d + 1) // size)
    last = d + 1 - (groups - 1) * size
    sizes = [size, *[size] * min(degree, max(0, groups - 2)), *([last] if groups > 1 else [])]
    most_features = most_coordinates = 0
    for chosen in combinations_with_replacement(range(len(sizes)), degree):
        features, coordinates = 1, 0
        for one in set(chosen):
            features *= comb(sizes[one] + chosen.count(one) - 1, chosen.count(one))
            coordinates += sizes[one] - (one == 0)
        most_features, most_coordinates = max(most_features, features), max(most_coordinates, coordinates)
    return most_features, most_coordinates


def best_tiles(problems: Problems, fast_words: int, degree: int, key_tile: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits.

    Words depend on how many groups and blocks there are, and the room on how large they are; so of the groups of equal
    number the smallest is enough, and of the blocks beside it the largest that fits.
    """
    best: MovingTiles | None = None
    size = problems.d + 1
    while size >= 1:
        groups = -(-(problems.d + 1) // size)
        group = -(-(problems.d + 1) // groups)
        block = _columns_beside(
            problems, fast_words, Tiles.of(degree=degree, coordinate_group=group, key_tile=key_tile)
        )
        if block is not None:
            blocks = -(-columns(problems) // block)
            words = visiting_words(problems, degree, groups, blocks)
            if best is None or words < best.moved_words:
                even = -(-columns(problems) // blocks)
                names = {"degree": degree, "coordinate_group": group, "value_columns": even, "key_tile": key_tile}
                best = MovingTiles(words, Tiles.of(**names))
        size = group - 1
    return best


def _columns_beside(problems: Problems, fast_words: int, tiles: Tiles) -> int | None:
    """The most columns that fit beside the features of groups of this size."""

    def fits(block: int) -> bool:
        return peak_words(problems, Tiles((*tiles.sizes, ("value_columns", block)))) <= fast_words

    low, high = 0, columns(problems) + 1  # low fits, high does not: the room needed grows with the block
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low or None
