"""Attention on pages: the arguments of ``attention`` and ``explain`` that go with them, and the backend that runs."""

from typing import Any

import torch
from torch import Tensor

from attenio.errors import InvalidInput, MissingExtra
from attenio.kernels.call.checks import check_switches
from attenio.kernels.call.pages.plan import PagedPlan, plan_of
from attenio.kernels.call.pages.problem import PageArguments, PagedProblem, paged_problem
from attenio.kernels.cpu import pages as cpu_pages

# Arguments of ``attention`` that pages do not go with, in this order wherever they are handed over.
NOT_TAKEN = ("attn_mask", "dropout_p", "segment_ids", "segments", "block_mask", "prefix", "mask", "tolerance")


def attend_pages(query: Tensor, key: Tensor, value: Tensor, asked: PageArguments, others: tuple[Any, ...]) -> Any:
    """The output in the shape of the query, with its log-sum-exp if that is asked for."""
    problem = problem_on_pages(query, key, value, asked, others)
    plan = plan_of(problem)
    if problem.query.is_cpu:
        assert plan is not None
        output, lse = cpu_pages.attend(problem, plan, wants_lse=asked.return_lse)
    else:
        output, lse = _on_gpu(problem, plan)
    lead = (*query.shape[:-3], query.shape[-2], query.shape[-3])  # tokens before heads, as they are computed
    output = output.view(*lead, problem.width).transpose(-2, -3)
    if not asked.return_lse:
        return output
    assert lse is not None
    return output, lse.view(lead).transpose(-1, -2)


def _on_gpu(problem: PagedProblem, plan: PagedPlan | None) -> tuple[Tensor, Tensor | None]:
    if not problem.query.is_cuda or problem.query.dtype == torch.float64:
        raise InvalidInput(
            f"pages are {problem.query.dtype} on {problem.query.device}; attention on them is computed on CPUs, and on"
            " NVIDIA GPUs up to float32"
        )
    try:
        from attenio.kernels.triton import pages
    except ImportError:
        raise MissingExtra("attention on pages on a GPU", "triton") from None
    return pages.attend(problem, plan)


def problem_on_pages(
    query: Tensor, key: Tensor, value: Tensor, asked: PageArguments, others: tuple[Any, ...]
) -> PagedProblem:
    """The problem of a call that has none of the ``others``."""
    check_switches(return_lse=asked.return_lse)
    for name, each in zip(NOT_TAKEN, others, strict=True):
        if each is not None and not (isinstance(each, float | int) and each == 0.0 and name == "dropout_p"):
            raise InvalidInput(f"{name} is given with pages=, which takes none; leave one of them out")
    return paged_problem(query, key, value, asked)
