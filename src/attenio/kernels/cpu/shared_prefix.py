"""Shared prefix: the rows of all requests are stacked under one another, so that the prefix is read once for all.

for each KV head, each tile i of requests:
    stack the rows of the requests of i;  (O, max, sum) over the prefix keys, by AttenIO's order
for each request: (O, max, sum) over its own keys
merge the two, row by row
"""

from dataclasses import replace

from attenio.kernels.cpu.attenio import attenio
from attenio.kernels.cpu.online_softmax import Sums
from attenio.kernels.cpu.tiles import Keys
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import Part, Visibility

__all__ = ["can_stack", "shared_prefix", "stacked"]


def can_stack(problem: KernelProblem) -> bool:
    """Whether there is a prefix to share and every query sees all of it, undropped."""
    prefix = problem.everything._replace(keys=slice(0, problem.prefix))
    worth = problem.prefix > 0 and problem.batch > 1 and problem.dropout is None
    return worth and problem.visible.is_whole(prefix)


def stacked(problem: KernelProblem) -> KernelProblem:
    """One sequence whose positions are those of all requests, over the keys of the prefix."""
    _, _, group, _, _ = problem.query.shape
    query = problem.query.permute(1, 2, 0, 3, 4).flatten(2, 3)[None]
    key, value = (tensor[:1, :, : problem.prefix] for tensor in (problem.key, problem.value))
    return replace(problem, query=query, key=key, value=value, visible=Visibility(group=group), prefix=0)


def shared_prefix(together: KernelProblem, part: Part, keys: Keys, *, subtracts: bool) -> Sums:
    """The sums of a tile of stacked positions over the prefix."""
    return attenio(together, part, keys, subtracts=subtracts)
