"""Which kernels serve a tensor: those of the device that it is on."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from attenio.errors import InvalidInput, MissingExtra

__all__ = ["backend_of", "features_of", "on_device_of", "recording"]


def backend_of(tensor: Tensor) -> ModuleType:
    """A module with ``attend`` and ``gradients``."""
    if tensor.device.type == "cpu":
        from attenio.kernels import cpu

        return cpu
    if tensor.dtype == torch.float64:
        raise InvalidInput("attention in float64 runs on the CPU only; move the tensors there, or use float32")
    try:
        from attenio.kernels import triton
    except ImportError:
        raise MissingExtra("attention on a GPU", "triton") from None
    if _is_hopper(tensor.device):
        from attenio.kernels import hopper

        return hopper
    return triton


def on_device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Launches go to the current device: within this it is the tensor's. Kernels of the CPU make tensors by default.

    Autocast is off: what a kernel computes in is the kernel's to say, and gradients are asked for within it too.
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


def recording(tensor: Tensor) -> Callable[..., Any] | None:
    """What records the launches of a computation on the device of a tensor; None where nothing does."""
    if tensor.device.type != "cuda" or not _is_hopper(tensor.device):
        return None
    from attenio.kernels import hopper

    return hopper.recorded


def features_of(tensor: Tensor) -> ModuleType:
    """A module with ``promise_for``, ``approximate_operations`` and ``attend_by_features``."""
    if tensor.device.type == "cpu":
        from attenio.kernels.cpu import features

        return features
    if tensor.dtype == torch.float64:
        raise InvalidInput("use exact: features on a GPU are summed in float32")
    try:
        from attenio.kernels.triton import feature_function
    except ImportError:
        raise MissingExtra("attention on a GPU", "triton") from None
    return feature_function


@lru_cache(maxsize=64)
def _is_hopper(device: torch.device) -> bool:
    return device.type == "cuda" and tuple(torch.cuda.get_device_capability(device)) == (9, 0)
