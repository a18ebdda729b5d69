"""What every contender is compared with: the definition in double precision, for a part that can be afforded."""

from collections.abc import Callable

import torch
from torch import Tensor

from attenio.errors import InvalidInput
from attenio.kernels.call import planner_masks
from attenio.masks import BandMask, Dense
from attenio.workload import Direction, Workload

Inputs = tuple[Tensor, Tensor, Tensor]
Tensors = tuple[Tensor, ...]
Sees = Callable[[Tensor, Tensor], Tensor]
# Queries whose outputs or gradients are compared, the last ones, and keys whose gradients are, the first ones.
_CHECKED = 64
# Rows that are looked at together, and the most scores that are computed again in double precision.
_ROWS = 1024
_MOST_SCORES = {"cpu": 2**26, "cuda": 2**36}


def exact_part(workload: Workload, inputs: Inputs) -> Tensors | None:
    """The last rows of the first sequence, or gradients of a KV head, where that does not take too long."""
    if workload.direction is Direction.FORWARD:
        return (_definition_rows(workload, inputs, slice(-min(_CHECKED, workload.queries), None)),)
    if workload.group * workload.queries * workload.keys > _MOST_SCORES[inputs[0].device.type]:
        return None
    gradient = inputs[0].new_ones((*inputs[0].shape[:-1], workload.value_dim))
    return exact_gradients(inputs, gradient, _seen_in(workload), workload.softmax_scale)


def compared(workload: Workload, part: Tensors, exact: Tensors | None) -> float | None:
    """The largest difference, or None where nothing exact is known."""
    if exact is None:
        return None
    same = (part[0][:1, :, -_CHECKED:],) if workload.direction is Direction.FORWARD else checked_part(part)
    return max(float((x.double() - y).abs().max()) for x, y in zip(same, exact, strict=True))


def exact_gradients(inputs: Inputs, gradient: Tensor, sees: Sees | None, scale: float) -> Tensors:
    """Gradients of the last KV head of the last sequence: of the last queries of its group, and of its first keys.

    ``sees`` says of positions of queries and keys which scores there are; None that all are.
    """
    group = inputs[0].shape[1] // inputs[1].shape[1]
    k, v = inputs[1][-1, -1].double(), inputs[2][-1, -1].double()
    j = torch.arange(k.shape[0], device=k.device)
    of_keys, of_values = (torch.zeros_like(x[:_CHECKED]) for x in (k, v))
    of_queries = []
    for head in range(-group, 0):
        last = []
        for start in range(0, inputs[0].shape[2], _ROWS):
            q, g = (x[-1, head, start : start + _ROWS].double() for x in (inputs[0], gradient))
            scores = q @ k.T * scale
            if sees is not None:
                i = torch.arange(start, start + q.shape[0], device=k.device)[:, None]
                scores = scores.masked_fill(~sees(i, j), -torch.inf)
            weights = torch.softmax(scores, -1).nan_to_num(0.0)  # rows that see nothing
            ds = g @ v.T
            ds = weights * (ds - (weights * ds).sum(-1, keepdim=True)) * scale
            of_keys += ds[:, :_CHECKED].T @ q
            of_values += weights[:, :_CHECKED].T @ g
            last.append(ds[-_CHECKED:] @ k)
        of_queries.append(torch.cat(last[-2:])[-_CHECKED:])
    return torch.stack(of_queries)[None], of_keys[None, None], of_values[None, None]


def checked_part(gradients: Tensors) -> Tensors:
    """Of whole gradients those that ``exact_gradients`` gives."""
    query, key, value = gradients
    group = query.shape[1] // key.shape[1]
    return query[-1:, -group:, -_CHECKED:], key[-1:, -1:, :_CHECKED], value[-1:, -1:, :_CHECKED]


def window_of(workload: Workload) -> tuple[int, int] | None:
    """attention()'s window for a mask; all masks of attenio put the last query at the last key."""
    if not isinstance(workload.mask, BandMask):
        raise InvalidInput(f"dense, causal and window masks are measured, and not {workload.mask}; choose one")
    return None if isinstance(workload.mask, Dense) else planner_masks.window_of(workload.mask)


def band_of(workload: Workload) -> tuple[int, int]:
    """Keys before and after a query's own that it sees."""
    left, right = window_of(workload) or (-1, -1)
    everything = workload.queries + workload.keys
    return (everything if left < 0 else left), (everything if right < 0 else right)


def _seen_in(workload: Workload) -> Sees:
    first, second = band_of(workload)
    moved = workload.keys - workload.queries
    return lambda i, j: (j >= i + moved - first) & (j <= i + moved + second)


def _definition_rows(workload: Workload, inputs: Inputs, rows: slice) -> Tensor:
    """The definition in double precision, for some queries of the first sequence: (1, heads, rows, width)."""
    q, k, v = inputs
    positions, keys = (torch.arange(count, device=q.device) for count in (workload.queries, workload.keys))
    hidden = ~_seen_in(workload)(positions[rows, None], keys)
    out = []
    for head in range(workload.heads):
        shared = head // workload.group
        scores = q[0, head, rows].double() @ k[0, shared].double().T * workload.softmax_scale
        out.append(torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ v[0, shared].double())
    return torch.stack(out)[None]
