"""Attention that runs: ``attention()`` for PyTorch, planned for the machine it finds itself on."""

from attenio.errors import MissingExtra

try:
    import torch  # noqa: F401
except ImportError:
    raise MissingExtra("attenio.kernels", "torch") from None

from attenio.kernels.attention import attention
from attenio.kernels.call.pages.cache import PagedCache
from attenio.kernels.call.pages.explanation import PagedExplanation
from attenio.kernels.call.pages.table import PageTable
from attenio.kernels.explain import Explanation, explain

__all__ = ["Explanation", "PageTable", "PagedCache", "PagedExplanation", "attention", "explain"]
