"""Kernels on a GPU that another process uses too: they are stopped anywhere, and must not notice."""

import subprocess
import sys
import time

import pytest
import torch

from attenio.kernels import triton as portable
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import backward, forward

_OTHER = """
import torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
(x @ x).sum().item()
print("running", flush=True)
while True:
    for _ in range(20):
        x @ x
    torch.cuda.synchronize()
"""


@pytest.fixture(scope="module")
def another_process():
    with subprocess.Popen([sys.executable, "-c", _OTHER], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline()
        try:
            yield
        finally:
            other.kill()


@pytest.mark.usefixtures("another_process")
@pytest.mark.parametrize("d", [64, 128, 192, 256])
def test_results_are_those_of_before(d):
    """Short blocks, so that many are stopped while they begin or end: two seconds of them."""
    q, k, v, gradient = (torch.randn(1, 16, 2**15, d, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    problem = KernelProblem.of_heads(q, k, v, Visibility(group=1, below=-99, above=0), d**-0.5, deterministic=True)
    saved = (*portable.attend(problem), gradient[:, :, None])
    assert backward.supports(problem) and forward.supports(problem)

    def found():
        return [*forward.attend(problem), *backward.gradients(problem, saved)[:3]]

    right, begun = found(), time.monotonic()
    while time.monotonic() - begun < 2:
        again = found()
        assert all(torch.equal(one, other) for one, other in zip(again, right, strict=True))
