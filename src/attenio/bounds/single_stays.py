"""Single stays: unless fast memory holds rows and keys at one time, some of their words come and go more than once."""

from attenio.bounds.lower_bound import BACKWARD_SUMS, FORWARD_SUMS, MAKES_SCORES, OWN_SUMS, LowerBound, Strength
from attenio.masks import SharedPrefix
from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import clip, larger, smaller, where
from attenio.workload import Direction, Workload

_NOTHING_GIVEN = "no probability is given: scores are made in the run"


def rectangle(band: Band) -> tuple[Counts, Counts]:
    """Last rows and first keys that all need each other, about as many; none if the last row lacks the first key.

    >>> rectangle(Band.dense(30, 20)), rectangle(Band.causal(30, 30))
    ((30, 20), (16, 15))
    """
    of_first_row = smaller(band.shift + band.right + 1, band.keys)  # less than none where rows without a key come first
    keys = clip(larger(of_first_row, (band.rows + of_first_row) // 2), band.keys)
    rows = clip(band.rows + of_first_row - keys, band.rows)
    whole = band.first_key(band.rows - 1) == 0
    return where(whole, rows, 0), where(whole, keys, 0)


def words_again(
    shape: tuple[Counts, Counts, Counts, Counts], fast_words: Counts, direction: Direction, *, saved: bool = False
) -> Counts:
    """Words that come again where so many rows need so many keys of these widths; for whole numbers or arrays of them.

    ``saved``, of a gradient that may have been given probabilities: twice as many rows and keys are told apart.

    >>> words_again((4096, 4096, 64, 64), 3 * 4096 * 32, Direction.FORWARD) / (4096 * 64)
    0.95...
    """
    rows, keys, d, value_dim = shape
    both, few = d + value_dim, smaller(rows, keys)
    if direction is Direction.FORWARD:
        return larger(_forward_words_again(rows + keys, few, (d, value_dim), fast_words), 0)
    needed = d + both
    told = 2 * needed if saved else needed
    apart = _apart((few * needed - fast_words, few), both, (told, told))
    gathered = (rows + keys) * both - fast_words - both * both - 4 * (told - 1) * both
    return larger(smaller(apart, gathered), 0)


def _apart(over_and_few: tuple[Counts, Counts], own: Counts, told: tuple[Counts, Counts]) -> Counts:
    """One kind comes and goes: the other one waits for it, and so much of its own entries is there at one time.

    Once the other one is ``over`` by what so many rows or keys have, it need not even be counted at two times.
    """
    (over, few), (departed, late) = over_and_few, told
    half = larger((few - 2 * departed - late + 1) * own // 2, 0)
    return over + where(over >= departed * own, half, smaller(over, half))


def _forward_words_again(both_kinds: Counts, few: Counts, widths: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """The same for a forward pass, with so many rows and keys, and so many of the fewer of them; may be less than 0."""
    d, value_dim = widths
    both, late, square = d + value_dim, larger(d, 2), d * d
    lost = 2 * (both + late - 2) * d
    over = few * both - fast_words
    apart = _apart((over, few), d, (both, late))
    # queries and keys lie there together: half of outputs or values beside them, or half as many of them, or all that
    # fast memory does not hold
    beyond, column = both_kinds * d - fast_words, few * value_dim
    waiting = column - 2 * d * value_dim
    passing = waiting - 2 * (d * (both - 1) + late - 1)
    one_after_another = column - larger(2 * square, 4 * d * value_dim) - lost
    beside = smaller(smaller(larger(passing // 2, waiting - fast_words), passing), one_after_another)
    together = where(beyond >= 0, beyond + beside, 0)
    return larger(smaller(apart, together), smaller(over, beyond - square - lost))


def _causal_words_again(rows: Counts, widths: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """The same where each row needs the keys up to its own; may be less than 0."""
    d, value_dim = widths
    lost = 2 * (d + value_dim + larger(d, 2) - 2) * d
    lost = lost + larger(lost, larger(2 * d * d, 4 * d * value_dim))
    return rows * d + rows // 2 * smaller(d, value_dim) - fast_words - lost


def _causal_gradient_words_again(
    rows: Counts, widths: tuple[Counts, Counts], fast_words: Counts, *, saved: bool
) -> Counts:
    """The same for a gradient; where probabilities may be given, more rows and keys are told apart."""
    d, value_dim = widths
    own = d + value_dim
    lost = 4 * own * (own + d - 1) if saved else 2 * larger(own * (own - 1), 2 * own * value_dim - own - value_dim)
    return rows * own - fast_words - lost


def words_again_of_band(
    band: Band,
    heads: Counts,
    widths: tuple[Counts, Counts],
    fast_words: Counts,
    direction: Direction,
    *,
    saved: bool = False,
) -> Counts:
    """Words that come again in so many query heads of a KV head with this band; for whole numbers or arrays of them."""
    rows, keys = rectangle(band)
    again = words_again((heads * rows, keys, *widths), fast_words, direction, saved=saved)
    square = (band.rows == band.keys) & (band.shift + band.right == 0) & (keys > 0) & (heads == 1)
    if direction is Direction.FORWARD:
        causal = _causal_words_again(band.rows, widths, fast_words)
    else:
        causal = _causal_gradient_words_again(band.rows, widths, fast_words, saved=saved)
    return larger(again, where(square, causal, 0))


def single_stays(workload: Workload, fast_words: int, *, direction: Direction, saved: bool = False) -> LowerBound:
    """Compulsory words, and those that come again because rows and keys do not fit at one time.

    Theorem: if n rows need m keys, each of them, w = (n+m) d - M, l = min(n, m) and b = d + dv, then forward words >=
    compulsory + the larger of min(l b - M + l d/2, w + l dv/2) and min(w, l b - M), less some d² (the page has how
    many, and what is left where l b - M is no more than that). For one dense head of equal widths that is 13nd/2 - M
    up to M = 2nd - 2d², up to 8d², for a causal one 11nd/2 - M, up to 12d². The gradient, up to M = 3nd - 6d²:
    11nd - M, up to 28d²; up to 52d² if probabilities may be given (``saved``). A causal one, up to M = 2nd - 8d²:
    9nd - M, up to 8d², or 24d².
    Assumes: as output-epochs and gradient-rows, of the gradient unless ``saved`` that no probabilities are given; one
    fast memory.
    Regime: fast memories from nd to 2nd words, of the gradient 3nd; under a causal mask three quarters or two thirds.
    Proof: docs/theory/single_stays.md

    >>> n, d = 65_536, 64
    >>> for way in Direction.FORWARD, Direction.BACKWARD:
    ...     workload = Workload(n=n, d=d, direction=way)
    ...     print(f"{single_stays(workload, 7 * n * d // 4, direction=way).words / (n * d):.2f} nd")
    4.75 nd
    9.22 nd
    """
    forward = direction is Direction.FORWARD
    alone, again = workload.towards(direction), 0
    if not isinstance(workload.mask, SharedPrefix):
        for pattern, count in workload.separate_patterns:
            if isinstance(pattern, Band):
                widths = workload.d, workload.value_dim
                words = words_again_of_band(pattern, workload.group, widths, fast_words, direction, saved=saved)
                again += count * int(words)
    return LowerBound(
        theorem="single-stays" if forward else "single-gradient-stays",
        words=alone.compulsory_words + workload.batch * workload.kv_heads * again,
        strength=Strength.ORDINARY,
        covers=OWN_SUMS if forward or saved else MAKES_SCORES,
        regime="fast memory for half of the rows and keys to all of them; causal, a quarter to three quarters",
        assumptions=(
            *(FORWARD_SUMS if forward else BACKWARD_SUMS),
            *(() if forward or saved else (_NOTHING_GIVEN,)),
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/single_stays.md",
    )
