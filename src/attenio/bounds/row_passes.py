"""Row passes: rows and keys that enter and leave fast memory whole have to come again unless one kind fits."""

from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.masks import Dense
from attenio.workload import Workload


def applies(workload: Workload, units: int) -> bool:
    """Whether every row needs every key, and one fast memory works on them."""
    return isinstance(workload.mask, Dense) and units == 1


def loads(pairs: int, matched: int, slots: int) -> int:
    """Loads of rows and keys in at least two slots, for so many required pairs.

    ``matched`` of the pairs have rows and keys all of their own.

    >>> window, causal = 64 * 1000, 1000 * 1001 // 2
    >>> loads(window, 1000, 32), loads(causal, 1000, 32)
    (2549, 16630)
    """
    return -(-(2 * pairs + matched * (slots - 2)) // (2 * (slots - 1)))


def loads_of_all_pairs(rows: int, keys: int, slots: int) -> int:
    """Loads of rows and keys in at least two slots, if every row needs every key.

    >>> loads_of_all_pairs(1000, 1000, 200), loads(1000 * 1000, 1000, 200)
    (5750, 5523)
    """
    fewer = min(rows, keys)
    return max(-(-(4 * rows * keys + 3 * slots * fewer) // (4 * slots)), loads(rows * keys, fewer, slots))


def row_passes(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under schedules that move whole rows of Q and O, and whole keys with their values.

    Theorem: with S = floor(M/(d + dv)) up to n and m, words >= (n + m)(d + dv) + min((d + dv)(m - S + n/2),
    (d + 2dv)(n - S + m/2)); and words >= (d + dv)(nm/S + 3/4 min(n, m)) for S >= 2.
    Assumes: a row is in fast memory with its query and its output, a key with its value; every row needs every key.
    Regime: fast memories that hold some rows to all; attained from half of the rows on by kept keys in two passes.
    Proof: docs/theory/row_passes.md

    >>> for fast_words in (16_384, 131_072):
    ...     row_passes(Workload(n=1024, d=64), fast_words).words / (1024 * 64)
    17.5
    5.0
    """
    rows, keys, d, value_dim = workload.group * workload.queries, workload.keys, workload.d, workload.value_dim
    key, again = d + value_dim, d + 2 * value_dim
    slots = fast_words // key
    words = (rows + keys) * key
    if slots <= min(rows, keys):
        twice = min(key * (2 * (keys - slots) + rows), again * (2 * (rows - slots) + keys))
        words += -(-twice // 2)
    if slots > 1:
        words = max(words, key * loads_of_all_pairs(rows, keys, slots))
    return LowerBound(
        theorem="row-passes",
        words=workload.batch * workload.kv_heads * words,
        strength=Strength.SCHEDULE,
        covers="schedules that move whole rows of queries and outputs, and whole keys with their values",
        regime="fast memory for some of the rows to all of them",
        assumptions=(
            "a row has its query and its output in fast memory while it is there, a key has its value",
            "a row and a key meet while both are in fast memory",
            "every row needs every key",
        ),
        page="docs/theory/row_passes.md",
    )
