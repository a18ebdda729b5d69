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

from attenio.kernels.gpu.capability import is_hopper
from attenio.kernels.replay.standing_in import stand_ins

Tensors: TypeAlias = tuple[Tensor, ...]
# Options of other types may not stay what they are.
_FIXED = frozenset((NoneType, bool, int, float))
# Forms that are remembered; keys that grow by one a step make a new one each time.
_MOST = 1024
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


Forms: TypeAlias = dict[tuple[Any, ...], Known]
_known: Forms = {}
_adding = Lock()


def known_of(tensors: Tensors, options: tuple[Any, ...]) -> Known | None:
    """What is known of calls with such tensors, all else being ``options``; None for those that have no form.

    Nothing watches the tensors. Which of them are the same belongs to the form.
    """
    stream, places = _stream_of(tensors[0]), [tensor.data_ptr() for tensor in tensors]
    kinds = tuple(map(type, options))  # what is wrong of one type may be equal to what is right of another
    if stream is None or not _are_aligned(places) or not _FIXED.issuperset(kinds):
        return None
    form = (stream, options, kinds, *map(places.index, places), *_sizes_of(tensors))
    known = _known.get(form)
    return _first(_known, form, stream) if known is None else known


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
    stream, places = _stream_of(tensors[0]), [tensor.data_ptr() for tensor in tensors]
    if stream is None or not _are_aligned(places):
        return None
    form = (stream, repeats, tensors[-1].stride(), *map(places.index, places), *_sizes_of(tensors[:-1]))
    after = known.after.get(form)
    return _first(known.after, form, stream) if after is None else after


def _sizes_of(tensors: Tensors) -> list[Any]:
    """Everything of tensors but where they are, and what they hold."""
    parts: list[Any] = []
    for tensor in tensors:
        parts += (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device())
    return parts


def _are_aligned(places: list[int]) -> bool:
    bits = 0
    for place in places:
        bits |= place
    return bits % 16 == 0


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
    results: Tensors | None
    if known.tape is not None:
        results = known.tape.play(tensors, wanted, known.stream)
        return compute() if results is None else results
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
