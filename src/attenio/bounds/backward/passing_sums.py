"""Passing sums: a sum of a gradient that leaves fast memory has to come back, and both is paid for."""

from attenio.bounds.backward.gradient_rows import Weights
from attenio.bounds.epochs import whole_words
from attenio.bounds.floats import Floats, any_of, cube_root, larger, root, smaller, where
from attenio.bounds.lower_bound import OWN_SUMS, LowerBound, Strength
from attenio.quantities import show_number
from attenio.workload import Workload

# A step advances the clock by less than this.
_STEP = 2.0
# A sum of a row that comes is charged for meeting this many others, in units of half an epoch's words.
_ROW_MEETINGS = 13.0 / 25.0
# Epochs of small fast memories are longer by up to this much.
_LONGER = 1.22
_FEWEST_EPOCHS = 4.0
# A share that is more than rounding adds to a toll.
_SAFETY = 1.0 - 1e-12


def weights_with_toll(d: Floats, value_dim: Floats, toll: Floats) -> Weights:
    """What products count where a sum that leaves in an epoch counts ``1 + toll`` words.

    >>> weights_with_toll(1.0, 1.0, 0.5)
    (6.0, 4.0, 14.0)
    """
    both = 2.0 * (d + value_dim)
    return both * (1.0 + toll), both, both * ((2.0 + toll) * d + value_dim)


def _least_half(work: Floats, longest: Floats) -> Floats:
    """Half of the words that an epoch has at least, whatever number of epochs is taken, of ``longest`` at most."""
    return longest * larger(1.0 - 2.0 / (work / (longest * longest) + 1.5), 0.0)


def half_for(narrow: Floats, toll: Floats) -> Floats:
    """Half of the words, in units of d², of an epoch from which on pairs that flow in take nothing away.

    >>> [round(half_for(1.0, toll), 2) for toll in (0.0, 0.2, 0.49)]
    [4.74, 5.93, 7.73]
    """
    left = root(1.0 - toll * narrow / ((2.0 + narrow) * (2.0 + narrow)))
    side, rest = (1.0 + narrow) / left, toll * left
    middle = (2.0 * side + root(4.0 * side * side + 6.0 * side * rest)) / 3.0
    return 2.0 / 3.0 * middle * (middle + 2.0 * rest)


def toll_for(narrow: Floats, half: Floats, most: Floats) -> Floats:
    """The largest toll up to ``most`` that such an epoch allows; below 0 where there is none.

    >>> [round(toll_for(1.0, half, 0.49), 2) for half in (4.0, 5.0, 6.0, 7.0, 8.0)]
    [-0.13, 0.04, 0.21, 0.37, 0.49]
    """
    toll = most
    for _ in range(3):  # from above to below, above and below again
        left = root(1.0 - toll * narrow / ((2.0 + narrow) * (2.0 + narrow)))
        side = (1.0 + narrow) / left
        third = 1.0 / 27.0 + half / (4.0 * side * side)
        cube = cube_root(third + root(larger(third * third - 1.0 / 729.0, 0.0)))
        turn = 1.0 / 3.0 + cube + 1.0 / (9.0 * cube)  # turn³ - turn² = half / 2 side²
        toll = smaller(most, side * turn * (1.5 * turn - 2.0) / left * _SAFETY)
    return toll


def _most_toll(narrow: Floats, room: Floats, longest: Floats) -> Floats:
    """The largest toll that sums can pay, with half of an epoch's words for what they meet."""
    paid = 1.0 / (1.0 + 2.0 * _ROW_MEETINGS * (2.0 - room / longest))
    return smaller(paid * _SAFETY, 0.5 * narrow)


def _longer(work: Floats, narrow: Floats, d: Floats, room: Floats) -> Floats:
    """Half of the words of a longer epoch, where that allows a larger toll."""
    unit = d * d / (_least_half(work, room) / room + 1e-9)
    longest = larger(room, smaller(_LONGER * room, half_for(narrow, _most_toll(narrow, room, room)) * unit))
    return larger(room, smaller(longest, half_for(narrow, _most_toll(narrow, room, longest)) * unit))


