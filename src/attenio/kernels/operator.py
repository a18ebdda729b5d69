"""The registered operators ``attenio::attention`` and ``attenio::attention_backward``.

PyTorch sees through them only by the rules here: shapes for ``torch.compile``, gradients for autograd, and how ``vmap``
moves its dimension into the batch. Where nobody looks (``is_unwatched``), ``attended`` does the same without asking
PyTorch's dispatcher, which takes longer than a short kernel.
"""

# mypy: disable-error-code="untyped-decorator"

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attenio.kernels.backends import backend_of, on_device_of
from attenio.kernels.checks import NotComputed
from attenio.kernels.cpu.two_pass import Saved
from attenio.kernels.dropout import Dropout
from attenio.kernels.masking import Seen
from attenio.kernels.problem import KernelProblem
from attenio.kernels.repeating import Known, known_of, repeated
from attenio.kernels.visibility import Visibility
from attenio.kernels.watching import is_unwatched

__all__ = ["attended", "attention_backward_operator", "attention_operator", "operated"]

# What comes before the numbers in the operators' arguments: q, k, v, bias, first, stop, ids of both, blocks, seed.
_TENSORS = 10


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
        found = backend_of(query).two_pass(problem, saved, with_bias=with_bias)
    of_bias = query.new_empty(0) if found.bias is None or bias is None else found.bias.to(bias.dtype)
    return _own(found.query.flatten(1, 2)), _own(found.key), _own(found.value), _own(of_bias)


def _attended(arguments: tuple[Any, ...], known: Known | None, *, wanted: int) -> tuple[Tensor, ...]:
    """The first ``wanted`` results of ``attend``, or more, given what is known of the form of the call."""
    if known is None:
        return attend(*arguments)
    given = arguments[:3] if arguments[3] is None else arguments[:4]
    return repeated(known, given, partial(attend, *arguments), wanted)


def _differentiated(arguments: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Gradients as ``differentiate`` gives them, at least those of the heads."""
    given, numbers = (*arguments[:3], *arguments[_TENSORS : _TENSORS + 4]), arguments[_TENSORS + 4 :]
    restricted = any(tensor is not None for tensor in arguments[3:_TENSORS])
    known = None if restricted else known_of(given, numbers)
    if known is None:
        return differentiate(*arguments)
    return repeated(known, given, partial(_of_heads, *arguments), wanted=3)


def _of_heads(*arguments: Any) -> tuple[Tensor, ...]:
    return differentiate(*arguments)[:3]


def _operate(*arguments: Any) -> tuple[Tensor, ...]:
    given = arguments[:3] if arguments[3] is None else arguments[:4]
    restricted = any(tensor is not None for tensor in arguments[4:_TENSORS])
    return _attended(arguments, None if restricted else known_of(given, arguments[_TENSORS:]), wanted=3)


def _operate_backward(*arguments: Any) -> tuple[Tensor, ...]:
    found = _differentiated(arguments)
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


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    scale, below, above, query_block, key_block, _prefix, dropout_p, deterministic = inputs[_TENSORS:]
    ctx.numbers = (scale, below, above, query_block, key_block, dropout_p, deterministic)
    ctx.set_materialize_grads(False)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, inputs, output)
    ctx.mark_non_differentiable(*output[1:])


def _gradients(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, ...]:
    """Those of queries, keys, values and of the bias."""
    if gradient is None:
        return None, None, None, None
    tensors, (*numbers, deterministic) = (*ctx.saved_tensors, gradient), ctx.numbers
    deterministic = deterministic or torch.are_deterministic_algorithms_enabled()  # by now
    with_bias = tensors[3] is not None and tensors[3].dtype != torch.bool and ctx.needs_input_grad[3]
    # Gradients of gradients are asked of the operator, which knows none and says so.
    if torch.is_grad_enabled() or not is_unwatched(tensors):
        found = _backward_operated(*tensors, *numbers, deterministic, with_bias)
    else:
        found = _differentiated((*tensors, *numbers, deterministic, with_bias))
    return *found[:3], found[3] if with_bias else None


def _differentiate(ctx: Any, gradient: Tensor | None, *_statistics: Any) -> tuple[Any, ...]:
    return *_gradients(ctx, gradient), *(None,) * (_TENSORS + 8 - 4)


attention_operator.register_autograd(_differentiate, setup_context=_save)


class _Attention(torch.autograd.Function):
    """The operator's gradient for calls that do not pass through it: what has gradients, other arguments, the form."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        *differentiable, rest, known = given
        arguments = (*differentiable, *rest)
        found = _attended(arguments, known, wanted=3)
        _keep(ctx, arguments, found)
        return found[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Any, ...]:
        return *_gradients(ctx, gradient), None, None


def attended(arguments: tuple[Any, ...], known: Known | None = None) -> Tensor:
    """The operator's output for its arguments, where nobody watches, and what is known of the form of the call."""
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in arguments[:4]):
        output: Tensor = _Attention.apply(*arguments[:4], arguments[4:], known)
        return output
    return _attended(arguments, known, wanted=1)[0]


