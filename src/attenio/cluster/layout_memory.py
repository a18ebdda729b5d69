"""The words of memory that every rank of a layout holds at its peak.

Own tokens with all heads and room for their results; sums of the rows of its part, backward of its keys too; beside
them either the rows and keys of its part, or what comes home, with room for the longest message about it. A training
step keeps the log-sum-exps of own rows.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.layout import Layout
from attenio.workload import Direction, Workload

Counts = NDArray[np.int64]


def layout_memory(workload: Workload, layout: Layout) -> Counts:
    """Words that every rank holds at its peak; a training step in that of its passes that holds more.

    >>> from attenio.cluster.strips import Strips
    >>> workload = Workload(n=1024, d=64, heads=8, mask="causal")
    >>> int(layout_memory(workload, Strips(counts=(3, 2, 2))).max())
    1009312
    """
    tokens = workload.keys
    held = [layout.held(tokens, rank) for rank in range(layout.devices)]
    rows, keys = ([sum(len(getattr(one, name)) for one in each) for each in held] for name in ("rows", "keys"))
    every = zip(layout.homes(tokens), rows, keys, *layout.longest_messages(tokens), strict=True)
    peaks = [_peak(workload, layout.heads, (len(home), *sizes)) for home, *sizes in every]
    return np.array(peaks, dtype=np.int64)


def _peak(workload: Workload, heads: int, tokens: tuple[int, ...]) -> int:
    own, rows, keys, of_rows, of_keys = map(int, tokens)  # the last four over all head groups
    batch, wide, d, width, key = (
        workload.batch, workload.accumulator_words, workload.d, workload.value_dim, workload.key_words,
    )  # fmt: skip
    q, kv = batch * workload.heads, batch * workload.kv_heads
    of_q, of_kv = q // heads, kv // heads
    peaks = []
    kept = q * own * wide
    home = q * own * (d + width) + kv * own * key
    if workload.direction is not Direction.BACKWARD:
        sums = of_q * rows * (width + 2) * wide
        merging = (q * own + of_q * of_rows) * (width + 1) * wide
        part = of_q * rows * d + of_kv * keys * key
        peaks.append(home + kept * workload.is_training + sums + max(part, merging))
    if workload.direction is not Direction.FORWARD:
        home += q * own * (d + width) + kv * own * key + 2 * kept
        sums = of_q * rows * d * wide + of_kv * keys * key * wide
        part = of_q * rows * (d + width + 2 * wide) + of_kv * keys * key
        merging = q * own * d * wide + kv * own * key * wide
        peaks.append(home + sums + max(part, merging + max(of_q * of_rows * d, of_kv * of_keys * key) * wide))
    return max(peaks)
