"""Attention on Hopper GPUs (compute capability 9.0) in Gluon; what these kernels do not take goes to Triton's."""

from attenio.kernels import triton
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.cpu.two_pass import Saved
from attenio.kernels.gpu.results import Attended, Gradients
from attenio.kernels.hopper import backward as backward_pass
from attenio.kernels.hopper import decode, forward
from attenio.planning.shared_cache import Grid, Sweep

__all__ = ["attend", "gradients", "grids"]


def attend(problem: KernelProblem) -> Attended:
    """Attention by the plan for this GPU."""
    if decode.supports(problem):
        return decode.attend(problem)
    return forward.attend(problem) if forward.supports(problem) else triton.attend(problem)


def grids(problem: KernelProblem, *, backward: bool) -> tuple[Grid | Sweep, ...] | None:
    """Grids in the order of their launches, for a prediction of the bytes that they move below the L2."""
    if backward and backward_pass.supports(problem):
        return backward_pass.gradient_grids(problem)
    if backward or not forward.supports(problem):
        return triton.grids(problem, backward=backward)
    return (forward.grid_of(problem),)


def gradients(problem: KernelProblem, saved: Saved, *, with_bias: bool = False) -> Gradients:
    """Gradients of everything, from what the forward pass saved."""
    if not with_bias and backward_pass.supports(problem) and backward_pass.is_proven(problem):
        return backward_pass.gradients(problem, saved)
    return triton.gradients(problem, saved, with_bias=with_bias)
