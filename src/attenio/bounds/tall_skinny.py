"""The product of a tall and a wide matrix with a short inner side, as QKᵀ is (AttenIO, eq. 8-12)."""

from fractions import Fraction
from math import ceil

from attenio.errors import DoesNotFit
from attenio.quantities import checked_count, show_words


def tall_skinny_product_words(m: int, n: int, k: int, *, fast_words: int) -> int:
    """Least words over schedules that hold a x k of A, b rows of length k of Bᵀ and an a x b tile of the result.

    Theorem: the best real tile is b = 1, a = (M - k)/(k + 1), moving mk + mnk(k + 1)/(M - k) + mn words; whole tiles
    move at least that. When a reaches m, A stays: mk + nk + mn.
    Assumes: the family of AttenIO: ak + bk + ab <= M, a tile of A is kept while all of B passes, and each pass loads
    all of B (one that turns round and keeps the last column of the pass before is not in the family).
    Regime: k < M < mk. It is an optimum of that family, not a bound for every schedule.
    Proof: docs/theory/tall_skinny.md

    >>> tall_skinny_product_words(4096, 4096, 64, fast_words=65_536)
    18105362
    """
    for name, value in (("m", m), ("n", n), ("k", k)):
        checked_count(name, value)
    checked_count("fast memory (words)", fast_words, most=2**60)
    if fast_words < 2 * k + 1:
        raise DoesNotFit(
            f"one row of each matrix and their product need {show_words(2 * k + 1)} of fast memory, not {fast_words:,};"
            " use a smaller inner side or a larger memory"
        )
    rows = min(Fraction(m), Fraction(fast_words - k, k + 1))
    words = m * k + Fraction(m * n * k) / rows + m * n
    return ceil(words)
