"""Two ranks for every KV head, tokens in order: late rows with all keys and the triangle before them, or their mirror.

Pairs of own tokens are computed at home in all heads, so that nobody needs rows of the first tokens or keys of the last
ones. Of the rest of a head one rank has all keys and the late rows, and the other the first rows; or one has all rows
and the first keys, and the other the last keys. In the first kind a rank with late tokens has use for these as rows and
as keys, in the second kind one with early tokens. So both kinds together save most, where rows and keys are as many
words, and the second where keys are more. docs/theory/devices_causal.md#patches

>>> table = halves(4, 2)
>>> table.devices, table.blocks, set(table.pairs(1600))
(8, 16, {640400})
"""

from functools import lru_cache

import numpy as np

from attenio.cluster.layout import Counts
from attenio.cluster.patches.layout import Patchwork

_EACH = 2  # blocks of a rank


@lru_cache(maxsize=16)
def halves(heads: int, by_rows: int) -> Patchwork:
    """The patchwork of so many KV heads on twice as many ranks, ``by_rows`` of them in halves of rows."""
    ranks, by_keys = 2 * heads, heads - by_rows
    owners = np.arange(_EACH * ranks, dtype=np.int64) // _EACH
    rows, keys = np.tril_indices(len(owners))
    apart = owners[rows] != owners[keys]
    half = int(apart.sum()) // 2
    # late tokens with all keys, early tokens with all rows, and those between with the triangles
    whole = [*range(ranks - by_rows, ranks), *range(by_keys)]
    others = range(by_keys, ranks - by_rows)
    makers = []
    for head, (first, second) in enumerate(zip(whole, others, strict=True)):
        order = np.lexsort((keys, rows) if head < by_rows else (-rows, -keys))
        maker: Counts = np.where(apart, first, owners[rows])
        maker[order[apart[order]][:half]] = second
        makers.append(tuple(maker.tolist()))
    return Patchwork(owners=tuple(owners.tolist()), makers=tuple(makers))
