"""Row sums: a row that takes up values holds the sum of its probabilities too, a word beside query and output."""

from functools import partial

from attenio.bounds.floats import Floats, larger, only_where, root, smaller, where
from attenio.bounds.lower_bound import FORWARD_SUMS, OWN_ROW_SUMS, LowerBound, Strength
from attenio.bounds.output_epochs import products_from_held_scores
from attenio.bounds.pairs_made_elsewhere import most_by_held_pairs, words_for_held_pairs
from attenio.bounds.whole_epochs import ENOUGH, best_whole_epochs
from attenio.workload import Workload

# What is assumed beside sums of products.
ROW_SUMS = "what an output is divided by is a sum of its row's probabilities, in words of the row, in any order"
# Both sides of a comparison are roots and products in floating point: this much less is on the safe side.
_SAFETY = 1.0 - 1e-12
# Epochs of fewer d² words are not looked at for pairs made elsewhere: other bounds are ahead there.
_FEWEST = 3.5
# Budgets of an epoch that are tried, in fast memories: the first where fresh pairs do most, others where held ones do.
_SHARES = (2.0, 2.05, 2.1, 2.2, 2.35, 2.5, 2.65, 2.8)


def weights(d: Floats, value_dim: Floats) -> tuple[Floats, Floats]:
    """What a product p·v and what a term of a row's sum weigh, next to words of a row times words of a key."""
    narrow = smaller(d, value_dim)
    both = d + narrow
    return both * both / narrow, both


def work_per_epoch(budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The most that the products and the terms of sums of an epoch with this many words weigh."""
    return larger(budget * budget / 4.0, work_with_held_pairs(budget, d, value_dim))


def work_with_held_pairs(budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The same where all pairs flow in."""
    return _with_held_pairs(budget, weights(d, value_dim), value_dim)


def _with_held_pairs(budget: Floats, weigh: tuple[Floats, Floats], value_dim: Floats) -> Floats:
    product, term = weigh
    return product * products_from_held_scores(budget, value_dim) + term * budget


def on_average_with_held_pairs(budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The most that epochs with so many words do on average where held pairs do more than fresh ones could."""
    held, most = work_with_held_pairs(budget, d, value_dim), partial(most_by_held_pairs, sums=True)
    return smaller(held, only_where(budget > _FEWEST * d * d, most, float("inf"), budget, d, value_dim))


def _on_average_above(least: Floats, budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The same where it is more than so much; elsewhere something that is not."""
    held = work_with_held_pairs(budget, d, value_dim)
    return only_where(held > least, on_average_with_held_pairs, 0.0, budget, d, value_dim)


def work_on_average(budget: Floats, d: Floats, value_dim: Floats) -> Floats:
    """The most that epochs with so many words do on average."""
    fresh = budget * budget / 4.0
    return larger(fresh, _on_average_above(fresh, budget, d, value_dim))


def budget_for(work: Floats, d: Floats, value_dim: Floats, times: Floats = 1.0) -> Floats:
    """The words that epochs need for so much work on average, where held pairs weigh so many times as much.

    From 3dv² words on held pairs do (product dv + term) s² + 2 dv term s in one epoch, with s for the root of dv² + A
    less dv.
    """
    fresh, part = 2.0 * root(work), work / times
    held_do_more = _on_average_above(part, fresh, d, value_dim) > part
    return only_where(held_do_more, _budget_where_held_do_more, fresh, part, fresh, d, value_dim)


def _budget_where_held_do_more(part: Floats, fresh: Floats, d: Floats, value_dim: Floats) -> Floats:
    product, term = weights(d, value_dim)
    square, line = product * value_dim + term, value_dim * term
    side = part / (root(line * line + square * part) + line)
    held = side * side + 2.0 * value_dim * side
    held = where(held > 3.0 * value_dim * value_dim, held, 0.0)
    fewest, words = _FEWEST * d * d, partial(words_for_held_pairs, sums=True)
    elsewhere = only_where(fresh > fewest, words, 0.0, part, d, value_dim)
    return smaller(fresh, larger(held, where(elsewhere > fewest, elsewhere, 0.0)))


def row_sum_words(scores: Floats, rows: Floats, d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory."""
    product, term = weights(d, value_dim)
    work = scores * value_dim * product + (scores - rows) * term
    fresh = fast_words * fast_words
    several = (_on_average_above(fresh, 2.0 * fast_words, d, value_dim) > fresh) | (fast_words < ENOUGH)
    several = several & (2.0 * fast_words > _FEWEST * d * d)
    best = _words_of_shares(_SHARES[:1], work, d, value_dim, fast_words)
    more = only_where(several, partial(_words_of_shares, _SHARES[1:]), 0.0, work, d, value_dim, fast_words)
    return larger(larger(best, more) - rows, 0.0)


def _words_of_shares(
    shares: tuple[float, ...], work: Floats, d: Floats, value_dim: Floats, fast_words: Floats
) -> Floats:
    """The most words of epochs with so many fast memories each, or about as many."""
    counts = (work / work_on_average(share * fast_words, d, value_dim) for share in shares)
    return best_whole_epochs(counts, work, lambda part: budget_for(part * _SAFETY, d, value_dim), fast_words)


def row_sums(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every fused schedule on one fast memory, with the word that a row's sum takes.

    Theorem: with e = min(d, dv), N = Z dv (d+e)²/e + (Z - R)(d+e) for R rows, and W(A) = A²/4 from a few d² words on,
    words >= M + k T - R for all whole k and T with k W(M + T) < N. For equal widths about 2d(2d+1) Z/M + M - R.
    Assumes: as whole-epochs; the sum of a row's probabilities is a sum of its own terms, in words of its own.
    Regime: ahead of other epochs from about 1.8 d² on; from 2.8 d² on by 1/2d of the leading term less the rows.
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
            *FORWARD_SUMS,
            ROW_SUMS,
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/row_sums.md",
    )
