"""Runs of pages on Hopper without one: the kernel's own source interpreted, and what it compiles to."""

import pytest
import torch
from gluon_interpreter import TmaDescriptor, interpreted, launch
from offline_compiler import instructions_of

from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.pages.plan import plan_of
from attenio.kernels.call.pages.problem import paged_problem
from attenio.kernels.hopper import pages
from kernels.pages.paging import Requests, exact


@pytest.fixture
def on_cpu(monkeypatch):
    kernel = interpreted(
        "attenio.kernels.hopper.page_runs",
        ("attenio.kernels.hopper.online_softmax", "attenio.kernels.hopper.producer"),
    ).gluon_page_runs_kernel
    launched = []

    def on_interpreter(_kernel, programs, described, arguments, constants, _options):
        launched.append(programs)
        launch(kernel, (programs,), *(TmaDescriptor(x.base, x.block_shape) for x in described), *arguments, *constants)

    monkeypatch.setattr(pages, "launch", on_interpreter)
    return launched


def problem_of(requests, **options):
    given = CallArguments(pages=requests.table, lengths=requests.lengths, cu_seqlens=requests.starts, is_causal=True)
    return paged_problem(requests.q, requests.k, requests.v, given._replace(**options))


FORMS = {
    "pages of 64": ([400, 390, 70], [1, 1, 1], 64, 384, (4, 2), 128),
    "pages of 16, several tokens": ([230, 250, 231], [2, 8, 1], 16, 208, (6, 2), 64),
    "pages of 256, more rows than a block has": ([530] * 20, [1] * 20, 256, 512, (16, 2), 128),
}


@pytest.mark.parametrize("name", FORMS)
def test_shared_pages_give_what_the_definition_gives(on_cpu, name):
    torch.manual_seed(0)
    lengths, new, size, prefix, heads, d = FORMS[name]
    requests = Requests(
        lengths, new, page_size=size, heads=heads, width=(d, d), prefix=prefix, dtype=torch.float16
    )  # fmt: skip
    problem = problem_of(requests, sinks=torch.randn(heads[0]))
    plan = plan_of(problem)
    assert not plan.tree.is_flat and pages.why_not(problem) is None
    output, lse = pages.attend(problem, plan)
    right, sums = exact(requests, causal=True, sinks=problem.sinks)
    assert on_cpu
    assert float((output.transpose(0, 1).double() - right).norm() / right.norm()) < 6e-3
    torch.testing.assert_close(lse.T.double(), sums, rtol=1e-4, atol=1e-3)


def test_rows_of_impossible_shared_pages_become_nan(on_cpu):
    requests = Requests([300, 300], [1, 1], page_size=64, width=(64, 64), prefix=256, dtype=torch.float16)
    problem = problem_of(requests)
    plan = plan_of(problem)
    problem.placement.table[:, 1] = 10**6
    assert pages.attend(problem, plan)[0].isnan().all() and on_cpu


def test_what_the_kernel_does_not_take_is_left_to_portable_ones():
    whole = Requests([40, 40], [1, 1], width=(64, 64), prefix=32, dtype=torch.float16)
    assert pages.why_not(problem_of(whole)) is None
    for other, reason in (
        (problem_of(whole, softcap=3.0), "caps"),
        (problem_of(Requests([40], [1], width=(64, 32), dtype=torch.float16)), "columns"),
        (problem_of(Requests([40], [1], width=(64, 64), dtype=torch.float32)), "16-bit"),
        (problem_of(Requests([40], [1], width=(64, 64), page_size=48, dtype=torch.float16)), "whole pages"),
    ):
        assert reason in pages.why_not(other)


_BUILT = """
from attenio.kernels.hopper.page_runs import gluon_page_runs_kernel as kernel

def built(page, d, stages, registers):
    fixed = dict(KEY_TILE=128, STAGES=stages, D=d, PAGE=page, PIECE=min(page, 128), PACK=4, HELD=True,
                 REGISTERS=registers)
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name in ("keys", "values"):
            signature[name] = descriptor([1, min(page, 128), 1, 64], "bf16")
        else:
            signature[name] = ("*bf16" if name == "Q" else "*fp32" if name in ("Sums", "Statistics")
                               else "*i32" if name[0].isupper() else "fp32" if name == "scale_log2" else "i32")
    aligned = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in ("Q", "Sums")}
    return compiled(kernel, signature, constants, {"num_warps": 4, "maxnreg": 168, "launch_pdl": True}, attrs=aligned)
"""


def test_the_kernel_spills_nothing_and_its_products_are_not_serialized():
    for (page, *_), found in zip(
        variants := [(64, 128, 3, 240), (16, 128, 3, 232), (64, 64, 4, 240)],
        instructions_of(_BUILT, variants), strict=True,
    ):  # fmt: skip
        assert found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
        assert found["LDL"] == found["STL"] == found["CALL.REL"] == 0, page
        assert found["WARPGROUP.ARRIVE"] < found["HGMMA"] // 4
