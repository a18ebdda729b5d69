"""One new token on pages of its own on Hopper without one: the kernel's own source interpreted, and what it becomes."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch
from gluon_interpreter import TmaDescriptor, interpreted, launch
from offline_compiler import instructions_of

from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.pages.plan import plan_of
from attenio.kernels.call.pages.problem import paged_problem
from attenio.kernels.gpu import counters
from attenio.kernels.hopper import pages
from attenio.kernels.triton import pages as portable
from attenio.kernels.triton.launching import launch_noted as noted
from kernels.pages.paging import Requests, exact


@pytest.fixture
def on_cpu(monkeypatch):
    needed = tuple(f"attenio.kernels.hopper.{name}" for name in ("capping", "merging", "split_keys"))
    kernel = interpreted("attenio.kernels.hopper.split_pages", needed).split_pages_kernel
    launched = []

    def on_interpreter(asked, programs, described, arguments, constants, _options):
        launched.append(asked.__name__)
        launch(kernel, (programs,), *(TmaDescriptor(x.base, x.block_shape) for x in described), *arguments, *constants)

    monkeypatch.setattr(pages, "launch", on_interpreter)
    monkeypatch.setattr(pages, "processors_of", lambda _device: 8)
    return launched


def problem_of(requests, **options):
    given = CallArguments(pages=requests.table, lengths=requests.lengths, is_causal=True)
    return paged_problem(requests.q.transpose(0, 1)[:, :, None], requests.k, requests.v, given._replace(**options))


def half(lengths, **sizes):
    return Requests(lengths, [1] * len(lengths), dtype=torch.float16, **({"width": (64, 64), "page_size": 64} | sizes))


FORMS = {
    "pages of 64, in runs": {"lengths": [900, 130], "heads": (8, 2)},
    "pages of 256, whole tiles": {"lengths": [512, 256, 768], "page_size": 256, "heads": (6, 2), "width": (128, 128)},
    "widths that no power of two is": {"lengths": [300], "page_size": 128, "heads": (3, 1), "width": (80, 48)},
    "one key, and none": {"lengths": [1, 0, 65], "heads": (4, 1), "width": (32, 32)},
    "as many heads as a block has rows": {"lengths": [70, 200], "heads": (16, 1)},
    "heads of their own": {"lengths": [200, 64], "page_size": 192, "heads": (2, 2)},
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("sunk", [False, True])
def test_pages_give_what_the_definition_gives(on_cpu, name, sunk):
    torch.manual_seed(0)
    requests = half(**FORMS[name])
    sinks = torch.randn(2 * requests.q.shape[0])[::2] if sunk else None  # as a part of other numbers
    problem = problem_of(requests, sinks=sinks)
    assert pages.why_not_apart(problem) is None
    right, sums = exact(requests, causal=True, sinks=problem.sinks)
    for _ in range(2):  # counters are zero again
        output, lse = pages.attend(problem, None)
        assert float((output.transpose(0, 1).double() - right).norm() / right.norm()) < 6e-3
        torch.testing.assert_close(lse.T.double(), sums, rtol=1e-4, atol=1e-3)
    assert on_cpu == ["split_pages_kernel"] * 2 and not any(held.any() for held in counters._of_streams.values())


def broken(place, page=None, length=None):
    """Two requests, the second of which has an impossible page or length."""
    problem = problem_of(half([300, 300]), sinks=torch.randn(4))
    if page is not None:
        problem.placement.table[1, place] = page
    if length is not None:
        problem.placement.lengths[1] = length
    return problem


@pytest.mark.parametrize(
    "given",
    [(0, -1), (2, 10**6), (4, -7), (4, 2**31 - 1), (0, None, -1), (0, None, 321), (0, None, 2**31 - 1)],
    ids=str,
)
def test_impossible_pages_and_lengths_make_nan_of_their_request_as_in_the_portable_kernel(on_cpu, given):
    problem = broken(*given)
    mine, theirs = pages.attend(problem, None), portable.attend(problem, None)
    for found, other in zip(mine, theirs, strict=True):
        assert found[0].isfinite().all() and found[1].isnan().all()
        torch.testing.assert_close(found, other, rtol=2e-3, atol=2e-3, equal_nan=True)
    assert on_cpu == ["split_pages_kernel"]


@pytest.mark.parametrize("length, finite", [(0, True), (64, True), (192, True), (193, False)])
def test_places_past_the_last_key_mean_nothing(on_cpu, length, finite):
    problem = broken(3, page=-1, length=length)
    assert bool(pages.attend(problem, None)[0][1].isfinite().all()) == finite and on_cpu


def test_keys_past_the_last_may_be_anything(on_cpu):
    requests = half([100])
    for pool in (requests.k, requests.v):
        pool[requests.table[0, 1].long(), 36:] = torch.nan
    assert pages.attend(problem_of(requests), None)[0].isfinite().all() and on_cpu


def test_queries_and_pages_may_lie_anywhere_that_tma_can_load_from(on_cpu):
    requests = half([200, 100], heads=(4, 2))
    right, _ = exact(requests)
    requests.q = torch.cat((requests.q, requests.q), 2)[..., :64]
    requests.k, requests.v = torch.cat((requests.k, requests.v), 3).split(64, 3)
    requests.table = torch.cat((requests.table, requests.table), 1)[:, : requests.table.shape[1]]
    output, _ = pages.attend(problem_of(requests), None)
    torch.testing.assert_close(output.transpose(0, 1).double(), right, rtol=5e-3, atol=5e-3)
    assert on_cpu == ["split_pages_kernel"]


def test_what_is_no_single_token_on_large_pages_is_left_to_portable_kernels():
    whole = half([70])
    several = CallArguments(pages=whole.table, lengths=whole.lengths, cu_seqlens=whole.starts, is_causal=True)
    none = half([0])
    none.table = none.table[:, :0]
    assert pages.why_not_apart(problem_of(whole)) is None
    for other, reason in (
        (problem_of(half([70], page_size=16)), "one page"),
        (problem_of(half([70], page_size=96)), "one page"),
        (problem_of(whole, softcap=3.0), "caps"),
        (problem_of(whole, window=5), "all keys"),
        (paged_problem(whole.q, whole.k, whole.v, several), "one new token"),
        (problem_of(half([70], heads=(17, 1))), "16 rows"),
        (problem_of(half([70], width=(64, 20))), "columns"),
        (problem_of(half([70], width=(24, 64))), "columns"),
        (problem_of(Requests([70], [1], page_size=64, width=(64, 64), dtype=torch.float32)), "16-bit"),
        (problem_of(none), "no places"),
    ):
        assert reason in pages.why_not_apart(other)
    whole.k = torch.randn(*whole.k.shape[:3], 65).half()[..., :64]
    assert "TMA" in pages.why_not_apart(problem_of(whole))


class OnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True


@pytest.mark.parametrize("size", [16, 64, 128])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_what_is_launched_is_what_is_explained(on_cpu, monkeypatch, size, softcap):
    explain = import_module("attenio.kernels.explain")  # the package has a function of that name
    monkeypatch.setattr(explain, "is_hopper", lambda _device: True)
    monkeypatch.setattr(
        portable, "launch_noted", lambda kernel, *given: (on_cpu.append(kernel.__name__), noted(kernel, *given))
    )
    problem = problem_of(half([200, 100], page_size=size), softcap=softcap)
    pages.attend(problem, plan_of(problem))
    told = explain._runs_on_pages(replace(problem, query=problem.query.as_subclass(OnGpu)), together=False)
    assert [name for name in ("split_pages_kernel", "paged_kernel") if name in told] == on_cpu
    assert ("in Gluon" in told) == (on_cpu == ["split_pages_kernel"]) == (size >= 64 and softcap is None)


def test_the_kernel_comes_first_and_others_are_measured_beside_it_where_keys_are_many(monkeypatch):
    tried = []
    monkeypatch.setattr(
        portable, "tuned", lambda name, candidates, _run, _device, flops: tried.append((candidates, flops))
    )
    for places in (2**13 - 1, 2**13):  # of 16 KB each
        requests = half([60], heads=(1, 1))
        requests.table = requests.table.expand(1, places)
        pages.attend(problem_of(requests), None)
    (few, unmeasured), (many, measured) = tried
    assert few == many and few[0] == pages.APART_TILES and not any(each.gluon for each in few[1:]) and len(few) > 2
    assert unmeasured == 0 < measured


_BUILT = """
from attenio.kernels.hopper.split_pages import split_pages_kernel as kernel

