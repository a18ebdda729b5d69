"""Few words: in three or four words of fast memory two products in a row have little in common."""

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, larger, rounded_down, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.workload import Workload

LARGEST_FAST_WORDS = 4


def most_triangles(arrivals: Floats, fast_words: Floats) -> Floats:
    """The most products that an epoch with so many arrivals does, in three words or in four.

    >>> [most_triangles(float(arrivals), 3.0) for arrivals in range(6)]
    [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    >>> [most_triangles(float(arrivals), 4.0) for arrivals in range(6)]
    [1.0, 2.0, 3.0, 3.0, 4.0, 5.0]
    """
    thirds = rounded_down(arrivals / 3.0)
    return 1.0 + where(fast_words <= 3.0, rounded_down(arrivals / 2.0), arrivals - thirds)


def few_word_words(scores: Floats, rows: Floats, d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory."""
    # The longest epoch into which no two rows flow, of those in which the last arrival would do nothing more.
    arrivals = where(fast_words <= 3.0, 2.0 * d - 5.0, 3.0 * rounded_down((2.0 * d - 5.0) / 3.0))
    length = larger(arrivals - 2.0, 0.0)
    leading = length * (scores * (d + value_dim) / most_triangles(larger(arrivals, 0.0), fast_words))
    words = whole_words(leading, 2.0 * scores + rows * value_dim + length)
    return where(fast_words <= LARGEST_FAST_WORDS, words, 0.0)


def few_words(workload: Workload, fast_words: int) -> tuple[LowerBound, ...]:
    """The floor under every forward pass in up to four words of one fast memory; nothing for larger ones.

    Theorem: words >= T Z (d+dv)/F(T+2) - 2 Z - R dv - T for T <= 2d - M - 3 and R rows, where an epoch with D arrivals
    does F(D) = 1 + D/2 products in three words and 1 + 2D/3 in four: about 2 Z (d+dv) and 1.5 Z (d+dv).
    Assumes: as fused epochs.
    Regime: three and four words.
    Proof: docs/theory/few_words.md

    >>> [bound.words for words in (3, 4, 5) for bound in few_words(Workload(n=1024, d=64), words)]
    [259778241, 193504000]
    """
    if fast_words > LARGEST_FAST_WORDS:
        return ()
    rows, d, value_dim = float(workload.touched_rows), float(workload.d), float(workload.value_dim)
    bound = LowerBound(
        theorem="few-words",
        words=int(few_word_words(float(workload.scores), rows, d, value_dim, float(fast_words))),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="three or four words: two products in a row have a word in common at most",
        assumptions=(
            "each score is a sum of d products of its own, and a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/few_words.md",
    )
    return (bound,)
