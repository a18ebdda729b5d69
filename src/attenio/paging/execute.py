"""Run a plan on pages: real numbers through the counted memory, part by part as the plan says.

>>> from attenio.paging.best import plan_pages
>>> plan = plan_pages(PagedWorkload(lengths=(20, 33), page_size=8, d=4, heads=2, kv_heads=1, kv_bits=8), 100)
>>> run = execute_pages(plan)
>>> run.moved_words == plan.moved_words, run.peak_words == plan.peak_words
(True, True)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.host import HOST_LIMIT_BYTES
from attenio.errors import DoesNotFit
from attenio.memory import FastMemory, Trace
from attenio.names import checked_kind
from attenio.paging.inputs import PagedInputs, accumulator_of, paged_attention, random_paged_inputs
from attenio.paging.plan import PagingPlan
from attenio.paging.shared_pages import PagedProblem, shared_pages
from attenio.paging.workload import PagedWorkload
from attenio.quantities import show_bytes

_BYTES_PER_VALUE = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class PagedRun:
    """One execution of a plan; ``max_abs_error`` is the largest distance from the float64 definition on its inputs."""

    plan: PagingPlan
    output: NDArray[np.float32]
    trace: Trace
    moved_words: int
    peak_words: int
    max_abs_error: float


def execute_pages(
    plan: PagingPlan, *, inputs: PagedInputs | None = None, seed: int = 0, record: bool = False
) -> PagedRun:
    """Execute a plan on its fast memory; inputs are random from ``seed`` when left out.

    The run stops with MemoryOverflow when the plan does not fit, and with DoesNotFit when this computer cannot hold it.
    """
    checked_kind(plan, PagingPlan, "plan", "a PagingPlan, such as plan_pages(workload, fast_words)")
    workload = plan.workload
    _check_host(workload)
    given = random_paged_inputs(workload, seed) if inputs is None else inputs
    fast = FastMemory(plan.fast_words, intermediate_words=workload.accumulator_words, trace=Trace(record=record))
    output = np.empty((workload.heads, sum(workload.new), workload.value_dim), dtype=np.float32)
    arithmetic = Arithmetic(scale=1.0, accumulator=accumulator_of(workload), wide=False)
    for kv_head in range(workload.kv_heads):
        problem = PagedProblem.of(plan, given, kv_head, arithmetic)
        fast.trace.problem = f"KV head {kv_head}"
        with np.errstate(over="ignore", under="ignore"):
            shared_pages(problem, plan, fast)
        _copy_out(problem, output[kv_head * workload.group : (kv_head + 1) * workload.group])
    exact = paged_attention(given, workload)
    return PagedRun(
        plan=plan, output=output, trace=fast.trace, moved_words=fast.trace.moved_words, peak_words=fast.peak_words,
        max_abs_error=float(np.abs(output - exact).max()),
    )  # fmt: skip


def _copy_out(problem: PagedProblem, output: NDArray[np.float32]) -> None:
    """Rows (request, head, token) to (heads, tokens of all requests)."""
    workload, token = problem.workload, 0
    for request, new in enumerate(workload.new):
        rows = problem.O.values[problem.starts[request] : problem.starts[request + 1]]
        output[:, token : token + new] = rows.reshape(workload.group, new, -1)
        token += new


def _check_host(workload: PagedWorkload) -> None:
    pages = 1 + max(max(row) for row in workload.table)
    keys = pages * workload.page_size * workload.kv_heads * (workload.d + workload.value_dim)
    held = 4 * _BYTES_PER_VALUE * (keys + workload.heads * sum(workload.new) * (workload.d + workload.value_dim))
    if held > HOST_LIMIT_BYTES:
        raise DoesNotFit(
            f"running {workload} would take {show_bytes(held)} of this computer's memory, over the limit of"
            f" {show_bytes(HOST_LIMIT_BYTES)}; use shorter requests"
        )