def built(joins, sinks):
    fixed = dict(ROWS=16, KEY_TILE=64, STAGES=3, KEY_WARPS=4, PAGE=64, PACK=4, D=128, WIDTH=128,
                 D_PADDED=128, W_PADDED=128, LOG2_E=1.4426950408889634, PART_ROWS=4, JOINS=joins, AT_ONCE=16, EVEN=True)
    fixed |= {} if sinks else {"Sinks": None}
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name in "KV":
            signature[name] = descriptor([1, 64, 1, 128], "bf16")
        else:
            signature[name] = ("*bf16" if name in ("Q", "O") else "*i32" if name in ("Arrived", "Table", "Lengths")
                               else "*fp32" if name[0].isupper() else "fp32" if name == "scale" else "i32")
    return compiled(kernel, signature, constants, {"num_warps": 4, "launch_pdl": True})
"""


def test_the_kernel_spills_nothing_and_two_blocks_fit_an_sm():
    for found in instructions_of(_BUILT, [(True, False), (False, True)]):
        assert found["LDL"] == found["STL"] == found["CALL.REL"] == 0 and found["overwritten barriers"] == 0
        assert 2 * (found["shared"] + 1024) <= 228 * 2**10
        assert found["HMMA"] == 2 * 8 * 2 and found["UTMALDG"] == 2 * (3 + 1)
