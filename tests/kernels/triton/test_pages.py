"""The kernels on pages in Triton's interpreter against the definition, and what they compile to for Hopper."""

from dataclasses import replace

import pytest
import torch
from tests.kernels.records import portable

from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.pages.bits import quantised
from attenio.kernels.call.pages.plan import plan_of
from attenio.kernels.call.pages.problem import _on_device, paged_problem
from attenio.kernels.triton import pages
from kernels.pages.paging import Requests, exact

FORMS = {
    "one token each": ([70, 33, 0], [1, 1, 1], 16, {}),
    "large pages": ([300, 33], [1, 1], 128, {}),
    "odd pages": ([300, 33], [2, 2], 48, {"causal": True}),
    "speculative": ([100, 70], [8, 3], 32, {"causal": True}),
    "a chunk beside decode": ([90, 100, 17], [60, 1, 17], 16, {"causal": True}),
    "pages of one": ([70, 33], [1, 2], 1, {"causal": True}),
    "window": ([90, 200], [1, 5], 16, {"window": 40}),
    "cap": ([90, 20], [1, 1], 64, {"softcap": 2.0}),
}


def problem_of(requests, *, causal=False, scales=None, **options):
    given = CallArguments(
        pages=requests.table, lengths=requests.lengths, page_scales=scales, cu_seqlens=requests.starts, is_causal=causal
    )
    return paged_problem(requests.q, requests.k, requests.v, given._replace(**options))


def attended(problem, plan=None):
    output, lse = pages.attend(problem, plan)
    return output.transpose(0, 1), lse.T


