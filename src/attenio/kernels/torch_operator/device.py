"""The current device of launches, which is that of a call's tensors."""

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor


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
