"""Held scores: a score that never leaves a small fast memory makes outputs come and go in its place."""

from collections.abc import Iterator
from typing import NamedTuple

from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, any_of, larger, root, rounded_down, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.bounds.mask_edges import Edges, edges_of
from attenio.workload import Workload

# With all weights up to the root of two, epochs of twice the fast memory M serve up to M = d²/2.
_TWICE = 0.5
# With that root alone, epochs of 9M/5 serve up to M = 7d²/10, and do no more than 1.045 M^(3/2).
_SHORTER, _LENGTH, _WORK = 0.7, 1.8, 1.045
# Where values are up to twice as wide as keys, and scores made again are paid for, longer epochs serve up to d².
_MOST, _WIDE = 1.0, 2.0
# What an output does at most at its first stay, for a weight of which the square is 2, where that stay is free.
FIRST = 0.4
_EIGHTHS = 8.0
# What a score at an edge counts among those within: no more than the root of a half.
_WITHIN = 0.7071
# Where no score is within, none is at an edge.
_TINY = 1e-9


class Longer(NamedTuple):
    """Epochs with outputs whose first stay is free, of so many fast memories, in up to ``most`` d² words.

    They serve for squared weights of 1 and so many eighths or more, up to 2, and where edges of masks are worth up to
    a share ``beyond`` of fast memory and that. An epoch does up to ``slack`` times what is said of it. Those from
    ``least`` d² words on pay for scores that are made again, and serve for that one squared weight, and for values that
    are up to ``wide`` times as wide as keys.
    """

    budget: float
    most: float
    eighths: float
    beyond: float
    slack: float
    least: float = 0.0
    wide: float = 1.0


# Each is a theorem for every whole number of eighths.
BEYOND = 0.02
LONGER = (
    Longer(3.5, 0.37, 2.0, BEYOND, 1.0002),
    Longer(3.25, 0.42, 2.0, BEYOND, 1.0002),
    Longer(3.0, 0.51, 3.0, BEYOND, 1.0002),
    Longer(2.75, _SHORTER, _EIGHTHS, 0.0, 1.004),
    Longer(3.5, 0.5, _EIGHTHS, 0.0, 1.0005, 0.37),
    Longer(3.4, 0.51, _EIGHTHS, BEYOND, 1.001, 0.37),
    Longer(3.2, 0.59, _EIGHTHS, BEYOND, 1.001, 0.5),
    Longer(3.0, 0.7, _EIGHTHS, 0.0, 1.0005, 0.59),
    Longer(2.95, 0.714, _EIGHTHS, BEYOND, 1.002, 0.59),
    Longer(2.75, 0.84, _EIGHTHS, BEYOND, 1.001, 0.7),
    Longer(2.62109375, _MOST, _EIGHTHS, 0.0, 1.0006, 0.84),
    Longer(2.875, 0.7, 4.0, 0.0, 1.002, 0.5, _WIDE),
    Longer(2.75, 0.76, 5.0, 0.0, 1.003, 0.7, _WIDE),
    Longer(2.5, _MOST, 5.0, 0.0, 1.016, 0.76, _WIDE),
)


def work_of_epoch(more: Floats, budget: float = 3.0) -> Floats:
    """The most an epoch of so many fast memories does, over M^(3/2), if products of held scores weigh root(1 + more).

    >>> [round(work_of_epoch(more), 4) for more in (0.0, 0.5, 1.0)]
    [1.0, 1.0632, 1.1279]
    """
    pairs = (budget + root(budget * budget - 3.0 * more)) / 6.0
    return root(pairs) * (budget - pairs) / 2.0 + more / (8.0 * root(pairs))


class Scores(NamedTuple):
    """Scores at no edge of a mask and at one, what products of the latter weigh, and what an epoch gains by edges."""

    within: Floats
    at_edges: Floats
    weight: Floats
    beyond: Floats


def longer_epoch_words(scores: Scores, rows: Floats, d: Floats, value_dim: Floats, fast_words: Floats) -> Floats:
    """The bound of longer epochs, with outputs whose first stay is free, in whole words."""
    room, square = fast_words + scores.beyond, d * d
    small = (room <= _MOST * square) & (scores.beyond <= BEYOND * room)
    if not any_of(small):
        return where(small, 0.0, 0.0)
    best: Floats = 0.0
    for epoch in LONGER:
        length = epoch.budget * room - scores.beyond - fast_words
        serves = (room <= epoch.most * square) & (scores.beyond <= epoch.beyond * room) & (length >= fast_words)
        if epoch.least:
            serves = serves & (room >= epoch.least * square) & (value_dim <= epoch.wide * d)
        if not any_of(serves):
            continue
        # about the weight that makes up for the word that a held score does not move
        weight = 1.0 + root(room) * (work_of_epoch(0.5 + 0.0 * room, epoch.budget) / (epoch.budget - 1.0)) / value_dim
        most = epoch.eighths if epoch.least else _EIGHTHS
        eighths = smaller(larger(rounded_down(_EIGHTHS * (weight * weight - 1.0)), epoch.eighths), most)
        sizes = rows, d, value_dim
        ways = [
            _with_first_stays(scores, sizes, room, length, (epoch, more))
            for more in (eighths / _EIGHTHS, smaller(eighths + 1.0, most) / _EIGHTHS)
        ]
        words = _least_over_held_scores(scores, ways, length - fast_words)
        best = larger(best, where(serves & (words > fast_words), words, 0.0))
    return best


