"""Requests behind a shared prefix, stacked: one sequence whose rows are those of all requests."""

from dataclasses import replace

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility


def can_stack(problem: KernelProblem) -> bool:
    """Whether there is a prefix to share and every query sees all of it, undropped."""
    worth = problem.prefix > 0 and problem.batch > 1 and problem.dropout is None
    return worth and problem.visible.is_whole(problem.everything._replace(keys=slice(0, problem.prefix)))


def stacked(problem: KernelProblem) -> KernelProblem:
    """One sequence whose positions are those of all requests, over the keys of the prefix."""
    _, _, group, _, _ = problem.query.shape
    query = problem.query.permute(1, 2, 0, 3, 4).flatten(2, 3)[None]
    key, value = (tensor[:1, :, : problem.prefix] for tensor in (problem.key, problem.value))
    return replace(
        problem, query=query, key=key, value=value, visible=Visibility(group=group), prefix=0, only_output=False
    )  # fmt: skip
