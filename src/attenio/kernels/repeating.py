"""Calls like those before them: what was checked and planned then is not checked and planned again.

The *form* of a call is everything about it but addresses and data: sizes, steps, types and options. A call whose form
has run twice goes straight to its kernel. Only plain calls have a form: unwatched, on the current GPU, restricted by no
tensor, and not captured by a CUDA graph, which would go on to read what is kept here only while it is used.
"""

from collections.abc import Callable
from types import NoneType
from typing import Any, TypeAlias

import torch
from torch import Tensor

from attenio.kernels.backends import preparing
from attenio.kernels.operator import attended
from attenio.kernels.problem import KernelProblem
from attenio.kernels.watching import is_unwatched

__all__ = ["Form", "form_of", "keep", "repeated"]

Form: TypeAlias = tuple[Any, ...]
_Heads: TypeAlias = tuple[Tensor, Tensor, Tensor]
# Options of other types may not stay what they are.
_FIXED = frozenset((NoneType, bool, int, float, tuple))
_MOST = 4096
# What runs a form, and the operator's arguments after the heads. Nothing yet for forms that came once: they are made
# ready when they come again, for keys that grow by one a step make a new form each time. None if no way is shorter.
_known: dict[Form, tuple[Callable[..., tuple[Tensor, ...]], tuple[Any, ...]] | tuple[()] | None] = {}


def form_of(heads: _Heads, options: tuple[Any, ...]) -> Form | None:
    """The form of a call with these queries, keys and values, all else being ``options``; None if it has none."""
    query, key, value = heads
    if not is_unwatched(heads) or not _FIXED.issuperset(map(type, options)) or not _runs_here(query):
        return None
    if (query.data_ptr() | key.data_ptr() | value.data_ptr()) % 16:
        return None
    return (
        query.device, query.dtype, query.shape, query.stride(), key.device, key.dtype, key.shape, key.stride(),
        value.device, value.dtype, value.shape, value.stride(), *options,
    )  # fmt: skip


def _runs_here(query: Tensor) -> bool:
    """Whether launches go to the query's device, and are not captured."""
    device = query.get_device()
    return device >= 0 and device == torch.cuda.current_device() and not torch.cuda.is_current_stream_capturing()


def repeated(form: Form, heads: _Heads) -> Tensor | None:
    """The output of a call whose form is prepared; None for any other."""
    known = _known.get(form)
    if not known:
        return None
    run, rest = known
    return attended((*heads, *rest), run)[0]


def keep(form: Form, problem: Callable[[], KernelProblem], arguments: tuple[Any, ...]) -> None:
    """Note that a form has run the long way, as this problem, with these arguments of the operator."""
    if form not in _known:
        if len(_known) >= _MOST:
            del _known[next(iter(_known))]
        _known[form] = ()
    elif _known[form] is not None:
        prepared = preparing(arguments[0])
        run = None if prepared is None else prepared(problem())
        _known[form] = None if run is None else (run, arguments[3:])
