"""A layer of a model that decodes on a CPU, its scores so few that the way to a kernel takes longer than the kernel.

S = Q K^T over the rows of all heads that share keys, scaled, capped, masked; the sink of a head beside them
O = softmax(S) V

It holds all scores at once and keeps nothing for a gradient. What it does not take goes to ``attention``.
"""

import torch
from torch import Tensor

from attenio.kernels.call.choice import note_launch
from attenio.kernels.call.watching import is_unwatched

# Beyond these, tiles and threads are worth their way.
MOST_QUERIES, MOST_SCORES = 8, 2**17


def few_scores(  # noqa: PLR0913 - what a layer hands over
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scale: float | None,
    sinks: Tensor | None,
    softcap: float | None,
) -> Tensor | None:
    """The output (batch, heads, queries, width), or None where this is not for it; every query sees all keys, or so
    many as a mask allows.
    """
    if not _takes(query, key, value, (mask, sinks)):
        return None
    batch, heads, queries, d = query.shape
    kv_heads, keys = int(key.shape[1]), int(key.shape[2])
    note_launch("few_scores", keys=keys)
    rows = query.reshape(batch, kv_heads, -1, d) * (d**-0.5 if scale is None else scale)
    S = rows @ key.transpose(2, 3)
    if softcap is not None:
        S.div_(softcap).tanh_().mul_(softcap)
    S = S.view(batch, heads, queries, keys)
    if mask is not None:
        S = S.masked_fill_(~mask, -torch.inf) if mask.dtype == torch.bool else S + mask
    if sinks is None:
        P = torch.softmax(S, -1)
    else:
        beside = sinks.detach().to(S.dtype).view(1, -1, 1, 1).expand(batch, heads, queries, 1)
        P = torch.softmax(torch.cat([S, beside], -1), -1)[..., :-1]
    output = (P.reshape(batch, kv_heads, -1, keys) @ value).view(batch, heads, queries, -1)
    # a row that sees nothing, or numbers that are none: attention has rules for both
    return None if bool(output.isnan().any()) else output


def _takes(query: Tensor, key: Tensor, value: Tensor, others: tuple[Tensor | None, ...]) -> bool:
    """Heads of one precision on a CPU that nothing watches, few queries, and no gradient."""
    mask, sinks = others
    shapes = query.dim() == key.dim() == value.dim() == 4 and 0 < query.shape[2] <= MOST_QUERIES
    if not shapes or query.numel() // query.shape[-1] * key.shape[2] > MOST_SCORES or not key.numel():
        return False
    if key.shape[0] != query.shape[0] or key.shape[:3] != value.shape[:3] or query.shape[1] % key.shape[1]:
        return False
    alike = query.dtype == key.dtype == value.dtype and query.dtype in (torch.float32, torch.float64)
    if not alike or not query.is_cpu or query.shape[3] != key.shape[3]:
        return False
    if sinks is not None and sinks.shape != (query.shape[1],):
        return False
    if mask is not None and (mask.dim() != 4 or mask.dtype not in (torch.bool, query.dtype)):
        return False
    given = (query, key, value, mask, sinks)
    wanted = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in given)
    return not (wanted or torch._C._is_any_autocast_enabled()) and is_unwatched(given)
