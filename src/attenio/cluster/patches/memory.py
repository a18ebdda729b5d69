"""The words of memory that every rank of a patchwork holds at its peak.

As in strips: own tokens with all heads and room for their results; sums of the rows of its part, backward of its keys
too; beside them either the rows and keys of its part, or what comes home, with room for the longest message about it.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.patches.layout import Choices, Counts, Patchwork, holdings
from attenio.workload import Direction, Workload


def patches_memory(workload: Workload, patchwork: Patchwork) -> NDArray[np.int64]:
    """Words that every rank holds at its peak; a training step in that of its passes that holds more."""
    sizes, has = patchwork.sizes(workload.keys), holdings(patchwork)
    rows, keys = ((each * sizes).sum(axis=(1, 2)) for each in (has.rows, has.keys))
    of_rows, of_keys = (longest_message(patchwork, each, sizes) for each in (has.rows, has.keys))
    peaks = [
        _peak(workload, patchwork.heads, (len(home), int(rows[p]), int(keys[p]), int(of_rows[p]), int(of_keys[p])))
        for p, home in enumerate(patchwork.homes(workload.keys))
    ]
    return np.array(peaks, dtype=np.int64)


def longest_message(patchwork: Patchwork, has: Choices, sizes: Counts) -> Counts:
    """Own tokens, over the heads of the table, that some other rank computes with: of the rank with most."""
    owners = np.array(patchwork.owners, dtype=np.int64)
    mine = owners[None] == np.arange(patchwork.devices, dtype=np.int64)[:, None]  # [home, block]
    shared = (mine * sizes).astype(np.int64) @ has.sum(axis=1).T.astype(np.int64)  # [home, rank]
    np.fill_diagonal(shared, 0)
    most: Counts = shared.max(axis=1)
    return most


def _peak(workload: Workload, heads: int, tokens: tuple[int, int, int, int, int]) -> int:
    own, rows, keys, of_rows, of_keys = tokens  # the last four over the heads of the table
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
