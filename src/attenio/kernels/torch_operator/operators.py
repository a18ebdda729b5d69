"""The registered operators ``attenio::attention`` and ``attenio::attention_backward``; a path past the dispatcher.

PyTorch sees through them only by rules: fakes tell ``torch.compile`` shapes and types, what autograd and ``torch.func``
need is in ``autograd``, and how ``vmap`` moves its dimension into the batch in ``vmap``. Where nothing watches,
``attended`` and ``differentiated`` do the same without asking PyTorch's dispatcher, which takes longer than a short
kernel.
"""

# mypy: disable-error-code="untyped-decorator"

from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attenio.kernels.call.dropout import Dropout
from attenio.kernels.call.results import LOG2_E, Saved, with_sink
from attenio.kernels.choice import backend_of
from attenio.kernels.replay.repeating import Known, known_after, known_of, repeated
from attenio.kernels.torch_operator.schema import (
    HEADS,
    Arguments,
    BackwardArguments,
    Flat,
    is_restricted,
    problem_of,
    schema_of,
)


def _dropout(given: Flat) -> Dropout | None:
    return None if given.seed is None else Dropout(probability=given.dropout_p, seed=int(given.seed))


def _own(tensor: Tensor) -> Tensor:
    """A result that may be written over: autograd takes it for a tensor of its own, whatever it is a view of."""
    return tensor.detach()


