"""A mask as the caller named it, and what it counts as where that is something else."""

from attenio.masks import Dense, SlidingWindow
from attenio.quantities import show_count
from attenio.workload import Workload


def told_mask(workload: Workload) -> str:
    """The mask in a message that says why something is not for it.

    >>> told_mask(Workload(n=24, d=4, mask="causal")), told_mask(Workload(queries=1, keys=24, d=4, mask="causal"))
    ('the mask is causal', 'the mask is causal, which is dense with one query')
    >>> told_mask(Workload(n=24, d=4, mask="window:24"))
    'the mask is window:24, which is causal with 24 keys'
    """
    mask, told = workload.mask, f"the mask is {workload.mask}"
    if not isinstance(mask, Dense) and all(pattern.is_dense for pattern, _ in workload.separate_patterns):
        return (
            f"{told}, which is dense with {'one query' if workload.queries == 1 else show_count(workload.keys, 'key')}"
        )
    if isinstance(mask, SlidingWindow) and mask.causal and mask.width >= workload.keys:
        return f"{told}, which is causal with {show_count(workload.keys, 'key')}"
    return told
