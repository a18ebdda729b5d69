"""Values that are the first columns of their keys: one latent, as DeepSeek's absorbed attention has it.

Tensors are asked where their elements lie, so nobody has to say it: ``attention(q, latent, latent[..., :512])``. This
is the only place that asks; a ``KernelProblem`` has the answer, and a ``Choice`` whether its kernel makes use of it.
"""

import torch
from torch import Tensor

# The widest keys and values; those of DeepSeek's latent are 512 + 64 and 512.
MOST_KEY_WIDTH, MOST_VALUE_WIDTH = 576, 512


def are_values_in_keys(key: Tensor, value: Tensor) -> bool:
    """Whether every value begins where its key does, and is no wider: who holds the key has its value."""
    if value.shape[-1] > key.shape[-1] or value.shape[:-1] != key.shape[:-1]:
        return False
    if key.data_ptr() != value.data_ptr() or not torch._C._is_alias_of(key, value):
        return False
    if key.storage_offset() != value.storage_offset() or key.dtype != value.dtype:
        return False
    steps = zip(value.shape, key.stride(), value.stride(), strict=True)
    return all(mine == theirs for size, mine, theirs in steps if size > 1)


def is_latent(key: Tensor, value: Tensor) -> bool:
    """The same of tensors of which nothing is known yet: whatever has no memory to ask about is none."""
    if torch.compiler.is_compiling() or key.dim() < 1 or value.dim() < 1 or key.is_nested or value.is_nested:
        return False
    try:
        return are_values_in_keys(key, value)
    except (RuntimeError, TypeError):
        return False
