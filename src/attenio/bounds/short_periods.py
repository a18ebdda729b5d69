"""Short periods: a run is cut so often that no key meets all of its rows between two cuts."""

from attenio.bounds.lower_bound import BACKWARD_SUMS, FORWARD_SUMS, OWN_SUMS, LowerBound, Strength
from attenio.masks import SharedPrefix
from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, larger, smaller, where
from attenio.workload import Direction, Workload


def kept_words(d: Counts, value_dim: Counts, direction: Direction) -> Counts:
    """Words of a key that a cut costs: each is one that lies in fast memory at a cut, or comes again.

    >>> [kept_words(64, 64, way) // 64 for way in (Direction.FORWARD, Direction.BACKWARD)]
    [2, 3]
    """
    narrow = smaller(d, value_dim)
    return d + narrow if direction is Direction.FORWARD else d + value_dim + narrow


def whole_keys(band: Band, width: Counts) -> Counts:
    """The most neighbouring keys of which each is needed by so many rows that begin a fixed distance from it.

    >>> whole_keys(Band.causal(30, 30), 10), whole_keys(Band(rows=30, keys=30, left=9, right=0, shift=0), 11)
    (21, 0)
    """
    first, last = -band.shift - band.right, band.left - band.shift - width + 1
    begin = smaller(larger(first, 0), last)  # the distance from a key to its rows that leaves most keys
    end = smaller(band.keys, band.rows - width - begin + 1)
    return where(first <= last, larger(end - larger(-begin, 0), 0), 0)


def words_over_periods(
    band: Band, sharing: Counts, sizes: tuple[Counts, Counts, Counts], direction: Direction
) -> Counts:
    """Words of a KV head that come again, ``sharing`` query heads using it; sizes are d, dv and M. Numbers or arrays.

    >>> window = Band(rows=65536, keys=65536, left=4095, right=0, shift=0)
    >>> words_over_periods(window, 1, (64, 64, 10240 * 64), Direction.BACKWARD) / (65536 * 64)
    0.738...
    """
    d, value_dim, fast_words = sizes
    width = larger(smaller(smaller(band.left + band.right + 1, band.rows), band.keys), 1)
    keys, words = whole_keys(band, width), kept_words(d, value_dim, direction)
    found = _of_keys((keys, width, sharing), (words, 0 * value_dim), fast_words)
    if direction is Direction.FORWARD:
        return found
    more = _of_keys((keys, width, sharing), (words, value_dim), fast_words)
    return larger(found, where(value_dim <= d, more, 0))


def _of_keys(window: tuple[Counts, Counts, Counts], of_key: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """With so many keys, rows that need one in a head, and heads, and words of a key, some of them with outputs."""
    (keys, width, sharing), (words, values) = window, of_key
    alike = words + values
    ticks = sharing * width - alike  # in a period
    cut = larger(ticks, 1)
    cuts = ceil_div(sharing * (keys + width - 1), cut) - 1
    some = larger(smaller(keys, cuts * cut // sharing - width + 1), 0)  # keys that are left with a cut less
    whole, fewer = (words * each + values * rows_or_keys((each, width, sharing), alike) for each in (keys, some))
    found = larger(_less(whole, cuts, fast_words), _less(fewer, cuts - 1, fast_words))
    return where((ticks >= 1) & (keys >= 1), found, 0)


def rows_or_keys(window: tuple[Counts, Counts, Counts], alike: Counts) -> Counts:
    """Rows that meet keys in another period than their own, or keys that are in in several, for a column of values.

    >>> rows_or_keys((3 * 4096 + 1, 4096, 1), 4 * 16)  # of four windows of rows
    7932
    """
    keys, width, sharing = window
    positions = keys + width - 1
    count = larger(ceil_div(positions, larger(2 * width - 1 - alike, 1)), 1)
    found = (
        each * larger(smaller(width - 1, positions // each - width + alike) - 2 * alike, 0)
        for each in (count, larger(count - 1, 1))
    )
    return larger(larger(*found) - 2 * sharing, 0)


def _less(words: Counts, times: Counts, fast_words: Counts) -> Counts:
    """Words less a fast memory so many times, nothing if that is negative; no product is much larger than the words."""
    some = larger(times, 1)
    return larger(words - some * smaller(fast_words, words // some + 1), 0)


def short_periods(workload: Workload, fast_words: int, *, direction: Direction) -> LowerBound:
    """Compulsory words, and those that lie in fast memory at a cut or come again, less fast memory at every cut.

    Theorem: let each of m neighbouring keys be needed by w > b rows that begin a fixed distance from it, with
    b = d + min(d, dv) forward and d + dv + min(d, dv) backward. Then words >= compulsory + b m - K M, with
    K = ceil((m+w-1)/(w-b)) - 1 where one query head uses a KV head; KV heads are added up. Backward, for dv <= d, about
    dv words more for half of the rows, which read outputs or make them again.
    Under a window of W keys, for equal widths and n >> W >> d, that is 6nd - nM/W forward and 10.5nd - nM/W backward.
    Assumes: as output-epochs and gradient-rows, whatever was saved; one fast memory.
    Regime: windows of W keys, from about dW to 2dW words forward and from 2dW to 3.5dW backward.
    Proof: docs/theory/short_periods.md

    >>> n, d, window = 65_536, 64, 4096
    >>> for way, share in ((Direction.FORWARD, 1.5), (Direction.BACKWARD, 2.5)):
    ...     workload, fast_words = Workload(n=n, d=d, mask=f"window:{window}", direction=way), int(share * d * window)
    ...     print(f"{short_periods(workload, fast_words, direction=way).words / (n * d):.2f} nd")
    4.41 nd
    7.74 nd
    """
    forward = direction is Direction.FORWARD
    alone, again = workload.towards(direction), 0
    sizes = (workload.d, workload.value_dim, fast_words)
    if not isinstance(workload.mask, SharedPrefix):
        for pattern, count in workload.separate_patterns:
            if isinstance(pattern, Band):
                again += count * int(words_over_periods(pattern, workload.group, sizes, direction))
    return LowerBound(
        theorem="short-periods" if forward else "short-gradient-periods",
        words=alone.compulsory_words + workload.batch * workload.kv_heads * again,
        strength=Strength.ORDINARY,
        covers=OWN_SUMS,
        regime="windows, where fast memory has room for most of the words that their keys and rows exchange",
        assumptions=(
            *(FORWARD_SUMS if forward else BACKWARD_SUMS),
            "recomputation allowed",
            "one fast memory, empty at the beginning",
        ),
        page="docs/theory/short_periods.md",
    )
