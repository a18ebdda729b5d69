"""The registered operators ``attenio::attention`` and ``attenio::attention_backward``, and the short way past them.

PyTorch sees through them only by rules: shapes for ``torch.compile`` are here, what autograd and ``torch.func`` ask for
in ``derivatives``, and how ``vmap`` moves its dimension into the batch in ``mapping``. Where nobody looks, ``attended``
and ``differentiated`` do the same without asking PyTorch's dispatcher, which takes longer than a short kernel.
"""

# mypy: disable-error-code="untyped-decorator"

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attenio.kernels.backends import backend_of, on_device_of
from attenio.kernels.cpu.two_pass import Saved
from attenio.kernels.dropout import Dropout
from attenio.kernels.masking import Seen
from attenio.kernels.problem import KernelProblem
from attenio.kernels.repeating import Known, known_after, known_of, repeated
from attenio.kernels.visibility import Visibility

__all__ = ["TENSORS", "attended", "attention_backward_operator", "attention_operator", "differentiated"]

# What comes before the numbers in the operators' arguments: q, k, v, bias, first, stop, ids of both, blocks, seed.
TENSORS = 10
_UNRESTRICTED = (None,) * (TENSORS - 3)


def _problem(heads: tuple[Tensor, Tensor, Tensor], seen: Seen, scale: float, **rest: object) -> KernelProblem:
    """What an operator's flat arguments mean."""
    query, key, value = heads
    visible = Visibility(group=query.shape[1] // key.shape[1], **seen._asdict())
    return KernelProblem.of_heads(query, key, value, visible, scale, **rest)


def _dropout(seed: Tensor | None, probability: float) -> Dropout | None:
    return None if seed is None else Dropout(probability=probability, seed=int(seed))


def _precision(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _own(tensor: Tensor) -> Tensor:
    """A result that may be written over: autograd takes it for a tensor of its own, whatever it is a view of."""
    return tensor.detach()


def attend(  # noqa: PLR0913 - an operator's schema is flat
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    first: Tensor | None,
    stop: Tensor | None,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    blocks: Tensor | None,
    seed: Tensor | None,
    scale: float,
    below: int,
    above: int,
    query_block: int,
    key_block: int,
    prefix: int,
    dropout_p: float,
    deterministic: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output (batch, heads, queries, width), largest score and sum of weights of every row.

    These repeat to the bit anyway; ``deterministic`` is for the gradients.
    """
    if query.numel() == 0:
        output, largest, total = _shapes(query, key, value)
        return output, largest, total
    seen = Seen(below, above, first, stop, query_ids, key_ids, blocks, query_block, key_block, bias)
    problem = _problem((query, key, value), seen, scale, prefix=prefix, dropout=_dropout(seed, dropout_p))
    with on_device_of(query):
        found = backend_of(query).attend(problem)
    return _own(found.output.flatten(1, 2)), found.largest.flatten(1, 2), found.total.flatten(1, 2)


def differentiate(  # noqa: PLR0913
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    first: Tensor | None,
    stop: Tensor | None,
    query_ids: Tensor | None,
    key_ids: Tensor | None,
    blocks: Tensor | None,
    seed: Tensor | None,
    output: Tensor,
    largest: Tensor,
    total: Tensor,
    gradient: Tensor,
    scale: float,
    below: int,
    above: int,
    query_block: int,
    key_block: int,
    dropout_p: float,
    deterministic: bool,
    with_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of queries, keys, values, and of the bias (empty unless asked for)."""
    if query.numel() == 0 or key.numel() == 0:
        nothing = query.new_empty(0) if bias is None or not with_bias else bias
        of_query, of_key, of_value, of_bias = (x.new_zeros(x.shape) for x in (query, key, value, nothing))
        return of_query, of_key, of_value, of_bias
    seen = Seen(below, above, first, stop, query_ids, key_ids, blocks, query_block, key_block, bias)
    dropout = _dropout(seed, dropout_p)
    problem = _problem((query, key, value), seen, scale, dropout=dropout, deterministic=deterministic)
    heads = (key.shape[1], -1)
    saved = Saved(*(x.unflatten(1, heads) for x in (output, largest, total, gradient)))
    with on_device_of(query):
        found = backend_of(query).gradients(problem, saved, with_bias=with_bias)
    of_bias = query.new_empty(0) if found.bias is None or bias is None else found.bias.to(bias.dtype)
    return _own(found.query.flatten(1, 2)), _own(found.key), _own(found.value), _own(of_bias)


def attended(arguments: tuple[Any, ...], known: Known | None, *, wanted: int) -> tuple[Tensor, ...]:
    """The first ``wanted`` results of ``attend``, or more, given what is known of the form of the call."""
    if known is None:
        return attend(*arguments)
    given = arguments[:3] if arguments[3] is None else arguments[:4]
    return repeated(known, given, partial(attend, *arguments), wanted)


def differentiated(arguments: tuple[Any, ...], attended_as: Known | None = None) -> tuple[Tensor, ...]:
    """Gradients as ``differentiate`` gives them, at least those of the heads; of a call of a form, if it has one."""
    given = (*arguments[:3], *arguments[TENSORS : TENSORS + 4])
    if arguments[3:TENSORS] != _UNRESTRICTED:
        known = None
    elif attended_as is None:
        known = known_of(given, arguments[TENSORS + 4 :])
    else:
        known = known_after(attended_as, given, repeats=arguments[-2])
    if known is None:
        return differentiate(*arguments)
    return repeated(known, given, partial(_of_heads, *arguments), wanted=3)


def _of_heads(*arguments: Any) -> tuple[Tensor, ...]:
    return differentiate(*arguments)[:3]


def _operate(*arguments: Any) -> tuple[Tensor, ...]:
    """Results as the fake kernels below promise them, contiguous: a compiler relies on it."""
    given = arguments[:3] if arguments[3] is None else arguments[:4]
    restricted = any(tensor is not None for tensor in arguments[4:TENSORS])
    found = attended(arguments, None if restricted else known_of(given, arguments[TENSORS:]), wanted=3)
    return tuple(part.contiguous() for part in found)


def _operate_backward(*arguments: Any) -> tuple[Tensor, ...]:
    """The same for gradients, which PyTorch's fused kernel gives with tokens before heads."""
    found = tuple(part.contiguous() for part in differentiated(arguments))
    return found if len(found) == 4 else (*found, arguments[0].new_empty(0))


def _registered(name: str, run: Callable[..., tuple[Tensor, ...]], meaning: Callable[..., Any]) -> Any:
    """An operator that means what a function of the same arguments computes."""
    schema = torch.library.infer_schema(meaning, mutates_args=())
    return torch.library.custom_op(name, run, mutates_args=(), device_types=("cpu", "cuda"), schema=schema)


attention_operator = _registered("attenio::attention", _operate, attend)
attention_backward_operator = _registered("attenio::attention_backward", _operate_backward, differentiate)


@attention_operator.register_fake
def _shapes(query: Tensor, key: Tensor, value: Tensor, *_rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    rows = query.shape[:-1]
    precision = _precision(query)
    statistics = (query.new_empty(rows, dtype=precision), query.new_empty(rows, dtype=precision))
    return query.new_empty((*rows, value.shape[-1])), *statistics


@attention_backward_operator.register_fake
def _gradient_shapes(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    of_bias = bias.new_empty(bias.shape) if rest[-1] and bias is not None else query.new_empty(0)
    return *(tensor.new_empty(tensor.shape) for tensor in (query, key, value)), of_bias
