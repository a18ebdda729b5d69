"""What autograd, ``torch.func`` and ``vmap`` are told of the operators, and how each of them reaches these.

Calls that something watches go through ``operated``, the registered operator with its rules. All others go through
``unwatched``, which has the same gradient without the dispatcher, in the forward pass and in the backward pass.
"""

from typing import Any

import torch
from torch import Tensor

from attenio.kernels.call.checks import NotComputed
from attenio.kernels.call.watching import are_kept_as_they_are, is_unwatched
from attenio.kernels.replay.repeating import Known
from attenio.kernels.torch_operator.operators import (
    attended,
    attended_again,
    attention_backward_operator,
    attention_operator,
    differentiated,
)
from attenio.kernels.torch_operator.schema import Arguments, BackwardArguments
from attenio.kernels.torch_operator.vmap import Mapped, Places, mapped, mapped_backward

_BIAS = Arguments._fields.index("bias")


def _keep(ctx: Any, given: Arguments, results: tuple[Tensor, ...]) -> None:
    """What ``_backward_arguments`` makes arguments of the backward operator of."""
    ctx.save_for_backward(*given.tensors, *results)
    ctx.numbers = (given.scale, given.below, given.above, given.query_block, given.key_block, given.dropout_p)
    ctx.deterministic = given.deterministic
    ctx.set_materialize_grads(False)


def _backward_arguments(ctx: Any, gradient: Tensor, *, bias_needs_it: bool) -> BackwardArguments:
    deterministic = ctx.deterministic or torch.are_deterministic_algorithms_enabled()  # by now
    given = BackwardArguments._make((*ctx.saved_tensors, gradient, *ctx.numbers, deterministic, False))
    if given.bias is None or given.bias.dtype == torch.bool or not bias_needs_it:
        return given
    return given._replace(with_bias=True)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, Arguments(*inputs), output)
    ctx.mark_non_differentiable(*output[1:])


def _gradients(
    ctx: Any, gradient: Tensor | None, known: Known | None = None, *, bias_needs_it: bool
) -> tuple[Tensor | None, ...]:
    """Those of queries, keys, values and of the bias, given what is known of the form of the call."""
    if gradient is None:
        return None, None, None, None
    given = _backward_arguments(ctx, gradient, bias_needs_it=bias_needs_it)
    # Gradients of gradients go to the operator, which raises that it has none. What was saved of a call of a known form
    # was not watched, and is the same now.
    if torch.is_grad_enabled() or not is_unwatched(given.tensors if known is None else (gradient,)):
        gradients = _backward_operated(*given)
    else:
        gradients = differentiated(given, known)
    return *gradients[:3], gradients[3] if given.with_bias else None


def _differentiate(ctx: Any, gradient: Tensor | None, *_statistics: Any) -> tuple[Any, ...]:
    gradients = _gradients(ctx, gradient, bias_needs_it=ctx.needs_input_grad[_BIAS])
    return *gradients, *(None,) * (len(Arguments._fields) - len(gradients))


class _Attention(torch.autograd.Function):
    """The operator's gradient for calls that do not pass through it: arguments, form, and those that have gradients."""

    @staticmethod
    def forward(ctx: Any, given: Arguments, known: Known | None, *_differentiable: Tensor | None) -> Tensor:
        results = attended(given, known, wanted=3)
        _keep(ctx, given, results)
        ctx.known = known if are_kept_as_they_are() else None
        return results[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Any, ...]:
        *_, bias_needs_it = ctx.needs_input_grad
        return None, None, *_gradients(ctx, gradient, ctx.known, bias_needs_it=bias_needs_it)


# Without the question whether ``torch.func`` transforms it: then something watches.
_apply = super(torch.autograd.Function, _Attention).apply


def unwatched(given: Arguments, known: Known | None = None) -> Tensor:
    """The operator's output for its arguments, where nothing watches, and what is known of the form of the call."""
    query, key, value, bias = given.query, given.key, given.value, given.bias
    wanted = (
        query.requires_grad or key.requires_grad or value.requires_grad or (bias is not None and bias.requires_grad)
    )
    if wanted and torch.is_grad_enabled():
        output: Tensor = _apply(given, known, query, key, value, bias)
        return output
    return attended(given, known, wanted=1)[0]


def again(tensors: tuple[Tensor, ...], known: Known) -> Tensor:
    """The same for the heads and the mask of a call whose form, and with it all other arguments, came before."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                given = Arguments._make((*tensors, *known.arguments))
                output: Tensor = _apply(given, known, given.query, given.key, given.value, given.bias)
                return output
    return attended_again(tensors, known)[0]


class _Transformed(torch.autograd.Function):
    """The operator for ``torch.func``, which differentiates functions like this one, but no registered operator."""

    forward = staticmethod(attention_operator)
    setup_context = staticmethod(_save)
    backward = staticmethod(_differentiate)

    @staticmethod
    def vmap(info: Any, in_dims: Places, *arguments: Any) -> Mapped:
        return mapped(operated, info, in_dims, *arguments)


class _TransformedBackward(torch.autograd.Function):
    """The same for the operator of its gradients."""

    forward = staticmethod(attention_backward_operator)

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
    results: tuple[Tensor, ...] = (_Transformed.apply if _is_transformed() else attention_operator)(*arguments)
    return results


def _backward_operated(*arguments: Any) -> tuple[Tensor, ...]:
    apply = _TransformedBackward.apply if _is_transformed() else attention_backward_operator
    gradients: tuple[Tensor, ...] = apply(*arguments)
    return gradients


attention_operator.register_autograd(_differentiate, setup_context=_save)
attention_operator.register_vmap(_Transformed.vmap)
attention_backward_operator.register_vmap(_TransformedBackward.vmap)
