"""Passing sums: a sum of a gradient that leaves fast memory has to come back, and both is paid for."""

from attenio.bounds.backward.gradient_rows import Weights
from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, larger, root, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.workload import Workload

# A step advances the clock by less than this.
_STEP = 2.0
# A sum that comes is charged for meeting this many others, in units of half an epoch's words: a sum of any epoch, and
# a sum of a row in long epochs, in which pairs that flow in do less.
_ANY_MEETINGS = 14.0 / 13.0
_ROW_MEETINGS = 13.0 / 25.0
# What is left of the two words of a sum that comes and goes pays for them.
_ANY_TOLL = 1.0 / (1.0 + 2.0 * _ANY_MEETINGS)
_LARGEST_TOLL = 1.0 / (1.0 + 2.0 * _ROW_MEETINGS)
_LONG_TOLLS = (1.0, 4.0 / 5.0)  # shares of the largest one that are tried
_FEWEST_EPOCHS = 4.0


def weights_with_toll(d: Floats, value_dim: Floats, toll: Floats) -> Weights:
    """What products count where a sum that leaves in an epoch counts ``1 + toll`` words.

    >>> weights_with_toll(1.0, 1.0, 0.5)
    (6.0, 4.0, 14.0)
    """
    both = 2.0 * (d + value_dim)
    return both * (1.0 + toll), both, both * ((2.0 + toll) * d + value_dim)


def _least_half(work: Floats, fast_words: Floats) -> Floats:
    """Half of the words that an epoch has at least, whatever number of epochs is taken."""
    room = fast_words + _STEP
    return room * larger(1.0 - 2.0 / (work / (room * room) + 1.5), 0.0)


def _least_long_half(d: Floats, value_dim: Floats, toll: Floats) -> Floats:
    """Half of the words of an epoch from which on few meetings need be charged for."""
    heavy, _, pair = weights_with_toll(d, value_dim, toll)
    factor = pair / heavy
    side = 2.0 * root(pair + factor * factor / 3.0) - factor
    return larger(3.0 * factor * factor, side * side - factor * factor) / 2.0


def _tolls(d: Floats, value_dim: Floats, half: Floats) -> tuple[Floats, Floats]:
    """The largest tolls for any epoch and for long ones, negative where epochs are too short."""
    most, long = value_dim / (2.0 * d), 0.0 * half - 1.0
    least = root(27.0 / 8.0 * half) / (2.0 * (d + value_dim)) - 1.0
    for share in _LONG_TOLLS:
        toll = smaller(most, share * _LARGEST_TOLL)
        long = larger(long, where(half >= _least_long_half(d, value_dim, toll), toll, -1.0))
    return smaller(smaller(most, _ANY_TOLL), least), long


def passing_sum_words(
    scores: Floats, row_sums: Floats, key_sums: Floats, d: Floats, value_dim: Floats, fast_words: Floats
) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory; sums are entries of gradients."""
    room = fast_words + _STEP
    work = scores * weights_with_toll(d, value_dim, 0.0)[2]
    any_toll, long_toll = _tolls(d, value_dim, _least_half(work, fast_words))
    key_meetings = 2.0 * _ROW_MEETINGS / (2.0 + value_dim / d)
    best: Floats = 0.0
    for toll, of_rows, of_keys in (
        (any_toll, _ANY_MEETINGS, _ANY_MEETINGS),
        (long_toll, _ROW_MEETINGS, key_meetings),
    ):
        taken = larger(toll, 0.0)
        turns = scores * weights_with_toll(d, value_dim, taken)[2] / room
        first = 2.0 * taken * (of_rows * row_sums + of_keys * key_sums)
        # fewer epochs are left out below, and the divisor is kept away from 0
        whole = room / (4.0 * larger(turns / room - 2.0, 1.0))
        best = larger(best, where(toll >= 0.0, whole_words(turns + fast_words, first + whole), 0.0))
    return where((value_dim <= d) & (work >= _FEWEST_EPOCHS * room * room), best, 0.0)


def passing_sums(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every backward pass on one fast memory, where sums of gradients that leave have to come back.

    Theorem: for dv <= d, m = M + 2 and k = Z G/m² >= 4, words >= Z G/m + M - 2b (t R + t' C) - m/4(k - 2), with R
    entries of dQ, C of dK and dV, G = 2 (d+dv) ((2+b) d + dv), a toll b <= dv/2d and b <= 1/(1+2t), where t = t' =
    14/13 or, for large M, t = 13/25 and t' = 26/25 (2 + dv/d). For equal widths and large fast memory that is about
    13.96 Z d²/M + M - 1.2 nd, and for dv <= 0.98 d it has the leading term of what two passes move.
    Assumes: as gradient-rows; one fast memory.
    Regime: for equal widths ahead of gradient-rows from about 5 d² words up to 3/2 nd for one head, by 1/6 at most.
    Proof: docs/theory/backward_passing_sums.md

    >>> n, d, fast_words = 131072, 64, 262144
    >>> passing_sums(Workload(n=n, d=d, direction="backward"), fast_words).words * fast_words / (n * d) ** 2
    13.924...
    """
    sizes = float(workload.d), float(workload.value_dim), float(fast_words)
    row_sums = workload.heads * workload.batch * workload.queries * workload.d
    key_sums = workload.gradient_words - row_sums
    return LowerBound(
        theorem="passing-sums",
        words=int(passing_sum_words(float(workload.scores), float(row_sums), float(key_sums), *sizes)),
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=_regime(float(workload.scores), *sizes),
        assumptions=(
            "each score and each dP is a sum of products of its own",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/backward_passing_sums.md",
    )


def _regime(scores: float, d: float, value_dim: float, fast_words: float) -> str:
    if value_dim > d:
        return "says nothing for dv > d"
    room = fast_words + _STEP
    work = scores * weights_with_toll(d, value_dim, 0.0)[2]
    if work < _FEWEST_EPOCHS * room * room:
        return "says nothing where fast memory is too large for four epochs"
    any_toll, long_toll = _tolls(d, value_dim, _least_half(work, fast_words))
    toll = min(value_dim / (2.0 * d), _LARGEST_TOLL)
    if long_toll < toll:
        return f"small fast memory: a toll of {max(any_toll, long_toll, 0.0):.3g}, or none"
    pair = weights_with_toll(d, value_dim, toll)[2]
    return f"large fast memory, far from all inputs: Z G/M + M, G = {pair:.6g}, less what sums cost that come first"
