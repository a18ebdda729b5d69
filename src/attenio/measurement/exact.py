"""What every contender is compared with: the definition in double precision, for a part that can be afforded."""

import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.workload import Direction, Workload

__all__ = ["Inputs", "band_of", "compared", "exact_part", "window_of"]

Inputs = tuple[Tensor, Tensor, Tensor]
Part = tuple[Tensor, ...]
# Rows of the first sequence whose error is taken, and the most scores of which gradients are taken in double precision.
_CHECKED_ROWS = 64
_CHECKED_SCORES = 2**24


def exact_part(workload: Workload, inputs: Inputs) -> Part | None:
    """The last rows of the first sequence, or all gradients of it where they are few enough."""
    if workload.direction is Direction.FORWARD:
        return (_definition_rows(workload, inputs, slice(-min(_CHECKED_ROWS, workload.queries), None)),)
    if workload.heads * workload.queries * workload.keys > _CHECKED_SCORES:
        return None
    q, k, v = (x[:1].double().requires_grad_() for x in inputs)
    output = _definition_rows(workload, (q, k, v), slice(0, None))
    found: Part = torch.autograd.grad(output.sum(), (q, k, v))
    return found


def compared(workload: Workload, found: Part, exact: Part | None) -> float | None:
    """The largest difference, or None where nothing exact is known."""
    if exact is None:
        return None
    same = (found[0][:1, :, -_CHECKED_ROWS:],) if workload.direction is Direction.FORWARD else [x[:1] for x in found]
    return max(float((x.double() - y).abs().max()) for x, y in zip(same, exact, strict=True))


def window_of(workload: Workload) -> tuple[int, int] | None:
    """attention()'s window for a mask; all masks of attenio put the last query at the last key."""
    match workload.mask:
        case Dense():
            return None
        case Causal():
            return -1, 0
        case SlidingWindow(width=width, causal=causal):
            return width - 1, 0 if causal else width - 1
        case _:
            raise InvalidInput(f"dense, causal and window masks are measured, and not {workload.mask}; choose one")


def band_of(workload: Workload) -> tuple[int, int]:
    """Keys before and after a query's own that it sees."""
    left, right = window_of(workload) or (-1, -1)
    everything = workload.queries + workload.keys
    return (everything if left < 0 else left), (everything if right < 0 else right)


def _definition_rows(workload: Workload, inputs: Inputs, rows: slice) -> Tensor:
    """The definition in double precision, for some queries of the first sequence: (1, heads, rows, width)."""
    q, k, v = inputs
    first, second = band_of(workload)
    positions = torch.arange(workload.queries, device=q.device)[rows, None] + workload.keys - workload.queries
    keys = torch.arange(workload.keys, device=q.device)
    hidden = (keys < positions - first) | (keys > positions + second)
    out = []
    for head in range(workload.heads):
        shared = head // workload.group
        scores = q[0, head, rows].double() @ k[0, shared].double().T * workload.softmax_scale
        out.append(torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ v[0, shared].double())
    return torch.stack(out)[None]
