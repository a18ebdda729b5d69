"""Words that the products move, in closed form for the ordinary ones and by a recurrence for Strassen's.

Nothing here looks at the loop nests: prediction and execution are two witnesses.

>>> shape = Shape(rows=4096, keys=4096, depth=4096)
>>> best_tile(shape, 1024)
ProductTile(order=<Order.RESULT_STATIONARY: 'result-stationary'>, rows=31, keys=32)
>>> best_levels(shape, 1024), best_strassen_words(shape, 1024) < classical_words(shape, best_tile(shape, 1024))
(3, True)
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import assert_never

import numpy as np

from attenio.errors import DoesNotFit
from attenio.fast_products.shape import Shape

# One word of each of the seven sub-products, added up in place; an ordinary product makes do with three.
SMALLEST_FAST_WORDS = 7


class Order(Enum):
    """Which operand of an ordinary product stays in fast memory."""

    RESULT_STATIONARY = "result-stationary"  # a tile of scores; a column of Q and single words of K pass by
    ROW_STATIONARY = "row-stationary"  # whole rows of Q; rows of K pass by, a column of scores at a time


@dataclass(frozen=True, kw_only=True)
class ProductTile:
    """How an ordinary product is cut: ``keys`` is 1 when rows of Q stay."""

    order: Order
    rows: int
    keys: int


def peak_words(tile: ProductTile, depth: int) -> int:
    """Words of fast memory that an ordinary product takes."""
    match tile.order:
        case Order.RESULT_STATIONARY:
            return tile.rows * tile.keys + tile.rows + 1
        case Order.ROW_STATIONARY:
            return tile.rows * depth + depth + tile.rows
        case _:
            assert_never(tile.order)


def classical_words(shape: Shape, tile: ProductTile) -> int:
    """Words that an ordinary product moves, every score stored once."""
    m, n, d = shape.rows, shape.keys, shape.depth
    sweeps = -(-m // tile.rows)
    match tile.order:
        case Order.RESULT_STATIONARY:
            return m * d * -(-n // tile.keys) + n * d * sweeps + m * n
        case Order.ROW_STATIONARY:
            return m * d + n * d * sweeps + m * n
        case _:
            assert_never(tile.order)


@lru_cache(maxsize=4096)
def best_tile(shape: Shape, fast_words: int) -> ProductTile:
    """The tile and order with fewest words among all that fit."""
    if fast_words < 3:
        raise DoesNotFit(
            f"a 1 x 1 tile, its column and its row need 3 words of fast memory and there are {fast_words:,}; use more"
        )
    m, n, d = shape.rows, shape.keys, shape.depth
    heights = np.arange(1, min(m, (fast_words - 1) // 2) + 1, dtype=np.int64)
    widths = np.minimum((fast_words - 1 - heights) // heights, n)
    words = m * d * -(-n // widths) + n * d * -(-m // heights)
    at = int(words.argmin())
    tile = ProductTile(order=Order.RESULT_STATIONARY, rows=int(heights[at]), keys=int(widths[at]))
    if (rows := min(m, (fast_words - d) // (d + 1))) >= 1:
        held = ProductTile(order=Order.ROW_STATIONARY, rows=rows, keys=1)
        if classical_words(shape, held) < classical_words(shape, tile):
            return held
    return tile


def most_levels(shape: Shape) -> int:
    """How often every side of the larger halves can be cut in two."""
    levels = 0
    while shape.halves:
        shape, levels = shape.sub_products()[0], levels + 1
    return levels


def fitting_levels(shape: Shape, fast_words: int) -> int:
    """Steps after which the blocks of Q, of K and of the result fit fast memory together, the textbook's end."""
    levels = 0
    while shape.halves and shape.input_words + shape.scores > fast_words:
        shape, levels = shape.sub_products()[0], levels + 1
    return levels


@lru_cache(maxsize=65536)
def strassen_words(shape: Shape, fast_words: int, levels: int) -> int:
    """Words that ``levels`` steps of Strassen's method move, the sub-products below them by their best tile.

    One step reads Q and K once, writes four sums of blocks of each, reads the seven products and writes the scores.
    """
    if levels == 0 or not shape.halves:
        return classical_words(shape, best_tile(shape, fast_words))
    if fast_words < SMALLEST_FAST_WORDS:
        raise DoesNotFit(
            f"a step of Strassen's method needs {SMALLEST_FAST_WORDS} words of fast memory, not {fast_words:,};"
            " use an ordinary product"
        )
    products = shape.sub_products()
    m, n, k = products[0].rows, products[0].keys, products[0].depth
    below, right, deep = shape.rows - m, shape.keys - n, shape.depth - k
    query_sums = below * k + 2 * m * k + m * deep
    key_sums = 2 * n * k + right * k + n * deep
    combined = sum(product.scores for product in products) + shape.scores
    moved = shape.input_words + query_sums + key_sums + combined
    return moved + sum(strassen_words(product, fast_words, levels - 1) for product in products)


def best_levels(shape: Shape, fast_words: int) -> int:
    """The number of steps with fewest words; 0 where an ordinary product moves least."""
    if fast_words < SMALLEST_FAST_WORDS:
        return 0
    return min(range(most_levels(shape) + 1), key=lambda levels: strassen_words(shape, fast_words, levels))


def best_strassen_words(shape: Shape, fast_words: int) -> int:
    """Words with the best number of steps, at least one of them where the shape and the memory allow it."""
    least = min(1, most_levels(shape))
    return min(strassen_words(shape, fast_words, levels) for levels in range(least, most_levels(shape) + 1))
