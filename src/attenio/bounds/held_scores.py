"""Held scores: a score that never leaves a small fast memory makes outputs come and go in its place."""

from collections.abc import Iterator

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.workload import Workload

# With all weights up to the root of two, epochs of twice the fast memory M serve up to M = d²/2.
_TWICE = 0.5
# With that root alone, epochs of 9M/5 serve up to M = 7d²/10, and do no more than 1.045 M^(3/2).
_SHORTER, _LENGTH, _WORK = 0.7, 1.8, 1.045


def work_of_epoch(more: Floats) -> Floats:
    """The most an epoch of about 2M ticks does, over M^(3/2), if products of held scores weigh root(1 + more).

    >>> [round(work_of_epoch(more), 4) for more in (0.0, 0.5, 1.0)]
    [1.0, 1.0632, 1.1279]
    """
    pairs = 0.5 + root(9.0 - 3.0 * more) / 6.0
    return root(pairs) * (3.0 - pairs) / 2.0 + more / (8.0 * root(pairs))


def _weights(d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """A weight from 1 to the root of two: about the best one.

    One that makes up for the word that a held score does not move, or, if that is less, with which they do the most.
    """
    share, wider = smaller(root(fast_words) / value_dim, 1.0), d / value_dim
    for_word = (1.0 - root(1.0 - share * (0.25 + 0.109375 * share))) * 8.0 / share
    return larger(smaller(smaller(for_word, root(7.0 + wider * wider) - wider), root(2.0 + 0.0 * share)), 1.0)


def _epochs(d: Floats, value_dim: Floats, fast_words: Floats) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
    """Where epochs serve, their lengths, the weights of products of held scores, and the most that they do."""
    square, volume = d * d, fast_words * root(fast_words)
    weight = _weights(d, value_dim, fast_words)
    work = volume * work_of_epoch(weight * weight - 1.0)
    yield fast_words <= _TWICE * square, 2.0 * fast_words - 1.0, weight, work
    shorter = rounded_down(_LENGTH * fast_words) - 1.0
    yield (fast_words <= _SHORTER * square) & (fast_words >= 3.0), shorter, root(2.0 + 0.0 * weight), _WORK * volume


def held_score_words(scores: Floats, rows: Floats, d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory."""
    small = fast_words <= _SHORTER * d * d
    if not any_of(small):
        return where(small, 0.0, 0.0)
    best: Floats = 0.0
    for serve, length, weight, work in _epochs(d, value_dim, fast_words):
        lost = rows * value_dim + length - fast_words
        none_held = whole_words(length * (scores * (d + value_dim) / work), lost)
        all_held = whole_words(length * (scores * (d + weight * value_dim) / work), lost + scores)
        best = larger(best, where(serve, smaller(none_held, all_held), 0.0))
    return best


def held_scores(workload: Workload, fast_words: int) -> tuple[LowerBound, ...]:
    """What both products take in up to 7d²/10 words of one fast memory; nothing for larger ones.

    Theorem: for M <= d²/2, T = 2M - 1, 1 <= w <= √2 and R rows, words >= T Z (d+dv)/W - R dv - (T-M) or
    T Z (d + w dv)/W - Z - R dv - (T-M), whichever is less, with W from M^(3/2) for w = 1 to 1.128 of it for √2.
    Assumes: as fused epochs.
    Regime: up to 7d²/10 words; ahead of fused epochs from some 60 words on.
    Proof: docs/theory/held_scores.md

    >>> [bound.words for words in (1024, 2048, 4096) for bound in held_scores(Workload(n=8192, d=64), words)]
    [497457417, 337872799]
    """
    if fast_words > _SHORTER * workload.d**2:
        return ()
    sizes = float(workload.scores), float(workload.touched_rows), float(workload.d), float(workload.value_dim)
    bound = LowerBound(
        theorem="held-scores",
        words=int(held_score_words(*sizes, float(fast_words))),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="fast memory up to 7d²/10: scores move, or outputs come and go",
        assumptions=(
            "each score is a sum of d products of its own, and a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/held_scores.md",
    )
    return (bound,)
