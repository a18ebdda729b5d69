"""Calls like those before them: what was checked and planned then is not checked and planned again.

The *form* of a call is everything about it but addresses and data: sizes, steps, types and options. Whatever is done
for a call follows from its form. So a form that comes again is recorded as the launches that it ends in, and from then
on only these are repeated. Only plain calls have a form: unwatched, on the current GPU, restricted by no tensor, and
not captured by a CUDA graph, which would go on to read what is kept here only while it is used.
"""

from collections.abc import Callable
from types import NoneType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from attenio.kernels.backends import recording

__all__ = ["Form", "arguments_of", "form_of", "keep_arguments", "repeated"]

Form: TypeAlias = tuple[Any, ...]
Tensors: TypeAlias = tuple[Tensor, ...]
# Options of other types may not stay what they are.
_FIXED = frozenset((NoneType, bool, int, float))
# Forms that are kept; keys that grow by one a step make a new one each time.
_MOST = 1024
# What is done once for a process or a stream may stand in the way of a recording, but not for long.
_TRIES = 4


class _Known:
    """What is known of a form: its launches, or how often it has come; and arguments that follow from it."""

    __slots__ = ("arguments", "tape", "tries")

    def __init__(self) -> None:
        self.tape: Any = None
        self.tries = 0
        self.arguments: tuple[Any, ...] | None = None


_known: dict[Form, _Known] = {}


def form_of(tensors: Tensors, options: tuple[Any, ...]) -> Form | None:
    """The form of what is done with these tensors, all else being ``options``; None if it has none.

    Nobody watches the tensors. Which of them are the same belongs to the form.
    """
    stream = _stream_of(tensors[0])
    places = [tensor.data_ptr() for tensor in tensors]
    if stream is None or any(place % 16 for place in places) or not _FIXED.issuperset(map(type, options)):
        return None
    form = [stream, options, *map(places.index, places)]
    for tensor in tensors:
        form += (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device())
    return tuple(form)


def _stream_of(tensor: Tensor) -> tuple[int, int] | None:
    """The GPU of a tensor and its stream, if launches go there now and are not captured."""
    device = tensor.get_device()
    if device < 0 or device != torch._C._cuda_getDevice() or torch._C._cuda_isCurrentStreamCapturing():
        return None
    return device, torch._C._cuda_getCurrentRawStream(device)


def repeated(form: Form, tensors: Tensors, compute: Callable[[], Tensors], wanted: int) -> Tensors:
    """The first ``wanted`` results, or more, of a computation that has this form and takes these tensors."""
    known = _known.get(form)
    if known is None:
        if len(_known) >= _MOST:
            del _known[next(iter(_known))]
        _known[form] = _Known()
        return compute()
    if known.tape is not None:
        found: Tensors | None = known.tape.play(tensors, wanted)
        return compute() if found is None else found
    record = None if known.tries >= _TRIES else recording(tensors[0])
    if record is None:
        return compute()
    known.tries += 1
    found, known.tape = record(compute, tensors)
    return found


def keep_arguments(form: Form, arguments: tuple[Any, ...]) -> None:
    """Keep what the operator takes in calls of a form that has run."""
    known = _known.get(form)
    if known is not None:
        known.arguments = arguments


def arguments_of(form: Form) -> tuple[Any, ...] | None:
    """What the operator takes in calls of this form, once its launches are known."""
    known = _known.get(form)
    return None if known is None or known.tape is None else known.arguments
