"""attenio: how little data attention must move on a machine, and how to get there.

>>> from attenio import Machine, Workload, best_plan
>>> workload = Workload(n=131072, d=64)
>>> plan = best_plan(workload, Machine.with_fast_bytes(512 * 1024))
>>> plan.moved_words
1115621760

Names load when they are first used: importing this takes a moment, most names need NumPy only, and
``attenio.attention`` and ``attenio.explain`` need PyTorch.
"""

from __future__ import annotations

from importlib import import_module

# As typing has it, without loading that: until the command line has begun, Ctrl-C ends in a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from attenio.bounds import LowerBound, Strength, lower_bounds
    from attenio.dataflows import Run, TrainingRun, execute
    from attenio.errors import AttenioError
    from attenio.kernels import attention, explain
    from attenio.machine import Machine, MemoryLevel
    from attenio.paging import PagedWorkload, bounds_for_pages, execute_pages, plan_pages
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

__version__ = "0.1.0"

__all__ = [
    "AttenioError",
    "Dataflow",
    "Direction",
    "LowerBound",
    "Machine",
    "MemoryLevel",
    "PagedWorkload",
    "Plan",
    "Run",
    "Strength",
    "SweepGrid",
    "TrainingPlan",
    "TrainingRun",
    "Workload",
    "attention",
    "best_plan",
    "bounds_for_pages",
    "candidates",
    "execute",
    "execute_pages",
    "explain",
    "lower_bounds",
    "nested_plan",
    "plan_pages",
    "sweep",
    "training_plan",
]


# Where each name comes from: nothing is loaded before it is asked for, so that the command line can be stopped from its
# first moment on.
_HOMES = {
    "bounds": ("LowerBound", "Strength", "lower_bounds"),
    "dataflows": ("Run", "TrainingRun", "execute"),
    "errors": ("AttenioError",),
    "kernels": ("attention", "explain"),
    "machine": ("Machine", "MemoryLevel"),
    "paging": ("PagedWorkload", "bounds_for_pages", "execute_pages", "plan_pages"),
    "planning": (
        "Dataflow",
        "Plan",
        "SweepGrid",
        "TrainingPlan",
        "best_plan",
        "candidates",
        "nested_plan",
        "sweep",
        "training_plan",
    ),
    "workload": ("Direction", "Workload"),
}


def __getattr__(name: str) -> Any:
    """A name or a module of the package, imported when it is first asked for."""
    if name in _HOMES and name != "kernels":
        return import_module(f"attenio.{name}")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'attenio' has no attribute {name!r}")
    if home == "kernels" and not _has_torch():
        return _needs_torch(name)
    value = globals()[name] = getattr(import_module(f"attenio.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def _needs_torch(name: str) -> Any:
    """Stands in for a function while PyTorch is not installed: help, dir and ``import *`` see it, a call refuses."""

    def refuse(*_arguments: Any, **_options: Any) -> Any:
        from attenio.errors import MissingExtra

        raise MissingExtra(f"attenio.{name}", "torch")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"attenio.{name} needs PyTorch, which is not installed here; a call says how to install it."
    return refuse
