"""How PyTorch's own attention is called, with as little on the way as Python allows.

Its gradients are its own. A backward pass recomputes weights as exp(score - log-sum-exp), which is off by as many
roundings as the log-sum-exp is large: a hundred-thousandth in single precision beside one of 170. To look at it after
every call took longer than all else here, and tiles in its place ten times as long as the call.

Beside one kind of mask that is no rounding any more. Where so much is added to a whole row that its scores become the
same number, the log-sum-exp is that number too: all weights of the row are 1, and gradients as many times too large as
there are keys. So masks that are added are looked at where gradients are wanted, once for each and again when it was
written to, and tiles compute what is beside such a row.
"""

from collections.abc import Callable
from functools import cache, partial
from math import inf
from typing import Any, TypeAlias
from weakref import ref

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# So much may be added to all scores of a row: in single precision weights are off by a thousandth beside it.
LARGEST_ADDED = 2.0**14
_MOST_MASKS = 256
# Masks that were looked at: which one, how often it was written to before, and what was seen.
_looked_at: dict[int, tuple[Callable[[], Tensor | None], int, bool]] = {}
MetMask: TypeAlias = tuple[Callable[[], Tensor | None], Any, int]
# The last mask on a CPU, as layers have it in common: which one, its type, and how often it was written to before it
# was seen to be tame.
LAST_MASK: list[MetMask] = [(lambda: None, None, -1)]


def called(kept: Tensor | None, *, causal: bool, scale: float | None, gqa: bool) -> Callable[..., Tensor]:
    """PyTorch's function of queries, keys, values and a mask; ``kept`` stands for a window."""
    options: dict[str, Any] = {"attn_mask": kept, "is_causal": causal, "scale": scale, "enable_gqa": gqa}
    given = {name: option for name, option in options.items() if option is not None and option is not False}
    return partial(scaled_dot_product_attention, **given) if given else scaled_dot_product_attention


@cache
def takes_both() -> bool:
    """Whether this PyTorch's fused kernel takes a mask and causality together; older ones refuse it."""
    rows = torch.zeros((1, 1, 2, 8), device="cpu")
    values = torch.stack((rows[0, 0, 0], rows[0, 0, 0] + 1.0))[None, None]
    try:
        output = scaled_dot_product_attention(rows, rows, values, torch.ones((2, 2), device="cpu") > 0.0, 0.0, True)
    except RuntimeError:
        return False
    return bool(output[0, 0, 0, 0] == 0.0 and output[0, 0, 1, 0] == 0.5)


def beside_tame_masks(function: Callable[..., Tensor]) -> Callable[..., Tensor | None]:
    """The same function with gradients, and None beside a mask that makes them wrong."""

    def way(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor | None:
        return function(query, key, value, mask) if is_tame(mask) else None

    return way


def met(mask: Tensor) -> MetMask:
    """What is to be known of a mask, for next time too; one on another device is for the checks of the whole call."""
    if not mask.is_cpu:
        raise TypeError
    known = ref(mask), mask.dtype, -1
    if type(mask) is Tensor:  # a module moves its parameters, and they stay the same objects
        LAST_MASK[0] = known
    return known


def is_tame_now(mask: Tensor, known: MetMask) -> bool:
    """As ``is_tame``, for next time too."""
    version, tame = mask._version, is_tame(mask)
    if tame and type(mask) is Tensor:
        LAST_MASK[0] = (known[0], known[1], version)
    return tame


def is_tame(mask: Tensor) -> bool:
    """Whether no row of a mask that is added is far from zero as a whole; one of nothing but -inf sees nothing."""
    try:
        version = mask._version
    except RuntimeError:  # of inference mode, where nobody counts
        return _are_near_zero(mask)
    known = _looked_at.get(id(mask))
    if known is not None and known[1] == version and known[0]() is mask:
        return known[2]
    if len(_looked_at) >= _MOST_MASKS:
        _looked_at.clear()
    near = _are_near_zero(mask)
    _looked_at[id(mask)] = (ref(mask), version, near)
    return near


def _are_near_zero(mask: Tensor) -> bool:
    if not mask.numel():
        return True
    with torch.no_grad():
        largest = mask.amax(-1)
        if largest.amin().item() == -inf:
            largest = largest.masked_fill(largest == -inf, 0.0)
        return bool(largest.abs().amax().item() <= LARGEST_ADDED)