def _into_batch(tensors: tuple[Any, ...], dims: tuple[Any, ...], size: int, *, share: bool) -> list[Any]:
    """Tensors (batch, ...) with the mapped dimension merged into the batch; those not mapped repeat."""
    merged: list[Any] = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None:
            merged.append(None)
        elif dim is None and share and tensor.shape[0] == 1:
            merged.append(tensor)
        else:
            moved = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            merged.append(moved.flatten(0, 1))
    return merged


def _one_by_one(operator: Any, size: int, dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, tuple[int, ...]]:
    """Each element of the mapped dimension by itself: for what the elements of a batch may not differ in."""
    results = [
        operator(*(arg if dim is None else arg.select(dim, k) for arg, dim in zip(args, dims, strict=True)))
        for k in range(size)
    ]
    stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
    return stacked, (0,) * len(stacked)


def _map(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, tuple[int, ...]]:
    size, prefix = info.batch_size, args[15]
    # Blocks and seeds are one for a batch, a prefix belongs to it, and a bias of a batch of 1 would meet two batches.
    if (
        any(dim is not None for dim in in_dims[8:_TENSORS])
        or prefix
        or args[9] is not None
        or _is_shared(args, in_dims)
    ):
        return _one_by_one(operated, size, in_dims, args)
    tensors = _into_batch(args[:3], in_dims[:3], size, share=False)
    tensors += _into_batch(args[3:8], in_dims[3:8], size, share=True)
    found = operated(*tensors, *args[8:])
    return tuple(part.unflatten(0, (size, -1)) for part in found), (0, 0, 0)


def _map_backward(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, tuple[int, ...]]:
    size = info.batch_size
    if any(dim is not None for dim in in_dims[8:_TENSORS]) or args[9] is not None or args[3] is not None:
        return _one_by_one(_backward_operated, size, in_dims, args)
    if _is_shared(args, in_dims):
        return _one_by_one(_backward_operated, size, in_dims, args)
    tensors = _into_batch(args[:3], in_dims[:3], size, share=False)
    tensors += _into_batch(args[3:8], in_dims[3:8], size, share=True)
    results = _into_batch(args[10:14], in_dims[10:14], size, share=False)
    of_query, of_key, of_value, _ = _backward_operated(*tensors, *args[8:10], *results, *args[14:])
    found = [part.unflatten(0, (size, -1)) for part in (of_query, of_key, of_value)]
    return (*found, of_query.new_empty(size, 0)), (0, 0, 0, 0)


def _is_shared(args: tuple[Any, ...], in_dims: tuple[Any, ...]) -> bool:
    """Whether a mapped tensor stands for a whole batch of several: merging would lose which element it belongs to."""
    batch = args[0].shape[0] if in_dims[0] != 0 else args[0].shape[1]
    return any(
        tensor is not None and dim is not None and tensor.movedim(dim, 0).shape[1] == 1 and batch > 1
        for tensor, dim in zip(args[3:8], in_dims[3:8], strict=True)
    )


attention_operator.register_vmap(_map)
attention_backward_operator.register_vmap(_map_backward)


class _Transformed(torch.autograd.Function):
    """The operator for ``torch.func``, which differentiates functions like this one, but no registered operator."""

    setup_context = staticmethod(_save)
    vmap = staticmethod(_map)

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = attention_operator(*arguments)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return _differentiate(ctx, *gradients)


class _TransformedBackward(torch.autograd.Function):
    """The same for the operator of its gradients."""

    vmap = staticmethod(_map_backward)

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
