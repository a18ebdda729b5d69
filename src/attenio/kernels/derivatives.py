"""What autograd, ``torch.func`` and ``vmap`` are told of the operators, and how each of them reaches these.

Calls that somebody watches go through ``operated``, the registered operator with its rules. All others go through
``unwatched``, which has the same gradient without the dispatcher, in the forward pass and in the backward pass.
"""

from typing import Any

import torch
from torch import Tensor

from attenio.kernels.checks import NotComputed
from attenio.kernels.mapping import Mapped, Places, mapped, mapped_backward
from attenio.kernels.operator import (
    TENSORS,
    attended,
    attention_backward_operator,
    attention_operator,
    differentiated,
)
from attenio.kernels.repeating import Known
from attenio.kernels.watching import are_kept_as_they_are, is_unwatched

__all__ = ["operated", "unwatched"]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:TENSORS], *output)
    scale, below, above, query_block, key_block, _prefix, dropout_p, deterministic = inputs[TENSORS:]
    ctx.numbers = (scale, below, above, query_block, key_block, dropout_p, deterministic)
    ctx.set_materialize_grads(False)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, inputs, output)
    ctx.mark_non_differentiable(*output[1:])


def _gradients(ctx: Any, gradient: Tensor | None, known: Known | None = None) -> tuple[Tensor | None, ...]:
    """Those of queries, keys, values and of the bias, given what is known of the form of the call."""
    if gradient is None:
        return None, None, None, None
    tensors, (*numbers, deterministic) = (*ctx.saved_tensors, gradient), ctx.numbers
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()  # by now
    with_bias = tensors[3] is not None and tensors[3].dtype != torch.bool and ctx.needs_input_grad[3]
    # Gradients of gradients are asked of the operator, which knows none and says so. What was kept of a call of a known
    # form nobody watched, and it is the same now.
    if torch.is_grad_enabled() or not is_unwatched(tensors if known is None else (gradient,)):
        found = _backward_operated(*tensors, *numbers, deterministic, with_bias)
    else:
        found = differentiated((*tensors, *numbers, deterministic, with_bias), known)
    return *found[:3], found[3] if with_bias else None


def _differentiate(ctx: Any, gradient: Tensor | None, *_statistics: Any) -> tuple[Any, ...]:
    return *_gradients(ctx, gradient), *(None,) * (TENSORS + 8 - 4)


class _Attention(torch.autograd.Function):
    """The operator's gradient for calls that do not pass through it: what has gradients, other arguments, the form."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        *differentiable, rest, known = given
        arguments = (*differentiable, *rest)
        found = attended(arguments, known, wanted=3)
        _keep(ctx, arguments, found)
        ctx.known = known if are_kept_as_they_are() else None
        return found[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Any, ...]:
        return *_gradients(ctx, gradient, ctx.known), None, None


# Without the question whether ``torch.func`` transforms it: then somebody watches.
_apply = super(torch.autograd.Function, _Attention).apply


def unwatched(arguments: tuple[Any, ...], known: Known | None = None) -> Tensor:
    """The operator's output for its arguments, where nobody watches, and what is known of the form of the call."""
    query, key, value, bias = arguments[:4]
    wanted = (
        query.requires_grad or key.requires_grad or value.requires_grad or (bias is not None and bias.requires_grad)
    )
    if wanted and torch.is_grad_enabled():
        output: Tensor = _apply(query, key, value, bias, arguments[4:], known)
        return output
    return attended(arguments, known, wanted=1)[0]


class _Transformed(torch.autograd.Function):
    """The operator for ``torch.func``, which differentiates functions like this one, but no registered operator."""

    setup_context = staticmethod(_save)

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = attention_operator(*arguments)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return _differentiate(ctx, *gradients)

    @staticmethod
    def vmap(info: Any, in_dims: Places, *arguments: Any) -> Mapped:
        return mapped(operated, info, in_dims, *arguments)


class _TransformedBackward(torch.autograd.Function):
    """The same for the operator of its gradients."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = attention_backward_operator(*arguments)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        raise NotComputed("attention has no second derivative; differentiate it once")

    @staticmethod
    def vmap(info: Any, in_dims: Places, *arguments: Any) -> Mapped:
        return mapped_backward(_backward_operated, info, in_dims, *arguments)


def _is_transformed() -> bool:
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def operated(*arguments: Any) -> tuple[Tensor, ...]:
    """What the operator gives, within transforms of ``torch.func`` too."""
    found: tuple[Tensor, ...] = (_Transformed.apply if _is_transformed() else attention_operator)(*arguments)
    return found


def _backward_operated(*arguments: Any) -> tuple[Tensor, ...]:
    apply = _TransformedBackward.apply if _is_transformed() else attention_backward_operator
    found: tuple[Tensor, ...] = apply(*arguments)
    return found


attention_operator.register_autograd(_differentiate, setup_context=_save)
attention_operator.register_vmap(_Transformed.vmap)
attention_backward_operator.register_vmap(_TransformedBackward.vmap)
