"""Whole epochs: the words of an output-epochs bound and one fast memory more, as epochs come in whole numbers."""

from math import ceil, sqrt

import numpy as np

from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.bounds.output_epochs import output_products_per_epoch
from attenio.workload import Workload

# Budgets are roots in floating point: this much less is on the safe side.
_SAFETY = 1.0 - 1e-12


def budget_for(products: float, d: int, value_dim: int) -> float:
    """The words that an epoch needs for so many products p·v: the inverse of ``output_products_per_epoch``."""
    width = min(d, value_dim)
    fresh = 2.0 * (d + width) * sqrt(products / width)
    if products <= value_dim**3:
        return float(min(fresh, 3.0 * products ** (2 / 3)))
    return min(fresh, (sqrt(products / value_dim) + value_dim) ** 2 - value_dim**2)


def words_of(epochs: int, products: int, widths: tuple[int, int], fast_words: int) -> int:
    """M + k T for k epochs and the largest whole T with which k of them do not do all products."""
    length = ceil(budget_for(products / epochs, *widths) * _SAFETY) - 1 - fast_words
    return fast_words + epochs * length if length >= 1 else 0


def whole_epochs(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every fused schedule on one fast memory, with a second term.

    Theorem: words >= M + k T for all whole k and T with k W(M + T) < Z dv, W being that of output-epochs. For equal
    widths and M >= 4d² that is about 4 Z d²/M + M.
    Assumes: as output-epochs; one fast memory, which is empty at the beginning.
    Regime: adds to output-epochs where fast memory is within a factor of ten of the inputs.
    Proof: docs/theory/whole_epochs.md

    >>> whole_epochs(Workload(n=4096, d=64), 4096 * 64).words / (4096 * 64)
    4.99998...
    """
    d, value_dim = workload.d, workload.value_dim
    products = workload.scores * value_dim
    tried = {1, 2, 3}
    for share in (1.5, 2.0, 2.5, 3.0):
        each = float(output_products_per_epoch(np.float64(share * fast_words), float(d), float(value_dim)))
        tried |= {int(products / each) + more for more in (-1, 0, 1, 2)}
    words = max(words_of(count, products, (d, value_dim), fast_words) for count in tried if count >= 1)
    return LowerBound(
        theorem="whole-epochs",
        words=words,
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="M + k T, for the best whole number k of epochs",
        citation="derived here, docs/theory/whole_epochs.md",
        assumptions=(
            "each score is a sum of d products of its own",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/whole_epochs.md",
    )
