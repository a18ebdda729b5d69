"""The words of memory that every rank of a layout in strips holds at its peak.

Forward: own tokens with all heads, room for their outputs, and sums of the rows of its part; beside them either the
rows and keys of its part, or, when those are done with, the outputs of its own rows that are being added up and room
for a message about them. Backward: the same with gradients. A training step keeps the log-sum-exps of own rows.
"""

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.strips.layout import Strips
from attenio.workload import Direction, Workload


def strips_memory(workload: Workload, strips: Strips) -> NDArray[np.int64]:
    """Words that every rank holds at its peak; a training step in that of its passes that holds more.

    >>> workload = Workload(n=1024, d=64, heads=8, mask="causal")
    >>> int(strips_memory(workload, Strips(counts=(3, 2, 2))).max())
    1009312
    """
    tokens, h = workload.keys, strips.heads
    products = strips.products(tokens)
    return np.array(
        [
            _peak(workload, h, (len(home), len(products[rank // h].rows), len(products[rank // h].keys)))
            for rank, home in enumerate(strips.homes(tokens))
        ],
        dtype=np.int64,
    )


def _peak(workload: Workload, groups: int, sizes: tuple[int, int, int]) -> int:
    own, rows, keys = sizes
    batch, wide, d, width, key = (
        workload.batch, workload.accumulator_words, workload.d, workload.value_dim, workload.key_words,
    )  # fmt: skip
    q, kv = batch * workload.heads, batch * workload.kv_heads
    of_q, of_kv = q // groups, kv // groups
    step, peaks = workload.is_training, []
    kept = q * own * wide
    home = q * own * (d + width) + kv * own * key
    if workload.direction is not Direction.BACKWARD:
        sums = of_q * rows * (width + 2) * wide
        merging = q * own * (width + 1) * wide + of_q * own * (width + 1) * wide
        peaks.append(home + kept * step + sums + max(of_q * rows * d + of_kv * keys * key, merging))
    if workload.direction is not Direction.FORWARD:
        home += q * own * (d + width) + kv * own * key + 2 * kept
        sums = of_q * rows * d * wide + of_kv * keys * key * wide
        part = of_q * rows * (d + width + 2 * wide) + of_kv * keys * key
        merging = q * own * d * wide + kv * own * key * wide
        peaks.append(home + sums + max(part, merging + max(of_q * own * d, of_kv * own * key) * wide))
    return max(peaks)