@pytest.mark.parametrize("form", FORMS)
def test_requests_in_pages_are_the_definition(form):
    lengths, new, size, options = FORMS[form]
    requests = Requests(lengths, new, page_size=size, width=(32, 24), dtype=torch.float32)
    output, lse = attended(problem_of(requests, **options))
    right, sums = exact(requests, **options)
    torch.testing.assert_close(output.double(), right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lse.double(), sums, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("size", [16, 64])
def test_pages_of_8_bits_are_converted_in_the_kernel(kind, size):
    requests = Requests([150, 90], [1, 3], page_size=size, width=(32, 24), prefix=64, dtype=torch.float32)
    requests.k[::2] *= 20
    requests.v[1::2] *= 100
    requests.q = requests.q.bfloat16()
    (requests.k, of_keys), (requests.v, of_values) = (quantised(x, kind) for x in (requests.k, requests.v))
    problem = problem_of(requests, causal=True, scales=(of_keys, of_values))
    right, _ = exact(requests, causal=True, scales=(of_keys, of_values))
    for plan in (None, plan_of(problem)):
        output, _ = attended(problem, plan)
        torch.testing.assert_close(output.double(), right, rtol=1e-2, atol=1e-2 * float(right.abs().max()))


def test_pages_that_requests_share_are_read_once_and_merged():
    requests = Requests([170, 185, 40], [1, 3, 2], prefix=160, heads=(4, 2), dtype=torch.float32)
    problem = problem_of(requests, causal=True, sinks=torch.randn(4))
    plan = plan_of(problem)
    assert not plan.tree.is_flat
    output, lse = attended(problem, plan)
    right, sums = exact(requests, causal=True, sinks=problem.sinks)
    torch.testing.assert_close(output.double(), right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lse.double(), sums, rtol=1e-4, atol=1e-5)


def test_runs_of_keys_are_joined_in_one_launch(monkeypatch):
    monkeypatch.setattr(pages, "splits_for", lambda *_: 3)
    requests = Requests([200, 64, 0], [1, 1, 1], dtype=torch.float32)
    for _ in range(2):  # counters are zero again
        output, _ = attended(problem_of(requests))
        torch.testing.assert_close(output.double(), exact(requests)[0], rtol=1e-4, atol=1e-5)


def test_rows_of_impossible_pages_and_lengths_become_nan_and_no_others():
    requests = Requests([40, 40, 40, 40], [1, 1, 1, 1], dtype=torch.float32)
    problem = problem_of(requests)
    right, _ = exact(requests)
    problem.placement.table[0, 1], problem.placement.table[1, 2] = 10**6, -5
    problem.placement.lengths[2] = 10**7
    output, _ = attended(problem)
    assert output[:, :3].isnan().all()
    torch.testing.assert_close(output[:, 3].double(), right[:, 3], rtol=1e-4, atol=1e-5)


def test_tables_factors_and_sinks_may_have_any_strides():
    requests = Requests([150, 90], [1, 3], page_size=16, heads=(4, 2), width=(32, 24), prefix=64, dtype=torch.float32)
    requests.q = requests.q.bfloat16()
    (requests.k, of_keys), (requests.v, of_values) = (quantised(x, torch.int8) for x in (requests.k, requests.v))
    right, _ = exact(requests, causal=True, scales=(of_keys, of_values), sinks=(sinks := torch.randn(8)[::2]))
    requests.table = requests.table.T.contiguous().T
    scales = tuple(each.T.contiguous().T for each in (of_keys, of_values))
    problem = problem_of(requests, causal=True, scales=scales, sinks=sinks)
    on_a_gpu = replace(problem, placement=_on_device(requests.table, requests.lengths, requests.q))
    for each, plan in ((problem, None), (problem, plan_of(problem)), (on_a_gpu, None)):
        output, _ = attended(each, plan)
        torch.testing.assert_close(output.double(), right, rtol=1e-2, atol=1e-2 * float(right.abs().max()))


_COMPILES = """
import re
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from attenio.kernels.triton.pages_kernels import page_runs_kernel, paged_kernel

STEPS = ("q_t", "q_h", "k_p", "k_n", "k_h", "v_p", "v_n", "v_h", "o_t", "o_h")
FIXED = dict(PACK=4, JOINS=True, D=128, WIDTH=128, D_PADDED=128, W_PADDED=128, HIDES=False, CAPS=False,
             LOG2_E=1.4427, PRECISION="ieee", Starts=None, Sinks=None,
             AT_ONCE=4, OVERLAPS=True)

def built(kernel, keys, stages=5, warps=4, **more):
    given = dict(FIXED, FLOATS=keys == "*fp8e4nv", PTX=keys != "*bf16", **more)
    if keys == "*bf16":
        given |= dict(KScales=None, VScales=None)
    kinds = {"Q": "*bf16", "O": "*bf16", "K": keys, "V": "*bf16" if keys == "*bf16" else "*i16", "scale": "fp32",
             "softcap": "fp32", **dict.fromkeys(("Lse", "Sums", "Statistics", "KScales", "VScales"), "*fp32")}
    signature, constants, aligned = {}, {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in given:
            signature[name], constants[(index,)] = "constexpr", given[name]
            continue
        signature[name] = kinds.get(name, "*i32" if name[0].isupper() else "i32")
        if name[0].isupper() or name in STEPS:
            aligned[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    return compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages})

def facts(kernel, *given, **more):
    text = built(kernel, *given, **more).asm["ptx"]
    waits = max(int(each) for each in re.findall(r"cp.async.wait_group\\s+(\\d+)", text))
    wide = len(re.findall(r"cp.async.cg.shared.global", text))
    return waits > 0 and wide >= 16, "ld.shared.b8" in text, "wgmma" in text, "mma.sync" in text

print(*facts(paged_kernel, "*bf16", ROW_TILE=16, KEY_TILE=64, PAGE=64))
print(*facts(paged_kernel, "*fp8e4nv", ROW_TILE=16, KEY_TILE=64, PAGE=16))
print(*facts(paged_kernel, "*u8", ROW_TILE=16, KEY_TILE=64, PAGE=64))
print(*facts(page_runs_kernel, "*bf16", warps=8, ROW_TILE=128, KEY_TILE=64, PAGE=64))
"""


def test_kernels_on_pages_compile_to_tensor_core_instructions_with_keys_in_flight_and_no_loads_of_single_bytes():
    decode, together = "True False False True", "True False True False"
    assert portable(_COMPILES).splitlines() == [decode] * 3 + [together]


def test_a_run_of_pages_is_cut_into_one_block_a_multiprocessor_and_no_more():
    requests = Requests([4096 + 16] * 64, [1] * 64, page_size=64, heads=(32, 8), width=(2, 2), prefix=4096)
    problem = problem_of(requests)
    runs = list(plan_of(problem).parts[:1])
    tiles = pages.PageTiles(rows=128, keys=64, warps=8, stages=5)
    cut = pages._cut(runs, tiles, problem, 132)
    assert 0.9 * 132 < len(cut) * problem.kv_heads <= 132
    assert sum(len(part.tokens) * (part.stop - part.first) for part in cut) == 64 * 4096
