"""Every number of tiles that a width, or the heads of a group, can be cut into."""

from functools import lru_cache


@lru_cache(maxsize=1024)
def column_tiles(width: int) -> tuple[tuple[int, int], ...]:
    """Every number of column tiles that a width can be cut into, ascending, with the narrowest tile that does it."""
    tiles = []
    columns = width
    while columns >= 1:
        count = -(-width // columns)
        columns = -(-width // count)
        tiles.append((count, columns))
        columns -= 1
    return tuple(tiles)


@lru_cache(maxsize=1024)
def head_tiles(group: int, unit: int) -> tuple[tuple[int, int], ...]:
    """Every number of tiles that the heads of a group can be cut into, with the heads of a tile that may be best.

    The fewest leave the most room for positions. Where rows are multiples of a unit, heads that have more in common
    with it may leave more sizes to positions.
    """
    if unit == 1:
        return column_tiles(group)
    shared = [size for size in range(1, unit + 1) if unit % size == 0]
    options = {(count, -(-heads // size) * size) for count, heads in column_tiles(group) for size in shared}
    return tuple(sorted((count, heads) for count, heads in options if heads <= group and -(-group // heads) == count))
