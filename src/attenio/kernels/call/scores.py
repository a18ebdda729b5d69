"""What a call does to scores beside scaling them: a cap, and sinks, which take weight and give nothing."""

import math
from typing import NamedTuple

from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import Window
from attenio.kernels.call.checks import TensorMismatch, WrongType, checked_number
from attenio.names import show_value
from attenio.quantities import show_shape

BOTTOM_RIGHT, TOP_LEFT = "bottom-right", "top-left"


class Scores(NamedTuple):
    """One logit for each query head, and a cap on scores, 0 for none; both as the operators take them."""

    sinks: Tensor | None
    softcap: float


def scores_of(query: Tensor, sinks: Tensor | None, softcap: float | None) -> Scores:
    """Both, checked, for queries (batch, heads, queries, d)."""
    if sinks is not None:
        heads = query.shape[1]
        if not isinstance(sinks, Tensor) or not sinks.is_floating_point():
            kind = sinks.dtype if isinstance(sinks, Tensor) else type(sinks).__name__
            raise WrongType(f"sinks is {kind}; give a tensor of floating point numbers, one for each query head")
        if sinks.shape != (heads,):
            raise TensorMismatch(
                f"sinks has shape {show_shape(sinks.shape)}; give one logit for each of {heads} query heads"
            )
        if sinks.device != query.device:
            raise TensorMismatch(f"sinks is on {sinks.device} and query on {query.device}; move one of them")
    cap = 0.0
    if softcap is not None:
        cap = checked_number("softcap", softcap)
        if isinstance(softcap, bool) or not (math.isfinite(cap) and cap > 0.0):
            raise InvalidInput(f"softcap is {softcap}; give a number above 0, or None for no cap")
    return Scores(sinks, cap)


def aligned(is_causal: object, window: Window | None) -> tuple[bool, Window | None]:
    """Causality by the name of its alignment, as a switch (top-left) or as a window (bottom-right)."""
    if is_causal == TOP_LEFT:
        return True, window
    if is_causal != BOTTOM_RIGHT:
        raise WrongType(
            f"is_causal is {show_value(is_causal)}; give True or False, {TOP_LEFT!r} (as True) or {BOTTOM_RIGHT!r}"
        )
    if window is None:
        return False, (-1, 0)
    if not isinstance(window, tuple | list):
        return False, window  # it ends at the query's own key
    left, right = window
    return False, (left, 0 if right == -1 else min(right, 0))
