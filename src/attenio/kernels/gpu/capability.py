"""Which GPUs have what the Hopper kernels need."""

from functools import lru_cache

import torch


@lru_cache(maxsize=64)
def is_hopper(device: torch.device) -> bool:
    """Whether a device is a GPU of compute capability 9.0."""
    return device.type == "cuda" and tuple(torch.cuda.get_device_capability(device)) == (9, 0)
