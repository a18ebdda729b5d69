"""Attention on Hopper GPUs (compute capability 9.0) in Gluon; what these kernels do not take goes to Triton's.

Kernels are imported where they are launched: Triton reads the text of a kernel when it is imported, which takes longer
than the rest of a first call.
"""

from contextlib import nullcontext
from dataclasses import replace

import torch

from attenio.kernels import triton
from attenio.kernels.call.choice import Choice
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Attended, Gradients, Saved
from attenio.kernels.hopper import decode, forward, latent, single_precision
from attenio.kernels.hopper.cuda.driver import loads_while_capturing
from attenio.kernels.hopper.cuda.split_latents import CudaLatentTiles
from attenio.kernels.hopper.decode import DecodeTiles
from attenio.kernels.hopper.latent import LatentTiles
from attenio.kernels.hopper.single_precision import PartsTiles
from attenio.kernels.hopper.tiles import HopperTiles
from attenio.kernels.replay.standing_in import note_stand_in
from attenio.planning.shared_cache import Grid, Sweep

__all__ = ["attend", "choose", "choose_backward", "gradients", "grids", "run", "run_backward"]


def choose(problem: KernelProblem, processors: int | None = None) -> Choice:
    """What runs on so many SMs; on those of the tensors' device with tiles that were measured there."""
    few = decode.why_not(problem)
    if few is None:
        return decode.choose(problem, processors)
    one = latent.why_not(problem)
    if one is None:
        return latent.choose(problem, processors)
    many = forward.why_not(problem, processors)
    if many is None:
        return forward.choose(problem, processors)
    few, single = one if problem.values_in_keys else few, single_precision.why_not(problem)
    if single is None and single_precision.is_proven(problem):
        return single_precision.choose(problem)
    reasons = (f"Gluon, split-keys: {few}", f"Gluon, attenio: {single if _is_single(problem) else many}")
    return replace(triton.choose(problem, processors), why_not=reasons)


def run(problem: KernelProblem, choice: Choice) -> Attended:
    """Attention by a choice."""
    match (choice.own or choice).kernel:
        case DecodeTiles():
            return decode.attend(problem, choice)
        case LatentTiles() | CudaLatentTiles():
            return latent.attend(problem, choice)
        case HopperTiles():
            return forward.attend(problem, choice)
        case PartsTiles():
            return single_precision.attend(problem)
        case _:
            return triton.run(problem, choice)


def _is_single(problem: KernelProblem) -> bool:
    return bool(problem.query.dtype == torch.float32)


def attend(problem: KernelProblem) -> Attended:
    """Attention by what is chosen for this GPU."""
    return run(problem, choose(problem))


def choose_backward(
    problem: KernelProblem, processors: int | None = None, *, with_bias: bool = False, tries: bool = False
) -> Choice:
    """What computes the gradients; with ``tries`` a kernel that is not proven yet is tried on this device.

    With these another one may stand in for it, too.
    """
    from attenio.kernels.hopper import backward as backward_pass

    reason = "the gradient of a mask is computed by portable kernels" if with_bias else backward_pass.why_not(problem)
    standing_in = backward_pass.stand_in(problem) if reason is None and tries else None
    if standing_in is not None:
        return standing_in
    if reason is None and backward_pass.is_proven(problem, tries=tries):
        return backward_pass.choose(problem)
    if _is_single(problem) and not with_bias:
        reason = single_precision.why_not(problem, backward=True)
        if reason is None and single_precision.is_proven(problem, backward=True, tries=tries):
            return single_precision.choose_backward(problem)
    reason = reason or "its gradients were wrong on this device"
    return replace(triton.choose_backward(problem, processors), why_not=(f"Gluon: {reason}",))


def run_backward(problem: KernelProblem, saved: Saved, choice: Choice, *, with_bias: bool = False) -> Gradients:
    """The gradients by a choice."""
    from attenio.kernels.hopper import backward as backward_pass

    if isinstance(choice.kernel, backward_pass.BackwardConfig):
        return backward_pass.gradients(problem, saved, choice)
    if isinstance(choice.kernel, PartsTiles):
        return single_precision.gradients(problem, saved)
    return triton.run_backward(problem, saved, choice, with_bias=with_bias)


def gradients(problem: KernelProblem, saved: Saved, *, with_bias: bool = False) -> Gradients:
    """Gradients of everything, from what the forward pass saved."""
    captures = problem.query.is_cuda and torch.cuda.is_current_stream_capturing()
    with loads_while_capturing() if captures else nullcontext():
        choice = choose_backward(problem, with_bias=with_bias, tries=True)
        found = run_backward(problem, saved, choice, with_bias=with_bias)
    if choice.awaited is not None:
        note_stand_in()
    return found


def grids(problem: KernelProblem, *, backward: bool) -> tuple[Grid | Sweep, ...] | None:
    """Grids in the order of their launches, for a prediction of the bytes that they move below the L2."""
    from attenio.kernels.hopper import backward as backward_pass

    if single_precision.why_not(problem, backward=backward) is None:
        return None
    if backward and backward_pass.supports(problem):
        return backward_pass.gradient_grids(problem)
    if backward or not forward.supports(problem):
        return triton.grids(problem, backward=backward)
    return (forward.grid_of(problem),)