class _Way(NamedTuple):
    """Words if all scores move, those that first stays save, and the words that a held score loses or gains by."""

    leading: Floats
    first: Floats
    gained: Floats


def _with_first_stays(
    scores: Scores, sizes: tuple[Floats, Floats, Floats], room: Floats, length: Floats, kind: tuple[Longer, Floats]
) -> _Way:
    """What epochs of this length say for one weight.

    A step that ends one epoch and begins the next may do one product for which no epoch pays.
    """
    (rows, d, value_dim), (epoch, more), heavy = sizes, kind, root(1.0 + kind[1])
    work = epoch.slack * work_of_epoch(more, epoch.budget) * room * root(room)
    rate = length / (work + heavy * larger(scores.weight, 1.0))
    leading = rate * ((scores.within + scores.weight * scores.at_edges) * (d + value_dim))
    first = rate * FIRST * more * root(room) * (rows * value_dim)
    return _Way(leading, first, rate * (heavy - 1.0) * value_dim)


def _least_over_held_scores(scores: Scores, ways: list[_Way], lost: Floats) -> Floats:
    """Words for the best number of scores that are held, by the best mean of what is said for two weights.

    It is concave in the share of the heavier one, and falls where neither kind of scores loses by being held: so it is
    largest with none of it, or where one kind is as good held.
    """
    light, heavy = ways
    apart = larger(heavy.gained - light.gained, _TINY)
    even = [(gained - light.gained) / apart for gained in (1.0, 1.0 / larger(scores.weight, _TINY))]
    best: Floats = 0.0
    for share in (0.0, *(smaller(larger(each, 0.0), 1.0) for each in even)):
        leading, first, gained = (a + share * (b - a) for a, b in zip(light, heavy, strict=True))
        held = scores.within * larger(1.0 - gained, 0.0)
        held = held + scores.at_edges * larger(1.0 - scores.weight * gained, 0.0)
        best = larger(best, whole_words(leading, held + first + lost))
    return best


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
    small = fast_words <= _MOST * d * d
    if not any_of(small):
        return where(small, 0.0, 0.0)
    best = longer_epoch_words(Scores(scores, 0.0 * scores, 1.0, 0.0 * fast_words), rows, d, value_dim, fast_words)
    for serve, length, weight, work in _epochs(d, value_dim, fast_words):
        lost = rows * value_dim + length - fast_words
        none_held = whole_words(length * (scores * (d + value_dim) / work), lost)
        all_held = whole_words(length * (scores * (d + weight * value_dim) / work), lost + scores)
        best = larger(best, where(serve, smaller(none_held, all_held), 0.0))
    return best


def held_words_at_edges(edges: Edges, sizes: tuple[Floats, Floats, Floats]) -> Floats:
    """The same with edges of a mask, for the widths d and dv and the words of fast memory."""
    (d, value_dim, fast_words), at_edges = sizes, edges.length
    corner, within = 2.0 * edges.count * edges.sharing, edges.scores - (1.0 - _WITHIN) * at_edges
    weight = (fast_words + 1.0) * at_edges / larger(corner * within, _TINY)
    # edges may not be worth more than a share
    weight = smaller(weight, root((1.0 - 1e-9) * BEYOND / (1.0 - BEYOND) * fast_words / larger(corner, 1.0)))
    scores = Scores(edges.scores - at_edges, at_edges, _WITHIN + weight, corner * weight * weight)
    words = longer_epoch_words(scores, edges.rows, d, value_dim, fast_words)
    return where(edges.deepest >= 1.0, words, 0.0)


def held_scores(workload: Workload, fast_words: int) -> tuple[LowerBound, ...]:
    """What both products take in up to d² words of one fast memory, 7d²/10 for dv > 2d; nothing for larger ones.

    Theorem: for M <= d²/2, T = 2M - 1, 1 <= w <= √2 and R rows, words >= T Z (d+dv)/W - R dv - (T-M) or
    T Z (d + w dv)/W - Z - R dv - (T-M), whichever is less, with W from M^(3/2) for w = 1 to 1.128 of it for √2.
    Longer epochs, of up to 7M/2, with outputs whose first stay is free lose less than R dv, and count edges of a mask,
    with the best mean of what two weights say;
    for dv <= 2d scores that are made again are paid for in some of them, which serve up to d² words.
    Assumes: as fused epochs.
    Regime: up to d² words, 7d²/10 for dv > 2d; ahead of fused epochs from some 60 words on.
    Proof: docs/theory/held_scores.md

    >>> [bound.words for words in (1024, 2048, 4096) for bound in held_scores(Workload(n=8192, d=64), words)]
    [503966133, 343856695, 207491682]
    """
    if fast_words > (_MOST if workload.value_dim <= _WIDE * workload.d else _SHORTER) * workload.d**2:
        return ()
    widths, edges = (float(workload.d), float(workload.value_dim), float(fast_words)), edges_of(workload)
    words = held_score_words(float(workload.scores), float(workload.touched_rows), *widths)
    bound = LowerBound(
        theorem="held-scores",
        words=int(larger(words, held_words_at_edges(edges, widths)) if edges is not None else words),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="fast memory up to d², or 7d²/10 for dv > 2d: scores move, or outputs come and go",
        assumptions=(
            "each score is a sum of d products of its own, and a word when it is used",
            "each output is a sum of products p·v, rescaled by row factors at will",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/held_scores.md",
    )
    return (bound,)
