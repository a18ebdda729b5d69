"""Attention that runs: ``attention()`` for PyTorch, planned for the machine it finds itself on."""

from attenio.kernels.attention import attention
from attenio.kernels.explain import Explanation, explain

__all__ = ["Explanation", "attention", "explain"]
