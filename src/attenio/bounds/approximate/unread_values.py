"""Unread values: how many values an algorithm within a tolerance may leave in slow memory."""

import math

import numpy as np

from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.masks import SharedPrefix
from attenio.masks.patterns import Band, BlockPattern, Pattern
from attenio.workload import Direction, Workload

# Sizes of rounding errors are a few 1e-16 of a count of keys; a key more may only be left out of a bound.
_SAFETY = 1.0 + 1e-12


def skippable_keys(workload: Workload, keys: int) -> int:
    """The most values of a column that may stay unread by a row with this many keys.

    >>> skippable_keys(Workload(n=4096, d=16, tolerance=0.1, entry_bound=0.1), 4096)
    189
    >>> skippable_keys(Workload(n=4096, d=16, tolerance=0.1), 4096)
    0
    """
    assert workload.tolerance is not None
    if workload.tolerance >= 2:
        return keys
    if workload.entry_bound is None:
        return 0
    share = workload.tolerance / 2.0
    reach = workload.d * workload.entry_bound**2 * abs(workload.softmax_scale)
    lightest = math.exp(min(2.0 * reach, 700.0))  # how much more an unread key may weigh than one that is read
    return min(keys, math.floor(keys * share / (share + (1.0 - share) * lightest) * _SAFETY))


def unread_values(workload: Workload) -> LowerBound:
    """What any algorithm within the tolerance moves: outputs, and all values but the few that cannot matter.

    Theorem: of each column of values, a row with n keys leaves at most n h/(h + (1-h) e^(2R)) unread, h = tolerance/2,
    where scores reach R; without an entry bound, none. Outputs, and gradients where they are asked for, are written.
    Assumes: which words move does not depend on values; the tolerance holds for all data within the entry bound.
    Regime: any fast memory. Proof: docs/theory/unread_values.md

    >>> unread_values(Workload(n=4096, d=16, tolerance=0.1, entry_bound=0.1)).words == (2 * 4096 - 189) * 16
    True
    """
    rows, keys = workload.heads * workload.batch * workload.queries, workload.kv_heads * workload.batch * workload.keys
    values = workload.kv_heads * _read_keys(workload) * workload.value_dim
    output, gradients = rows * workload.value_dim, rows * workload.d + keys * (workload.d + workload.value_dim)
    words = {
        Direction.FORWARD: values + output,
        Direction.BACKWARD: gradients,
        Direction.TRAINING: values + output + gradients,
    }[workload.direction]
    return LowerBound(
        theorem="unread-values",
        words=words,
        strength=Strength.ABSOLUTE,
        covers="any algorithm within the tolerance (it may skip inputs)",
        regime="any fast memory: what is written, and the values that the tolerance does not allow to skip",
        assumptions=(
            "inputs start and outputs end in slow memory",
            "which words move does not depend on values",
            "the tolerance holds for all data within the entry bound",
        ),
        page="docs/theory/unread_values.md",
    )


def _read_keys(workload: Workload) -> int:
    """Keys of a KV head, over the batch, whose value of a column is read at least."""
    read = sum(
        (longest - skippable_keys(workload, longest)) * count
        for longest, count in ((_longest_row(pattern), count) for pattern, count in workload.separate_patterns)
    )
    if isinstance(workload.mask, SharedPrefix):  # what is read of the prefix serves every request
        return max(read, workload.batch * read - (workload.batch - 1) * workload.mask.length)
    return workload.batch * read


def _longest_row(pattern: Pattern) -> int:
    """Keys of a row that has as many as any; of a band one of the four where its ends begin or cease to move."""
    if isinstance(pattern, BlockPattern):
        starts = np.arange(0, pattern.rows, pattern.layout.query_block, dtype=np.int64)
        return int(np.max(pattern.widths(starts, starts + 1)))
    assert isinstance(pattern, Band)
    first, end = pattern.live_range
    if end <= first:
        return 0
    turns = (first, end - 1, pattern.left - pattern.shift, pattern.keys - pattern.shift - pattern.right - 1)
    rows = (min(max(int(row), int(first)), int(end) - 1) for row in turns)
    return max(int(pattern.widths(row, row + 1)) for row in rows)
