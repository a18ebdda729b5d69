"""Calls like those before them: what was checked and planned then is not checked and planned again.

The *form* of a call is everything about it but addresses and data: sizes, strides, types and options. Whatever is done
for a call follows from its form. So a form that comes again is recorded as the launches that it ends in, and from then
on only these are repeated. Only plain calls have a form: unwatched, on the current GPU, restricted by no tensor but a
mask, and not captured by a CUDA graph, whose replays would read memory that may be freed here by then.
"""

from collections.abc import Callable
from threading import Lock
from types import NoneType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from attenio.kernels.call.watching import nothing_watches
from attenio.kernels.gpu.capability import is_hopper
from attenio.kernels.replay.native import loaded
from attenio.kernels.replay.standing_in import stand_ins

Tensors: TypeAlias = tuple[Tensor, ...]
# Options of other types may not stay what they are.
_FIXED = frozenset((NoneType, bool, int, float))
# Forms that are remembered; keys that grow by one a step make a new one each time.
_MOST = 1024
_is_compiling = torch.compiler.is_compiling
# What is done once for a process or a stream may prevent a recording, but not for long.
_TRIES = 4


class Known:
    """What is known of a form: how often it was computed, then its launches; and what follows from it.

    Arguments do, and forms of its gradients, by what such a call itself does not tell.
    """

    __slots__ = ("after", "arguments", "computed", "stream", "tape")

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.computed = 0
        self.tape: Any = None
        self.arguments: Any = None
        self.after: Forms = {}

    def replayed(self, tensors: Tensors, wanted: int) -> Tensors | None:
        """The first ``wanted`` results for these tensors, if their launches are known and may be replayed now."""
        if self.tape is None:
            return None
        results: Tensors | None = self.tape.play(tensors, wanted, self.stream)
        return results


Forms: TypeAlias = dict[tuple[Any, ...], Known]
_known: Forms = {}
_adding = Lock()


def known_of(tensors: Tensors, options: tuple[Any, ...]) -> Known | None:
    """What is known of calls with such tensors, all else being ``options``; None for those that have no form.

    Nothing watches the tensors. Which of them are the same belongs to the form.
    """
    kinds = tuple(map(type, options))  # what is wrong of one type may be equal to what is right of another
    stream = _stream_of(tensors[0])
    if stream is None or not _FIXED.issuperset(kinds) or (sizes := _sizes_of(tensors)) is None:
        return None
    form = (stream, options, kinds, sizes)
    known = _known.get(form)
    return _first(_known, form, stream) if known is None else known


def form_options(is_causal: Any, scale: Any, enable_gqa: Any, deterministic: Any, window: Any) -> tuple[Any, ...]:
    """The options of a call as they belong to its form."""
    sides = window if type(window) is tuple and len(window) == 2 else (window,)
    return (is_causal, scale, enable_gqa, repeats_now(deterministic), *sides)


def repeats_now(deterministic: Any) -> Any:
    """Whether gradients are to repeat to the bit, as far as one argument says, or PyTorch's switch."""
    return torch.are_deterministic_algorithms_enabled() if deterministic is False else deterministic


def recalled(tensors: Tensors, dropout_p: Any, options: tuple[Any, ...]) -> Known | None:
    """What is known of a call with these arguments of ``form_options``, before anything else is asked about it."""
    if _is_compiling() or (module := loaded()) is None or not (module.is_quiet() or nothing_watches()):
        return None
    if (
        torch._C._is_any_autocast_enabled()
        or forward_ad._current_level >= 0
        or type(dropout_p) is not float
        or dropout_p
        or type(options[-1]) is bool
    ):
        return None
    known = known_of(tensors, form_options(*options))
    return None if known is None or known.arguments is None else known


def nothing_watches_now() -> bool:
    """What ``nothing_watches`` says, asked in C first."""
    return (not _is_compiling() and (module := loaded()) is not None and module.is_quiet()) or nothing_watches()


def forget() -> None:
    """Forget all forms, because kernels are chosen differently from now on."""
    with _adding:
        _known.clear()


def known_after(known: Known, tensors: Tensors, *, repeats: bool) -> Known | None:
    """The same for the gradients of a call of a known form: its tensors and results as saved, and their gradient.

    Autograd sees to it that sizes and types of the gradient are those of the output, but not that what it saved comes
    back as it was: a hook on one saved tensor may give another, a result too, and so does ``tensor.data = ...``. Hooks
    on all that is saved are seen when it is; what is known is not asked for then.
    """
    stream = _stream_of(tensors[0])
    if stream is None or (sizes := _sizes_of(tensors)) is None:
        return None
    form = (stream, repeats, sizes)
    after = known.after.get(form)
    return _first(known.after, form, stream) if after is None else after


def _sizes_of(tensors: Tensors) -> Any:
    """Everything of tensors but where they are, and what they hold; and which of them are the same.

    None where kernels do not take them from where they begin.
    """
    module = loaded()
    if module is not None:
        return module.form_of(tensors)
    places, bits = [tensor.data_ptr() for tensor in tensors], 0
    for place in places:
        bits |= place
    if bits % 16:
        return None
    parts: list[Any] = [*map(places.index, places)]
    for tensor in tensors:
        parts += (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device())
    return tuple(parts)


def _first(forms: Forms, form: tuple[Any, ...], stream: int) -> Known:
    """A new form is added, by one thread at a time: backward passes run in threads of their own."""
    with _adding:
        if len(forms) >= _MOST:
            del forms[next(iter(forms))]
        return forms.setdefault(form, Known(stream))


def _stream_of(tensor: Tensor) -> int | None:
    """The stream on which kernels would run now, if it is one of the tensor's device and not captured."""
    device = tensor.get_device()
    if device < 0 or device != torch._C._cuda_getDevice() or torch._C._cuda_isCurrentStreamCapturing():
        return None
    stream: int = torch._C._cuda_getCurrentRawStream(device)
    return stream


def repeated(known: Known, tensors: Tensors, compute: Callable[[], Tensors], wanted: int) -> Tensors:
    """The first ``wanted`` results, or more, of a computation of these tensors, given what is known of its form.

    What a stand-in computed is not counted, nor is it recorded: the next call may run on a better kernel.
    """
    if known.tape is not None:
        replayed = known.replayed(tensors, wanted)
        return compute() if replayed is None else replayed
    record = recording(tensors[0]) if 0 < known.computed <= _TRIES else None
    before, tape = stand_ins(), None
    if record is None:
        results = compute()
    else:
        results, tape = record(compute, tensors)
    if stand_ins() == before:
        known.computed, known.tape = known.computed + 1, tape
    return results


def recording(tensor: Tensor) -> Callable[..., Any] | None:
    """What records the launches of a computation on the device of a tensor; None where nothing does."""
    if tensor.device.type != "cuda" or not is_hopper(tensor.device):
        return None
    from attenio.kernels.replay.tape import recorded

    return recorded