def _on_device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Launches go to the current device: within this it is the tensor's. Kernels of the CPU make tensors by default.

    Autocast is off: what a kernel computes in is the kernel's to say, and gradients may be computed within it too.
    """
    if not torch._C._is_any_autocast_enabled():
        return _with_current_device(tensor)
    both = ExitStack()
    both.enter_context(_with_current_device(tensor))
    both.enter_context(torch.autocast(tensor.device.type, enabled=False))
    return both


def _with_current_device(tensor: Tensor) -> AbstractContextManager[Any]:
    index = tensor.get_device()
    if index < 0:
        return tensor.device if torch._C._is_torch_function_mode_enabled() else nullcontext()
    return nullcontext() if index == torch.cuda.current_device() else torch.cuda.device(index)


def attend(given: Arguments, *, only_output: bool = False) -> tuple[Tensor, ...]:
    """Output (batch, heads, queries, width), largest score and sum of weights of every row.

    These repeat to the bit anyway, once the best kernel is compiled; with ``deterministic`` a call waits for it.
    Of results after the ``only_output`` that is asked for a kernel may leave everything unwritten.
    """
    if given.query.numel() == 0 or given.value.numel() == 0:  # a row that sees nothing gives zeros
        output, largest, total = _fake_results(*given)
        output, largest, total = output.zero_(), largest.fill_(-torch.inf), total.zero_()
        if given.sinks is not None:
            largest, total, _ = with_sink(largest, total, _in_log2(given.sinks, total)[:, None])
        return output, largest, total
    problem = problem_of(
        given, prefix=given.prefix, dropout=_dropout(given), sinks=given.sinks, deterministic=given.deterministic,
        only_output=only_output and given.sinks is None,
    )  # fmt: skip
    backend = backend_of(given.query)
    with _on_device_of(given.query):
        choice = backend.choose(problem)
        results = backend.run(problem, choice)
    output, largest, total = results.output.flatten(1, 2), results.largest.flatten(1, 2), results.total.flatten(1, 2)
    if given.sinks is not None and not choice.folds_sinks:
        largest, total, share = with_sink(largest, total, _in_log2(given.sinks, total)[:, None])
        output = (output * share[..., None]).to(output.dtype)
    return _own(output), largest, total


def _in_log2(sinks: Tensor, like: Tensor) -> Tensor:
    """Sinks as what exponents of two are compared with."""
    return sinks.detach().to(like.dtype) * LOG2_E


def differentiate(given: BackwardArguments, *, is_part: bool = False) -> tuple[Tensor, ...]:
    """Gradients of queries, keys, values, and of the bias (empty unless requested).

    ``is_part``: rows see more keys than these, and their largest scores and sums are those over all of them.
    """
    query, key, bias = given.query, given.key, given.bias
    if query.numel() == 0 or key.numel() == 0 or given.value.numel() == 0:
        nothing = query.new_empty(0) if bias is None or not given.with_bias else bias
        return tuple(x.new_zeros(x.shape) for x in (query, key, given.value, nothing))
    is_part = is_part or given.sinks is not None  # which are as keys that are not here
    problem = problem_of(given, dropout=_dropout(given), deterministic=given.deterministic, is_part=is_part)
    heads = (key.shape[1], -1)
    saved = Saved(*(x.unflatten(1, heads) for x in (given.output, given.largest, given.total, given.gradient)))
    with _on_device_of(query):
        gradients = backend_of(query).gradients(problem, saved, with_bias=given.with_bias)
    of_bias = query.new_empty(0) if gradients.bias is None or bias is None else gradients.bias.to(bias.dtype)
    return _own(gradients.query.flatten(1, 2)), _own(gradients.key), _own(gradients.value), _own(of_bias)


def attended(given: Arguments, known: Known | None, *, wanted: int) -> tuple[Tensor, ...]:
    """The first ``wanted`` results of ``attend``, or more, given what is known of the form of the call."""
    if known is None:
        return attend(given, only_output=wanted == 1)
    return repeated(known, given.with_form, partial(attend, given), wanted)


def attended_again(tensors: tuple[Tensor, ...], known: Known, *, wanted: int) -> tuple[Tensor, ...]:
    """The same of a call whose form, and with it all other arguments, came before."""
    return known.replayed(tensors, wanted) or repeated(known, tensors, partial(_attend_again, tensors, known), wanted)


def _attend_again(tensors: tuple[Tensor, ...], known: Known) -> tuple[Tensor, ...]:
    return attend(Arguments._make((*tensors, *known.arguments)))


def differentiated(given: BackwardArguments, attended_as: Known | None = None) -> tuple[Tensor, ...]:
    """Gradients as ``differentiate`` gives them, at least those of the heads; of a call of a form, if it has one."""
    tensors = given.with_form
    if given.bias is not None or is_restricted(given):
        known = None
    elif attended_as is None:
        known = known_of(tensors, given.numbers)
    else:
        known = known_after(attended_as, tensors, repeats=given.deterministic)
    if known is None:
        return differentiate(given)
    return repeated(known, tensors, partial(_of_heads, given), wanted=3)


def _of_heads(given: BackwardArguments) -> tuple[Tensor, ...]:
    return differentiate(given)[:3]


def differentiated_again(tensors: tuple[Tensor, ...], known: Known, *, deterministic: bool) -> tuple[Tensor, ...]:
    """Gradients of the heads of a call of a known form, by heads, results and the gradient of the output."""
    after = known_after(known, tensors, repeats=deterministic)
    gradients = after and after.replayed(tensors, 3)
    return gradients or differentiated(backward_again(tensors, known, deterministic=deterministic), known)


def backward_again(tensors: tuple[Tensor, ...], known: Known, *, deterministic: bool) -> BackwardArguments:
    """All arguments of the gradients of such a call."""
    given = Arguments._make((*tensors[:HEADS], *known.arguments))
    return BackwardArguments.after(given, tensors[HEADS:], deterministic=deterministic)


def _operate(*arguments: Any) -> tuple[Tensor, ...]:
    """Results as the fakes promise them, contiguous: a compiler relies on it."""
    given = Arguments(*arguments)
    known = None if is_restricted(given) else known_of(given.with_form, given.numbers)
    return tuple(part.contiguous() for part in attended(given, known, wanted=3))


def _operate_backward(*arguments: Any) -> tuple[Tensor, ...]:
    """The same for gradients, which PyTorch's fused kernel gives with tokens before heads."""
    given = BackwardArguments(*arguments)
    gradients = tuple(part.contiguous() for part in differentiated(given))
    return gradients if len(gradients) == 4 else (*gradients, given.query.new_empty(0))


def _fake_results(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Output, largest scores and sums of weights, uninitialised: what ``torch.compile`` and others need."""
    given = Arguments(*arguments)
    query, rows = given.query, given.query.shape[:-1]
    precision = torch.float64 if query.dtype == torch.float64 else torch.float32
    statistics = (query.new_empty(rows, dtype=precision), query.new_empty(rows, dtype=precision))
    return query.new_empty((*rows, given.value.shape[-1])), *statistics


def _fake_gradients(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Those of queries, keys, values, and of the bias (empty unless requested), uninitialised."""
    given = BackwardArguments(*arguments)
    bias = given.bias
    of_bias = bias.new_empty(bias.shape) if given.with_bias and bias is not None else given.query.new_empty(0)
    return *(tensor.new_empty(tensor.shape) for tensor in (given.query, given.key, given.value)), of_bias


def _registered(name: str, run: Any, fake: Any, schema: str) -> Any:
    operator = torch.library.custom_op(name, run, mutates_args=(), device_types=("cpu", "cuda"), schema=schema)
    operator.register_fake(fake)
    return operator


attention_operator = _registered("attenio::attention", _operate, _fake_results, schema_of(Arguments, results=3))
attention_backward_operator = _registered(
    "attenio::attention_backward", _operate_backward, _fake_gradients, schema_of(BackwardArguments, results=4)
)
