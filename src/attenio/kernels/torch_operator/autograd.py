"""What autograd, ``torch.func`` and ``vmap`` are told of the operators, and how each of them reaches these.

Calls that something watches go through ``operated``, the registered operator with its rules. All others go through
``unwatched``, which has the same gradient without the dispatcher, in the forward pass and in the backward pass.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.checks import NotComputed
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.call.watching import are_kept_as_they_are, is_ordinary, is_unwatched
from attenio.kernels.replay.repeating import Known, nothing_watches_now
from attenio.kernels.torch_operator.operators import (
    attended,
    attended_again,
    attention_backward_operator,
    attention_operator,
    backward_again,
    differentiated,
    differentiated_again,
)
from attenio.kernels.torch_operator.schema import HEADS, Arguments, BackwardArguments
from attenio.kernels.torch_operator.vmap import Mapped, Places, mapped, mapped_backward

_BIAS, _SINKS, _DETERMINISTIC = map(Arguments._fields.index, ("bias", "sinks", "deterministic"))
# Entries of a gradient in 16 bits that hold all digits of a number in 32.
_PIECES = 3


class Wants(NamedTuple):
    """Which gradients are asked for, beside those of queries, keys and values."""

    bias: bool
    sinks: bool


def _keep(ctx: Any, given: Arguments, results: tuple[Tensor, ...]) -> None:
    """What ``_backward_arguments`` makes arguments of the backward operator of."""
    ctx.save_for_backward(*given.tensors, *results)
    ctx.numbers = (given.scale, given.below, given.above, given.query_block, given.key_block, given.dropout_p)
    ctx.deterministic, ctx.softcap, ctx.segments = given.deterministic, given.softcap, given.segments
    ctx.set_materialize_grads(False)


def _backward_arguments(ctx: Any, gradient: Tensor | None, *, bias_needs_it: bool) -> BackwardArguments:
    deterministic = ctx.deterministic or torch.are_deterministic_algorithms_enabled()  # by now
    *tensors, sinks, output, largest, total = ctx.saved_tensors
    gradient = torch.zeros_like(output) if gradient is None else gradient
    given = BackwardArguments._make(
        (
            *tensors,
            output,
            largest,
            total,
            gradient,
            *ctx.numbers,
            deterministic,
            False,
            sinks,
            ctx.softcap,
            ctx.segments,
        )
    )
    if given.bias is None or given.bias.dtype == torch.bool or not bias_needs_it:
        return given
    return given._replace(with_bias=True)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, Arguments(*inputs), output)
    ctx.mark_non_differentiable(output[1])


def _gradients(
    ctx: Any, gradient: Tensor | None, of_total: Tensor | None, known: Known | None = None, *, wants: Wants
) -> tuple[Tensor | None, ...]:
    """Those of queries, keys, values, bias and sinks, by those of the output and of the sums of weights."""
    if gradient is None and of_total is None:
        return None, None, None, None, None
    given = _backward_arguments(ctx, gradient, bias_needs_it=wants.bias)
    per_row = None if of_total is None else of_total * given.total
    of_sinks = _sinks_gradient(given, per_row) if wants.sinks and given.sinks is not None else None
    if per_row is None:
        return *_by_the_output(given, known), of_sinks
    of_query, of_key, of_value, of_bias = _by_the_output(_with_rows(given, per_row), None)
    assert of_value is not None
    return of_query, of_key, of_value[..., : given.value.shape[-1]], of_bias, of_sinks


def _sinks_gradient(given: BackwardArguments, per_row: Tensor | None) -> Tensor:
    """A sink takes the rest of the weight: what it takes from the output, and gives to the log-sum-exp."""
    assert given.sinks is not None
    share = torch.exp2(given.sinks.to(given.total.dtype)[:, None] * LOG2_E - given.largest) / given.total
    moved = -(given.gradient.to(share.dtype) * given.output.to(share.dtype)).sum(-1)
    moved = moved if per_row is None else moved + per_row
    return (share * moved).sum((0, 2)).to(given.sinks.dtype)


def _with_rows(given: BackwardArguments, per_row: Tensor) -> BackwardArguments:
    """dS = P (dP - D + g) for a g of every row, as kernels compute it: g is a column of dO, and that of V is 1.

    The output has a zero there, so that D stays. In 16 bits g is the sum of several columns. Widths are multiples of 8.
    """
    if given.dropout_p > 0.0:
        raise NotComputed("the log-sum-exp of a call with dropout has no gradient; set dropout_p to 0, or detach it")
    pieces, rest, dtype = [], per_row, given.query.dtype
    for _ in range(1 if per_row.dtype == dtype else _PIECES):
        pieces.append(rest.to(dtype))
        rest = rest - pieces[-1].to(rest.dtype)
    spare = -(given.value.shape[-1] + len(pieces)) % 8
    columns = torch.nn.functional.pad(torch.stack(pieces, -1), (0, spare))
    ones = torch.nn.functional.pad(given.value.new_ones((*given.value.shape[:-1], len(pieces))), (0, spare))
    wider = torch.nn.functional.pad(given.output, (0, columns.shape[-1]))
    value, gradient = torch.cat((given.value, ones), -1), torch.cat((given.gradient, columns), -1)
    sinks = given.sinks
    if sinks is None and given.key.shape[2] == 1:  # a kernel may know that the output is an only key's value
        sinks = per_row.new_full((given.query.shape[1],), -torch.inf)
    return given._replace(value=value, output=wider, gradient=gradient, sinks=sinks)


def _by_the_output(given: BackwardArguments, known: Known | None) -> tuple[Tensor | None, ...]:
    """Gradients of queries, keys, values and of the bias, given what is known of the form of the call."""
    gradient = given.gradient
    # Gradients of gradients go to the operator, which raises that it has none. What was saved of a call of a known form
    # was not watched, and is the same now.
    if torch.is_grad_enabled() or not is_unwatched(given.tensors if known is None else (gradient,)):
        gradients = _backward_operated(*given)
    else:
        gradients = differentiated(given, known)
    return *gradients[:3], gradients[3] if given.with_bias else None


def _differentiate(
    ctx: Any, gradient: Tensor | None, _largest: Tensor | None, of_total: Tensor | None
) -> tuple[Any, ...]:
    count = len(ctx.needs_input_grad)  # defaults at the end may have been left out
    wants = Wants(ctx.needs_input_grad[_BIAS], count > _SINKS and ctx.needs_input_grad[_SINKS])
    *of_inputs, of_sinks = _gradients(ctx, gradient, of_total, wants=wants)
    every = (
        *of_inputs,
        *(None,) * (_SINKS - len(of_inputs)),
        of_sinks,
        *(None,) * (len(Arguments._fields) - _SINKS - 1),
    )
    return every[:count]


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
        return None, None, *_gradients(ctx, gradient, None, ctx.known, wants=Wants(*ctx.needs_input_grad[-2:]))


class _Again(torch.autograd.Function):
    """The same for heads of a known form: all other arguments follow from it, and are not kept anew."""

    @staticmethod
    def forward(ctx: Any, known: Known, *heads: Tensor) -> Tensor:
        results = attended_again(heads, known, wanted=3)
        ctx.save_for_backward(*heads, *results)
        ctx.known, ctx.keeps = known, are_kept_as_they_are()
        return results[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        known, tensors = ctx.known, (*ctx.saved_tensors, gradient)
        repeats = known.arguments[_DETERMINISTIC - HEADS] or torch.are_deterministic_algorithms_enabled()
        if not ctx.keeps or torch.is_grad_enabled() or not (nothing_watches_now() and is_ordinary(gradient)):
            return None, *_backward_operated(*backward_again(tensors, known, deterministic=repeats))[:HEADS]
        return None, *differentiated_again(tensors, known, deterministic=repeats)[:HEADS]


# Without the question whether ``torch.func`` transforms it: then something watches.
_apply = super(torch.autograd.Function, _Attention).apply
_apply_again = super(torch.autograd.Function, _Again).apply


def unwatched(given: Arguments, known: Known | None = None) -> Tensor:
    """The operator's output for its arguments, where nothing watches, and what is known of the form of the call."""
    if _wants_gradients(given):
        output: Tensor = _apply(given, known, given.query, given.key, given.value, given.bias, given.sinks)
        return output
    return attended(given, known, wanted=1)[0]


