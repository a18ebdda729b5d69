"""Attention on pages: the arguments of ``attention`` and ``explain`` that go with them, and the backend that runs."""

from typing import Any

from torch import Tensor

from attenio.errors import InvalidInput, MissingExtra
from attenio.kernels.call.checks import check_switches
from attenio.kernels.call.pages.plan import plan_of
from attenio.kernels.call.pages.problem import PageArguments, PagedProblem, paged_problem
from attenio.kernels.cpu import pages as cpu_pages

# Arguments of ``attention`` that pages do not go with, in this order wherever they are handed over.
NOT_TAKEN = ("attn_mask", "dropout_p", "segment_ids", "segments", "block_mask", "prefix", "mask", "tolerance")


def attend_pages(query: Tensor, key: Tensor, value: Tensor, asked: PageArguments, others: tuple[Any, ...]) -> Any:
    """The output in the shape of the query, with its log-sum-exp if that is asked for."""
    problem = problem_on_pages(query, key, value, asked, others)
    if problem.query.is_cpu:
        plan = plan_of(problem)
        assert plan is not None
        output, lse = cpu_pages.attend(problem, plan)
    else:
        raise MissingExtra("attention on pages on a GPU", "triton")
    lead = (*query.shape[:-3], query.shape[-2], query.shape[-3])  # tokens before heads, as they are computed
    output = output.view(*lead, problem.width).transpose(-2, -3)
    return (output, lse.view(lead).transpose(-1, -2)) if asked.return_lse else output


def problem_on_pages(
    query: Tensor, key: Tensor, value: Tensor, asked: PageArguments, others: tuple[Any, ...]
) -> PagedProblem:
    """The problem of a call that has none of the ``others``."""
    check_switches(return_lse=asked.return_lse)
    for name, each in zip(NOT_TAKEN, others, strict=True):
        if each is not None and not (isinstance(each, float | int) and each == 0.0 and name == "dropout_p"):
            raise InvalidInput(f"{name} is given with pages=, which takes none; leave one of them out")
    return paged_problem(query, key, value, asked)
