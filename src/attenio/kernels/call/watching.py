"""Whether anything but autograd stands between a call and its kernels.

PyTorch's dispatcher finds out for every call of an operator who wants to see it: a compiler or an exporter that traces,
``vmap`` and other transforms, modes that count or fake, a profiler, a tensor of another class. Mostly nothing does, and
finding that out takes longer than a short kernel runs. Here it takes two microseconds.
"""

from collections.abc import Iterable

import torch
from torch import DispatchKey, DispatchKeySet, Tensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

CLASSES = Tensor, torch.nn.Parameter
_is_compiling, _is_profiled = torch.compiler.is_compiling, torch.autograd._profiler_enabled
_has_function_modes = torch._C._is_torch_function_mode_enabled
_get_dispatch_mode, _TRACING = torch._C._get_dispatch_mode, tuple(torch._C._TorchDispatchModeKey.__members__.values())
_asked_for, _keys_of = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_keys
# What packs all that is saved now, if anything does. PyTorch 2.6 and 2.7 do not tell: there something may.
_top_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _ignores_tracing: True)


def _together(*keys: DispatchKey) -> int:
    together = DispatchKeySet(keys[0])
    for key in keys[1:]:
        together = together.add(key)
    return int(together.raw_repr())


# Dispatch keys that a thread includes by itself, and in inference mode; what watches includes more.
_USUAL = frozenset(
    (_together(DispatchKey.BackendSelect, DispatchKey.ADInplaceOrView), _together(DispatchKey.BackendSelect))
)
USUAL_KEYS = max(_USUAL)
# Dispatch keys of tensors of the CPU and of a GPU, from outside of inference mode and from within. Those whose elements
# are not what their memory holds (negated, zero, mapped, fake) have more.
ORDINARY_KEYS = tuple(
    _together(device, *more)
    for device, autograd, autocast in (
        (DispatchKey.CPU, DispatchKey.AutogradCPU, DispatchKey.AutocastCPU),
        (DispatchKey.CUDA, DispatchKey.AutogradCUDA, DispatchKey.AutocastCUDA),
    )
    for more in ((autocast, DispatchKey.ADInplaceOrView, autograd), (autocast,))
)


def is_unwatched(tensors: Iterable[Tensor | None]) -> bool:
    """Whether kernels may be called with these tensors as they are, and nothing needs the operator."""
    return nothing_watches() and are_ordinary(tensors)


def nothing_watches() -> bool:
    """The same for a call of ordinary tensors."""
    return not (
        _is_compiling()
        or _asked_for().raw_repr() not in _USUAL
        or _is_profiled()
        or (_has_function_modes() and _is_a_function_watched())
    )


def _nothing_traces() -> bool:
    return not _is_compiling() and _asked_for().raw_repr() in _USUAL


def _is_a_function_watched() -> bool:
    """Whether a mode of functions is more than a default device for new tensors."""
    return any(type(mode) is not DeviceContext for mode in _get_current_function_mode_stack())


def are_ordinary(tensors: Iterable[Tensor | None]) -> bool:
    """Whether tensors are of PyTorch's own class, and their elements what their memory holds."""
    return all(tensor is None or is_ordinary(tensor) for tensor in tensors)


def is_ordinary(tensor: Tensor) -> bool:
    """The same for one."""
    return type(tensor) in CLASSES and _keys_of(tensor).raw_repr() in ORDINARY_KEYS


def is_concrete(tensors: Iterable[Tensor | None]) -> bool:
    """Whether tensors hold numbers that may be looked at now: nothing is traced, mapped or faked."""
    return _nothing_traces() and are_ordinary(tensors)


def has_values(tensor: Tensor) -> bool:
    """Whether the numbers of this one tensor may be read now, whatever is done with others: mapped, counted, profiled.

    Not where a program is traced or faked, and not while a CUDA graph is captured, which no read may interrupt.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or any(map(_get_dispatch_mode, _TRACING)):
        return False
    return is_ordinary(tensor) and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def are_kept_as_they_are() -> bool:
    """Whether what is saved for a backward pass now comes back as it is: no hook packs it, as far as PyTorch tells."""
    return _top_hooks(True) is None
