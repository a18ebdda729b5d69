"""Row sums: a row that takes up values holds the sum of its probabilities too, a word beside query and output."""

from attenio.bounds.floats import Floats, larger, root, smaller, where
from attenio.bounds.lower_bound import OWN_ROW_SUMS, LowerBound, Strength
from attenio.bounds.output_epochs import products_from_held_scores
from attenio.bounds.whole_epochs import best_whole_epochs
from attenio.workload import Workload

# Both sides of a comparison are roots and products in floating point: this much less is on the safe side.
_SAFETY = 1.0 - 1e-12


def weights(d: Floats, value_dim: Floats) -> tuple[Floats, Floats]:
    """What a product p·v and what a term of a row's sum weigh, next to words of a row times words of a key."""
    both = d + smaller(d, value_dim)
    return both * both / smaller(d, value_dim), both


def work_per_epoch(budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The most that the products and the terms of sums of an epoch with this many words weigh."""
    product, term = weights(d, value_dim)
    return larger(budget * budget / 4.0, product * products_from_held_scores(budget, value_dim) + term * budget)


def row_sum_words(scores: Floats, rows: Floats, d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory."""
    product, term = weights(d, value_dim)
    work = scores * value_dim * product + (scores - rows) * term

    def budget(part: Floats) -> Floats:
        """Words that an epoch needs for so much of fresh pairs; none where it does as much with held ones."""
        words = 2.0 * root(part)
        held = product * products_from_held_scores(words, value_dim) + term * words
        return where(held <= part * _SAFETY, words, 0.0)

    best = best_whole_epochs((work / (fast_words * fast_words),), work, budget, fast_words)
    return larger(best - rows, 0.0)


def row_sums(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every fused schedule on one fast memory, with the word that a row's sum takes.

    Theorem: with e = min(d, dv), N = Z dv (d+e)²/e + (Z - R)(d+e) for R rows, and W(A) = A²/4 from a few d² words on,
    words >= M + k T - R for all whole k and T with k W(M + T) < N. For equal widths about 2d(2d+1) Z/M + M - R.
    Assumes: as whole-epochs; the sum of a row's probabilities is a sum of its own terms, in words of its own.
    Regime: ahead of whole-epochs from about 5 d² on, by 1/2d of the leading term less the rows.
    Proof: docs/theory/row_sums.md

    >>> row_sums(Workload(n=4096, d=16), 16384).words
    1093566
    """
    rows, d, value_dim = float(workload.touched_rows), float(workload.d), float(workload.value_dim)
    return LowerBound(
        theorem="row-sums",
        words=int(row_sum_words(float(workload.scores), rows, d, value_dim, float(fast_words))),
        strength=Strength.ORDINARY,
        covers=OWN_ROW_SUMS,
        regime="M + k T - rows, for the best whole number k of epochs; about 2d(2d+1) Z/M + M - rows for equal widths",
        assumptions=(
            "each score is a sum of d products of its own",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "what an output is divided by is a sum of its row's probabilities, in words of the row, in any order",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/row_sums.md",
    )
