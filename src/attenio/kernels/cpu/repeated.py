"""The last form of a call, as layers repeat it: one question about all its tensors, and PyTorch's fused kernel.

To ask tensors for their sizes and types makes objects of Python, and what makes them is in no cache after a kernel. A
guard of ``torch.compile`` compares types, devices, sizes, strides, whether gradients are wanted and who watches
(transforms, autocast, modes) of all tensors in one call. Of what passes it everything is known, so that the kernel is
called that ``scaled_dot_product_attention`` chose for it, without choosing again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._C._dynamo import guards
from torch.nn.functional import scaled_dot_product_attention

from attenio.kernels.call.watching import is_unwatched

_Guards: Any = getattr(guards, "TensorGuards", None)
fused_attention: Any = getattr(torch, "_scaled_dot_product_flash_attention_for_cpu", None)
# Calls that share what they are told apart by and differ otherwise, as by strides, are not followed for ever.
_MOST_GUARDS = 8
_FUSED = 1
# No scale is this one.
_NO_SCALE: Any = object()
# The last form of calls: its scale and enable_gqa; whether tensors are of it; what computes it, None for an only key
# without a mask. And the rest: whether the log-sum-exp comes with it, and whether the mask has to be looked at, for
# gradients beside it may be wrong; what the form was found by, and how many guards may still be made of it. No class of
# its own: tuples are what Python takes apart fastest.
Last: TypeAlias = tuple[float | None, bool, Callable[..., bool], Any, tuple[bool, bool, Any, int]]
# No form, which nothing is like.
NEVER: Last = (_NO_SCALE, False, bool, bool, (False, False, None, _MOST_GUARDS))
# Forms that came before, by what they were found by, is_causal and whether there is a mask.
_forms: dict[tuple[Any, bool, bool], Last] = {}
_MOST_FORMS = 64


def forget_forms() -> None:
    """Make guards anew."""
    _forms.clear()


def repeated(
    every: tuple[Tensor | None, ...], last: Last, found: Any, causal: bool, scale: float | None, gqa: bool
) -> Last:
    """The form of calls that PyTorch's own attention computes and that came twice, found by the same.

    ``every``: queries, keys, values, and a mask or None. ``last``: the form that the call was compared with.
    """
    given = tuple(each for each in every if each is not None)
    which = found, causal, len(given) > 3
    known = _forms.get(which, NEVER)
    if known is not NEVER and known is not last:
        return known
    if len(_forms) >= _MOST_FORMS:
        _forms.clear()
    left = known[-1][-1] - 1
    made = _guarded(given, causal=causal, scale=scale, gqa=gqa)
    if made is not None:
        now = _forms[which] = *made[:-1], (*made[-1], found, left)
    elif known is NEVER:
        return *NEVER[:-1], (False, False, found, 0)
    else:  # as it was, for calls that nothing watches or forbids
        now = _forms[which] = *known[:-1], (*known[-1][:-1], left)
    return now


def _guarded(given: tuple[Tensor, ...], *, causal: bool, scale: float | None, gqa: bool) -> tuple[Any, ...] | None:
    """A form with a guard of these tensors, where the kernel that PyTorch takes for them can be called."""
    key, mask = given[1], given[3] if len(given) > 3 else None
    wants = any(each.requires_grad for each in given)
    if not (
        _are_fused(given, causal=causal, scale=scale, gqa=gqa)
        and (torch.is_grad_enabled() or not wants)
        and not (mask is not None and mask.requires_grad)
    ):
        return None
    # The weight of an only key is 1 whatever its score, and a scale of 0 makes its gradients exact.
    weightless = torch.is_grad_enabled() and key.shape[-2] == 1
    converts = mask is not None and mask.dtype == torch.bool
    options: dict[str, Any] = {"is_causal": causal and not weightless, "scale": 0.0 if weightless else scale}
    options |= {"enable_gqa": gqa} if converts else {}
    said = {name: option for name, option in options.items() if option is not None and option is not False}
    compute: Any = scaled_dot_product_attention if converts else fused_attention
    guard = _Guards(
        *given,
        dynamic_dims_sizes=[list(each.shape) for each in given],
        dynamic_dims_strides=[list(each.stride()) for each in given],
    )
    looks = wants and mask is not None and not (converts or weightless)
    function = None if weightless and mask is None else partial(compute, **said) if said else compute
    return scale, gqa, guard.check, function, (not converts, looks)


def _are_fused(given: tuple[Tensor, ...], *, causal: bool, scale: float | None, gqa: bool) -> bool:
    """Whether PyTorch takes its fused kernel for these tensors as they are; it does not ask for values of its own."""
    query, key, value, *masks = given
    if _Guards is None or fused_attention is None or torch._C._is_any_autocast_enabled():
        return False
    if not query.is_cpu or key.shape != value.shape or not is_unwatched(given):
        return False
    mask = masks[0] if masks else None
    chosen = torch._fused_sdp_choice(query, key, value, mask, 0.0, causal, scale=scale, enable_gqa=gqa)
    return bool(chosen == _FUSED)
