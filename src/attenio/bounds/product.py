"""The ordinary product of two matrices (Smith, Lowery, Langou and van de Geijn)."""

from attenio.bounds.epochs import product_epochs
from attenio.quantities import checked_count


def product_words(m: int, n: int, k: int, *, fast_words: int) -> int:
    """Words that an m x k by k x n product moves at least, whatever the order of its mnk products.

    Theorem: words >= 2mnk/sqrt(M) - M. (The published form subtracts 2M.)
    Assumes: each entry is a sum of k products, stored at the end; recomputation is allowed.
    Regime: useful while mnk is large against M^(3/2); for M well above k² the mn stores alone are more.
    Proof: docs/theory/product.md

    >>> product_words(1000, 1000, 1000, fast_words=10_000)
    19990000
    """
    for name, value in (("m", m), ("n", n), ("k", k)):
        checked_count(name, value)
    checked_count("fast memory (words)", fast_words, most=2**60)
    return int(product_epochs(float(m) * n * k, float(fast_words)))
