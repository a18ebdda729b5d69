"""attenio: how little data attention must move on a machine, and how to get there.

>>> from attenio import Machine, Workload, best_plan
>>> workload = Workload(n=131072, d=64)
>>> plan = best_plan(workload, Machine.with_fast_bytes(512 * 1024))
>>> plan.moved_words
1140850688

Importing this needs NumPy only; ``attenio.attention`` and ``attenio.explain`` need PyTorch when they are first used.
"""

from typing import TYPE_CHECKING, Any

from attenio.bounds import LowerBound, Strength, lower_bounds
from attenio.dataflows import Run, TrainingRun, execute
from attenio.errors import AttenioError, MissingExtra
from attenio.machine import Machine, MemoryLevel
from attenio.planning import (
    Dataflow,
    Plan,
    SweepGrid,
    TrainingPlan,
    best_plan,
    candidates,
    nested_plan,
    sweep,
    training_plan,
)
from attenio.workload import Direction, Workload

if TYPE_CHECKING:
    from attenio.kernels import attention, explain

__version__ = "0.1.0"

__all__ = [
    "AttenioError",
    "Dataflow",
    "Direction",
    "LowerBound",
    "Machine",
    "MemoryLevel",
    "Plan",
    "Run",
    "Strength",
    "SweepGrid",
    "TrainingPlan",
    "TrainingRun",
    "Workload",
    "attention",
    "best_plan",
    "candidates",
    "execute",
    "explain",
    "lower_bounds",
    "nested_plan",
    "sweep",
    "training_plan",
]


def __getattr__(name: str) -> Any:
    """What needs PyTorch, imported when it is first asked for."""
    if name not in ("attention", "explain"):
        raise AttributeError(f"module 'attenio' has no attribute {name!r}")
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra(f"attenio.{name}", "torch") from None
    from attenio import kernels

    return getattr(kernels, name)
