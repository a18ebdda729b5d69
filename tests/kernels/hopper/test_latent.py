"""Latents on Hopper without one: which are taken, the Gluon kernel's own source interpreted, what it compiles to."""

from dataclasses import replace

import pytest
import torch
from gluon_interpreter import TmaDescriptor, interpreted, launch
from hypothesis import given
from hypothesis import strategies as st
from offline_compiler import instructions_of

from attenio.kernels import cpu, hopper
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E, with_sink
from attenio.kernels.hopper import latent
from attenio.kernels.hopper.joined_runs import join_kernel


def problem_of(batch, kv_heads, group, queries, keys, d, dtype=torch.bfloat16, **options):
    q = torch.randn(batch, kv_heads * group, queries, d).to(dtype)
    k = torch.randn(batch, kv_heads, keys, d).to(dtype)
    visible = visibility_of(q, k, CallArguments(**options), (batch,))
    return KernelProblem.of_heads(q, k, k[..., :512], visible, d**-0.5)


CASES = {
    "decode": lambda: problem_of(2, 1, 5, 1, 300, 576),
    "no columns that only scores need": lambda: problem_of(1, 1, 80, 1, 130, 512, torch.float16),
    "some columns that only scores need": lambda: problem_of(1, 2, 5, 1, 200, 520),
    "several tokens, causal": lambda: problem_of(1, 1, 24, 3, 500, 576, is_causal=True),
    "a window": lambda: problem_of(1, 1, 16, 2, 400, 576, window=70),
    "one key": lambda: problem_of(1, 1, 1, 1, 1, 576),
    "packed sequences": lambda: problem_of(
        1, 1, 3, 5, 300, 576, cu_seqlens=(torch.tensor([0, 2, 5]), torch.tensor([0, 130, 300]))
    ),
}


@pytest.fixture
def on_cpu(monkeypatch):
    kernel = interpreted(
        "attenio.kernels.hopper.split_latents", ("attenio.kernels.hopper.producer",)
    ).split_latents_kernel

    def on_interpreter(called, programs, described, arguments, constants, _options):
        if called is join_kernel:
            return join_kernel[(programs,)](*arguments, *constants[:-1], False)
        return launch(
            kernel, (programs,), *(TmaDescriptor(x.base, x.block_shape) for x in described), *arguments, *constants
        )

    monkeypatch.setattr(latent.cuda, "tiles_of", lambda _problem: None)
    monkeypatch.setattr(latent, "launch", on_interpreter)
    monkeypatch.setattr(latent, "processors_of", lambda _device: 6)


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_gives_what_the_cpu_gives(on_cpu, name):
    torch.manual_seed(0)
    problem = CASES[name]()
    assert latent.why_not(problem) is None
    mine, theirs = latent.attend(problem), cpu.attend(problem)
    unit, size = torch.finfo(problem.query.dtype).eps, max(1.0, float(theirs.output.abs().max()))
    assert mine.output.isfinite().all()
    assert float((mine.output.float() - theirs.output.float()).abs().max()) <= unit * size
    sums = [each.largest + each.total.log2() for each in (mine, theirs)]
    assert torch.allclose(*sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["decode", "several tokens, causal"])
def test_sinks_are_one_weight_more_whatever_keys_are_split_into(on_cpu, name):
    torch.manual_seed(0)
    problem = CASES[name]()
    sinks = torch.cat((torch.tensor([-torch.inf, 90.0]), torch.randn(problem.group)))[: problem.group]
    mine, plain = latent.attend(replace(problem, sinks=sinks)), cpu.attend(problem)
    largest, total, share = with_sink(plain.largest, plain.total, (sinks * LOG2_E).view(1, problem.group, 1))
    torch.testing.assert_close(mine.output.float(), plain.output.float() * share[..., None], atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(mine.largest + mine.total.log2(), largest + total.log2(), atol=1e-4, rtol=1e-4)


def test_a_latent_is_taken_and_its_choice_says_that_it_is_read_once():
    choice = hopper.choose(problem_of(1, 1, 128, 1, 8192, 576), 132)
    assert choice.name == "split_latents_kernel" and choice.values_in_keys
    assert choice.split.first == 0 and choice.split.stop == 8192 and choice.split.splits > 16


def test_what_is_no_latent_is_left_to_others():
    whole = CASES["decode"]()
    apart = replace(whole, value=whole.value.clone())
    for other, reason in (
        (apart, "no part"), (replace(whole, softcap=30.0), "caps"), (problem_of(1, 1, 4, 65, 70, 576), "64 queries"),
        (problem_of(1, 1, 4, 1, 70, 576, torch.float32), "16-bit"),
        (problem_of(1, 1, 4, 1, 70, 576, attn_mask=torch.ones(1, 1, 1, 70)), "masks"),
    ):  # fmt: skip
        assert reason in latent.why_not(other)


@given(st.integers(1, 5000), st.integers(1, 300), st.integers(1, 300), st.integers(1, 200))
def test_every_run_has_a_tile(total, batch_heads, rows, processors):
    assert 1 <= latent.splits_for(total, batch_heads, rows, processors) <= total


def test_runs_fill_the_gpu_once_where_sequences_are_few():
    assert latent.splits_for(2048, 1, 128, 132) == 64
    assert latent.splits_for(128, 32, 128, 132) == 2
    assert latent.splits_for(128, 128, 128, 132) == 1


_BUILT = """
from attenio.kernels.hopper.split_latents import split_latents_kernel as kernel

def built(rope, ranged, sinks):
    fixed = dict(KEY_TILE=64, STAGES=3, ROPE=rope, RANGED=ranged, SINKS=sinks, VALUE_REGISTERS=160)
    fixed |= {} if ranged else {"First": None, "Stop": None}
    signature, constants = {}, {}
    for index, name in enumerate(kernel.arg_names):
        if name in fixed:
            signature[name], constants[(index,)] = "constexpr", fixed[name]
        elif name[1:] in ("_wide", "_narrow"):
            signature[name] = descriptor([1, 1, 64, 256 if name[1:] == "_wide" else 64], "bf16")
        else:
            signature[name] = ("*i64" if name in ("First", "Stop") else "*fp32" if name[0].isupper()
                               else "fp32" if name == "scale_log2" else "i32")
    return compiled(kernel, signature, constants, {"num_warps": 4, "maxnreg": 168, "launch_pdl": True})
"""


def test_the_kernel_spills_nothing_and_its_products_are_not_serialized():
    (found,) = instructions_of(_BUILT, [(True, True, True)])
    assert found["shared"] <= 227 * 2**10 and found["overwritten barriers"] == 0
    assert found["LDL"] == found["STL"] == found["CALL.REL"] == 0
    # Scores twice (before the loop and in it), 16 columns deep; values once for each warpgroup, 16 keys deep.
    assert found["HGMMA"] == 2 * 36 + 2 * 4
    assert found["WARPGROUP.ARRIVE"] < found["HGMMA"] // 4
