"""Calls of a new size on a Hopper GPU, by what is compiled already and by what is best; a form has its own process."""

import json
import os
import subprocess
import sys

import pytest

_BEFORE = """
import json, sys, time, warnings
import torch
from attenio import attention
from attenio.kernels.hopper import launch_plans
from attenio.kernels.replay import repeating
from attenio.kernels.replay.standing_in import stand_ins
from attenio.measurement.ending import finish_gradients_at_exit

finish_gradients_at_exit()
warnings.filterwarnings("error", ".*(is off by|could not be compiled).*")

def drawn(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)

def exact(q, k, v, above, cap):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    scores = cap * torch.tanh(scores / cap) if cap else scores
    i, j = torch.arange(q.shape[2], device="cuda")[:, None], torch.arange(k.shape[2], device="cuda")
    return torch.softmax(scores.masked_fill(j > i + above, -torch.inf), -1) @ v.double()

def off(mine, theirs):
    return float((mine.double() - theirs).norm() / theirs.norm() / torch.finfo(mine.dtype).eps)

def forward_call(length, d=192, batch=1, causal=True, cap=0.0, **options):
    # How far off the output is, in roundings of its type, and whether a stand-in computed it.
    q, k, v = (drawn(batch, 1, length, d) for _ in range(3))
    before = stand_ins()
    output = attention(q, k, v, is_causal=causal, softcap=cap or None, **options)
    return off(output, exact(q, k, v, 0 if causal else 2**40, cap)), stand_ins() > before

def step(length, d=64, **options):
    leaves = [drawn(2, 3, length, d).requires_grad_() for _ in range(3)]
    doubles = [each.detach().double().requires_grad_() for each in leaves]
    gradient = drawn(2, 3, length, d)
    mine = torch.autograd.grad(attention(*leaves, **options), leaves, gradient)
    right = torch.autograd.grad(exact(*doubles, 2**40, 0.0), doubles, gradient.double())
    return max(off(*each) for each in zip(mine, right))

def until_ready():
    for plan in list(launch_plans.settled.values()):
        if plan.awaited is not None:
            plan.awaited.wait()

def tapes():
    forms = [known for call in repeating._known.values() for known in (call, *call.after.values())]
    return sum(known.tape is not None for known in forms)
"""


def told(code, folder, **environment):
    """What a process says that has nothing compiled; it ends well."""
    caches = {"XDG_CACHE_HOME": str(folder / "attenio"), "TRITON_CACHE_DIR": str(folder / "triton")}
    ran = subprocess.run(
        [sys.executable, "-c", _BEFORE + code], env={**os.environ, **caches, **environment}, capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


# A first size, and others of one head or several whose best kernels are others: in CUDA C++ and in Gluon.
FORMS = [
    ({"length": 100}, {"length": 384}), ({"length": 100}, {"length": 128}),
    ({"length": 128, "causal": False}, {"length": 100, "causal": False}),
    ({"length": 128, "d": 128, "cap": 20.0}, {"length": 384, "d": 128, "cap": 20.0}),
]  # fmt: skip


@pytest.mark.parametrize("first, second", FORMS, ids=str)
def test_a_new_length_is_right_at_once_and_when_the_best_kernel_is_there(first, second, tmp_path):
    code = """
first, second = FORMS
said = {"first": forward_call(**first)}
until_ready()
said["first again"] = forward_call(**first)
said["second"] = [forward_call(**second) for _ in range(3)]
said["kinds that wait"] = sum(plan.awaited is not None for plan in launch_plans.settled.values())
until_ready()
said["then"] = [forward_call(**second) for _ in range(4)]
said["tapes"] = tapes()
print(json.dumps(said))
"""
    said = told(f"FORMS = {first!r}, {second!r}\n" + code, tmp_path)
    outputs = [said["first"], said["first again"], *said["second"], *said["then"]]
    assert max(away for away, _ in outputs) <= 4, said
    assert not said["first again"][1] and said["second"][0][1], said
    assert not any(stood_in for _, stood_in in said["then"]), said
    assert said["kinds that wait"] >= 1 and (said["tapes"] >= 1 or "cap" in first), said  # caps are not recorded


def test_with_the_switch_or_deterministic_nothing_stands_in(tmp_path):
    code = """
said = [forward_call(100), forward_call(384), forward_call(64, deterministic=True)]
said.append(forward_call(128, causal=False))
print(json.dumps(said))
"""
    said = told(code, tmp_path, ATTENIO_WAIT="1")
    assert not any(stood_in for _, stood_in in said) and max(away for away, _ in said) <= 4, said
    code = """
forward_call(100)
print(json.dumps([forward_call(384, deterministic=True), forward_call(64, deterministic=True)]))
"""
    assert not any(stood_in for _, stood_in in told(code, tmp_path / "other"))


def test_gradients_are_right_at_once_and_when_the_best_kernel_is_there(tmp_path):
    code = """
from attenio.kernels.hopper.cuda import compiler
said = [step(256), step(300), step(256)]
for future in compiler._begun.values():
    future.result()
said += [step(256) for _ in range(4)]
until_ready()
said += [step(256) for _ in range(4)]
print(json.dumps([said, tapes()]))
"""
    (said, recorded), limit = told(code, tmp_path), 4
    assert max(said) <= limit and recorded >= 2, said


@pytest.mark.parametrize("length", [128, 384])
def test_a_graph_that_is_captured_meanwhile_is_right(length, tmp_path):
    code = """
forward_call(100)
q, k, v = (drawn(1, 1, LENGTH, 192) for _ in range(3))
attention(q, k, v, is_causal=True)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    output = attention(q, k, v, is_causal=True)
(plan,) = [plan for (kind, _), plan in launch_plans.captured.items() if kind.queries == LENGTH]
for each in (q, k, v):
    each.copy_(torch.randn_like(each))
graph.replay()
until_ready()
said = [off(output, exact(q, k, v, 0, 0.0)), forward_call(LENGTH)[0], plan.tiles.language]
print(json.dumps(said))
"""
    *away, language = told(f"LENGTH = {length}\n" + code, tmp_path)
    assert max(away) <= 4
    assert language == ("Gluon" if length == 128 else "CUDA C++")  # Gluon's tiles need no trial


@pytest.mark.parametrize("length", [128, 384])
def test_a_process_may_end_while_a_kernel_is_compiled(length, tmp_path):
    code = f"""
forward_call(100)
step(256)
print(json.dumps(forward_call({length})))
"""
    away, stood_in = told(code, tmp_path)
    assert away <= 4 and stood_in


def test_another_size_in_fp32_compiles_nothing(tmp_path):
    code = """
from attenio.kernels.triton.parts import split_kernel

def call(length, heads):
    q, k, v = (drawn(2, heads, length, 64, dtype=torch.float32).requires_grad_() for _ in range(3))
    torch.autograd.grad(attention(q, k, v, is_causal=True).sum(), (q, k, v))
    return len(split_kernel.device_caches[torch.cuda.current_device()][0])

print(json.dumps([call(2048, 16), call(2381, 16), call(2048, 8), call(2048, 3)]))
"""
    counts = told(code, tmp_path)
    assert len(set(counts)) == 1 and counts[0] > 0