def _wants_gradients(given: Arguments) -> bool:
    if not torch.is_grad_enabled():
        return False
    bias, sinks = given.bias, given.sinks
    wanted = given.query.requires_grad or given.key.requires_grad or given.value.requires_grad
    return wanted or (bias is not None and bias.requires_grad) or (sinks is not None and sinks.requires_grad)


def with_lse(given: Arguments) -> tuple[Tensor, Tensor]:
    """The output, and the natural logarithm of the sum of exponentials of every row; -inf where it saw nothing.

    The largest score is taken for a number: whatever it is, the sum of weights beside it holds the gradient.
    Without gradients the operator is left out: the first call of it in a process imports PyTorch's compiler.
    """
    if is_unwatched(given.tensors) and not _wants_gradients(given):
        output, largest, total = attended(given, None, wanted=3)
    else:
        output, largest, total = operated(*given)
    nothing = total == 0.0
    lse = (largest + torch.log2(torch.where(nothing, 1.0, total))) / LOG2_E
    return output, torch.where(nothing, -torch.inf, lse)


def again(tensors: tuple[Tensor, ...], known: Known) -> Tensor:
    """The same for the heads and the mask of a call whose form, and with it all other arguments, came before."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor.requires_grad:
                output: Tensor
                if len(tensors) == HEADS:
                    output = _apply_again(known, *tensors)
                else:
                    given = Arguments._make((*tensors, *known.arguments))
                    output = _apply(given, known, *given[: HEADS + 1], None)
                return output
    return attended_again(tensors, known, wanted=1)[0]


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
        raise NotComputed(
            "attention has no second derivative; differentiate it once, or call PyTorch's scaled_dot_product_attention"
            " under sdpa_kernel(SDPBackend.MATH), with a window as attn_mask"
        )

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
attention_backward_operator.register_autograd(
    _TransformedBackward.backward, setup_context=_TransformedBackward.setup_context
)
attention_backward_operator.register_vmap(_TransformedBackward.vmap)
