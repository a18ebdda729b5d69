"""What ``attention()`` would launch for a call on a GPU, as grids whose traffic below the L2 can be predicted."""

from torch import Tensor

from attenio.kernels.call.call import call_of
from attenio.kernels.call.masking import MaskArguments
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.choice import backend_of
from attenio.planning.shared_cache import Grid, Sweep


def grids_of(
    inputs: tuple[Tensor, Tensor, Tensor],
    *,
    window: tuple[int, int] | None = None,
    scale: float | None = None,
    backward: bool = False,
    deterministic: bool = False,
) -> tuple[Grid | Sweep, ...] | None:
    """Grids in the order of their launches for query, key and value; None where those kernels have none to tell."""
    query, key, value = inputs
    grouped = query.shape[1] != key.shape[1]
    call = call_of(query, key, value, MaskArguments(window=window), scale=scale, enable_gqa=grouped)
    problem = KernelProblem.of_heads(
        call.query, call.key, call.value, call.visible, call.scale, deterministic=deterministic
    )
    told = getattr(backend_of(query), "grids", None)
    grids: tuple[Grid | Sweep, ...] | None = None if told is None else told(problem, backward=backward)
    return grids
