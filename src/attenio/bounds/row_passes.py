"""Row passes: rows and keys that enter and leave fast memory whole have to come twice unless one kind fits."""

from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.masks import Dense
from attenio.workload import Workload


def applies(workload: Workload, units: int) -> bool:
    """Whether every row needs every key, and one fast memory works on them."""
    return isinstance(workload.mask, Dense) and units == 1


def row_passes(workload: Workload, fast_words: int) -> LowerBound:
    """The floor under schedules that move whole rows of Q and O, and whole keys with their values.

    Theorem: with S = floor(M/(d + dv)) up to n and m, words >= (n + m)(d + dv) + min((d + dv)(m - S + n/2),
    (d + 2dv)(n - S + m/2)).
    Assumes: a row is in fast memory with its query and its output, a key with its value; every row needs every key.
    Regime: fast memories that hold from half of the rows to all; attained by kept keys in two passes.
    Proof: docs/theory/row_passes.md

    >>> row_passes(Workload(n=1024, d=64), 131_072).words / (1024 * 64)
    5.0
    """
    rows, keys, d, value_dim = workload.group * workload.queries, workload.keys, workload.d, workload.value_dim
    key, again = d + value_dim, d + 2 * value_dim
    slots = fast_words // key
    words = (rows + keys) * key
    if slots <= min(rows, keys):
        twice = min(key * (2 * (keys - slots) + rows), again * (2 * (rows - slots) + keys))
        words += -(-twice // 2)
    return LowerBound(
        theorem="row-passes",
        words=workload.batch * workload.kv_heads * words,
        strength=Strength.SCHEDULE,
        covers="schedules that move whole rows of queries and outputs, and whole keys with their values",
        regime="fast memory for half of the rows to all of them: two passes",
        assumptions=(
            "a row has its query and its output in fast memory while it is there, a key has its value",
            "a row and a key meet while both are in fast memory",
            "every row needs every key",
        ),
        page="docs/theory/row_passes.md",
    )
