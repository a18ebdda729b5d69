"""Attention on many devices: grids, the words that ranks exchange, bounds on them, and plans.

``attention``, ``context_parallel`` and ``ledger`` run it over torch.distributed; they need PyTorch and load when they
are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attenio.cluster.grid import Grid, grids
from attenio.cluster.partition import Sharding
from attenio.cluster.words import Stage, sent_words, stage_words
from attenio.errors import MissingExtra

if TYPE_CHECKING:
    from attenio.cluster.executor.attention import attention, ledger
    from attenio.cluster.executor.context import context_parallel

__all__ = [
    "Grid",
    "Sharding",
    "Stage",
    "attention",
    "context_parallel",
    "grids",
    "ledger",
    "sent_words",
    "stage_words",
]

_RUNNING = {"attention": "attention", "context_parallel": "context", "ledger": "attention"}


def __getattr__(name: str) -> Any:
    """What needs PyTorch, imported when it is first asked for."""
    if name not in _RUNNING:
        raise AttributeError(f"module 'attenio.cluster' has no attribute {name!r}")
    try:
        import torch.distributed.tensor  # noqa: F401
    except ImportError:
        raise MissingExtra(f"attenio.cluster.{name}", "cluster") from None
    value = globals()[name] = getattr(import_module(f"attenio.cluster.executor.{_RUNNING[name]}"), name)
    return value
