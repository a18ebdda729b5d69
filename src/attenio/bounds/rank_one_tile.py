"""The near-optimal schedule of an ordinary product: a square tile of the result, fed by one column and one row."""

from math import isqrt

from attenio.errors import DoesNotFit
from attenio.quantities import checked_count


def rank_one_tile(fast_words: int) -> int:
    """Side of the largest square tile with a² + a + 1 <= M that COSMA's rule gives: floor(sqrt(M + 1)) - 1.

    >>> rank_one_tile(10_000)
    99
    """
    checked_count("fast memory (words)", fast_words, most=2**60)
    if fast_words < 3:
        raise DoesNotFit(f"a 1 x 1 tile, its column and its row need 3 words and there are {fast_words:,}; use more")
    return isqrt(fast_words + 1) - 1


def rank_one_product_words(m: int, n: int, k: int, *, fast_words: int) -> int:
    """Exact words of the product with that tile: A once per tile column, B once per tile row, the result once.

    Theorem: an upper bound, mk ceil(n/a) + nk ceil(m/a) + mn, within a factor 1 + O(1/sqrt(M)) of 2mnk/sqrt(M) + mn.
    Assumes: the tile, a column of a words and one word of the row fit: a² + a + 1 <= M.
    Regime: any M of at least 3 words.
    Proof: docs/theory/rank_one_tile.md

    >>> rank_one_product_words(1000, 1000, 1000, fast_words=10_000)
    23000000
    """
    for name, value in (("m", m), ("n", n), ("k", k)):
        checked_count(name, value)
    tile = rank_one_tile(fast_words)
    return m * k * -(-n // tile) + n * k * -(-m // tile) + m * n
