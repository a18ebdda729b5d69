"""Attention on Hopper GPUs (compute capability 9.0) in Gluon; what these kernels do not take goes to Triton's."""

from attenio.kernels import triton
from attenio.kernels.cpu.two_pass import Saved
from attenio.kernels.gluon import forward
from attenio.kernels.problem import KernelProblem
from attenio.kernels.triton.forward import Attended
from attenio.kernels.triton.two_pass import Gradients

__all__ = ["attend", "two_pass"]


def attend(problem: KernelProblem) -> Attended:
    """Attention by the plan for this GPU."""
    return forward.attend(problem) if forward.supports(problem) else triton.attend(problem)


def two_pass(problem: KernelProblem, saved: Saved, *, with_bias: bool = False) -> Gradients:
    """Gradients of everything, from what the forward pass saved."""
    return triton.two_pass(problem, saved, with_bias=with_bias)
