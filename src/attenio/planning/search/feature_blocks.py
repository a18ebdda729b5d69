"""Best feature blocks: every number of coordinate groups, each with the largest block of columns that fits."""

from attenio.planning.costs.feature_blocks import peak_words, visiting_words
from attenio.planning.costs.value_columns import columns
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems


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
