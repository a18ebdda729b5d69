"""Shared prefix: the rows of all requests are stacked under one another, so that the prefix is read once for all.

for each KV head, each tile i of requests:
    stack the rows of the requests of i;  (O, max, sum) over the prefix keys, by AttenIO's order
for each request: (O, max, sum) over its own keys
merge the two, row by row
"""

from attenio.kernels.cpu.attenio import attenio
from attenio.kernels.cpu.fused import can_fuse_rows, fused_rows
from attenio.kernels.cpu.online_softmax import Sums
from attenio.kernels.cpu.tiles import Keys
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import Part

__all__ = ["shared_prefix"]


def shared_prefix(together: KernelProblem, part: Part, keys: Keys, *, subtracts: bool) -> Sums:
    """The sums of a tile of stacked positions over the prefix."""
    if not subtracts and can_fuse_rows(together):
        return fused_rows(together, part)
    return attenio(together, part, keys, subtracts=subtracts)
