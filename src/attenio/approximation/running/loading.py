"""PyTorch, imported when something needs it: the rest of attenio does not."""

from typing import Any

from attenio.errors import MissingExtra

# A torch.Tensor: its own types are not read, with PyTorch or without.
Tensor = Any


def loaded_torch() -> Any:
    """The module torch, or one line that names the extra it comes with."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("approximate attention on tensors", "torch") from None
    return torch