def _words(
    scores: Floats, sums: Floats, d: Floats, value_dim: Floats, fast_words: Floats, half: Floats
) -> tuple[Floats, Floats]:
    """The bound with epochs of up to twice ``half`` words, and whether longer ones may do better."""
    room, narrow = fast_words + _STEP, value_dim / d
    work = scores * weights_with_toll(d, value_dim, 0.0)[2]
    most = _most_toll(narrow, room, half)
    toll = toll_for(narrow, _least_half(work, half) / (d * d), most)
    taken = larger(toll, 0.0)
    turns = scores * weights_with_toll(d, value_dim, taken)[2] / half
    # fewer epochs are left out below, and the divisor is kept away from 0
    whole = half / (4.0 * larger(turns / half - 2.0, 1.0))
    part = 2.0 - room / half
    words = whole_words(part * turns + fast_words, part * (2.0 * taken * sums + whole))
    said = (value_dim <= d) & (work >= _FEWEST_EPOCHS * half * half) & (toll >= 0.0)
    return where(said, words, 0.0), toll < most


def passing_sum_words(
    scores: Floats, row_sums: Floats, key_sums: Floats, d: Floats, value_dim: Floats, fast_words: Floats
) -> Floats:
    """The bound in whole words, for floats or arrays of floats, on one fast memory; sums are entries of gradients."""
    room, narrow = fast_words + _STEP, value_dim / d
    sums = _ROW_MEETINGS * (row_sums + 2.0 / (2.0 + narrow) * key_sums)
    words, short = _words(scores, sums, d, value_dim, fast_words, room)
    if any_of(short):
        work = scores * weights_with_toll(d, value_dim, 0.0)[2]
        words = larger(words, _words(scores, sums, d, value_dim, fast_words, _longer(work, narrow, d, room))[0])
    return words


def passing_sums(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under every backward pass on one fast memory, where sums of gradients that leave have to come back.

    Theorem: for dv <= d, m = M + 2, a >= m, T = 2a - m and k = Z G/a² >= 4, words >= T (Z G/a² - 2b (t R + t' C)/a -
    1/4(k - 2)) + M, with R entries of dQ, C of dK and dV, G = 2 (d+dv) ((2+b) d + dv), t = 13/25, t' = 26/25 (2 + dv/d)
    and a toll b <= dv/2d and b <= 1/(1 + 2 t T/a) that epochs of 2 a (1 - 2/(k + 3/2)) words allow. For equal widths
    that is about 13.96 Z d²/M + M - 1.2 nd from 7.8 d² on, and for dv <= 0.98 d it has the leading term of what two
    passes move.
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
    words = int(passing_sum_words(float(workload.scores), float(row_sums), float(key_sums), *sizes))
    return LowerBound(
        theorem="passing-sums",
        words=words,
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime=_regime(words, float(workload.scores), *sizes),
        assumptions=(
            "each score and each dP is a sum of products of its own",
            "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/backward_passing_sums.md",
    )


def _regime(words: int, scores: float, d: float, value_dim: float, fast_words: float) -> str:
    if value_dim > d:
        return "says nothing for dv > d"
    room = fast_words + _STEP
    work = scores * weights_with_toll(d, value_dim, 0.0)[2]
    if work < _FEWEST_EPOCHS * room * room:
        return "says nothing where fast memory is too large for four epochs"
    most = _most_toll(value_dim / d, room, room)
    toll = toll_for(value_dim / d, _least_half(work, room) / (d * d), most)
    if toll < 0.0 and not words:
        return "says nothing where epochs are too short"
    if toll < most:
        return f"small fast memory: a toll of {max(toll, 0.0):.3g}, or longer epochs"
    pair = weights_with_toll(d, value_dim, toll)[2]
    formula = f"Z G/M + M, G = {show_number(pair)}, less what sums cost that come first"
    return f"large fast memory, far from all inputs: {formula}"
