"""Few words: in a handful of words of fast memory products that follow each other have little in common."""

from fractions import Fraction

import numpy as np

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, any_of, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.workload import Workload

# For every fast memory, the most products for a word: no game of lines and triangles sees more.
PRODUCTS_FOR_A_WORD = {
    3: Fraction(1, 2),
    4: Fraction(2, 3),
    5: Fraction(3, 4),
    6: Fraction(9, 10),
    7: Fraction(1),
    8: Fraction(1),
}
LARGEST_FAST_WORDS = max(PRODUCTS_FOR_A_WORD)
# By the words of fast memory; up to two of them a product takes all words that there are.
_WORDS_FOR_A_PRODUCT = np.array([float(1 / PRODUCTS_FOR_A_WORD[max(3, words)]) for words in range(9)])


def few_word_words(scores: Floats, rows: Floats, d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory."""
    few = (fast_words <= LARGEST_FAST_WORDS) & (d >= fast_words + 3.0)
    if not any_of(few):
        return where(few, 0.0, 0.0)
    each: Floats
    if type(few) is bool:
        each = float(_WORDS_FOR_A_PRODUCT[int(fast_words)])
    else:
        each = _WORDS_FOR_A_PRODUCT[np.where(few, fast_words, 3.0).astype(np.int64)]
    words = whole_words(scores * (d + value_dim) * each, 3.0 * scores + rows * value_dim)
    return where(few, words, 0.0)


def few_words(workload: Workload, fast_words: int) -> tuple[LowerBound, ...]:
    """The floor under every forward pass in up to eight words of one fast memory; nothing for larger ones.

    Theorem: words >= Z (d+dv)/r - 3 Z - R dv for R rows and d >= M + 3, with r = 1/2, 2/3, 3/4, 9/10 and 1 products
    for a word in 3, 4, 5, 6 and 7 or 8 words.
    Assumes: as fused epochs.
    Regime: up to eight words.
    Proof: docs/theory/few_words.md

    >>> [bound.words for words in (3, 4, 8, 9) for bound in few_words(Workload(n=1024, d=64), words)]
    [265224192, 198115328, 131006464]
    """
    if fast_words > LARGEST_FAST_WORDS:
        return ()
    rows, d, value_dim = float(workload.touched_rows), float(workload.d), float(workload.value_dim)
    bound = LowerBound(
        theorem="few-words",
        words=int(few_word_words(float(workload.scores), rows, d, value_dim, float(fast_words))),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="up to eight words: products that follow each other have few words in common",
        assumptions=(
            "each score is a sum of d products of its own, and a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/few_words.md",
    )
    return (bound,)
