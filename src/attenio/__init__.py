"""attenio: how little data attention must move on a machine, and how to get there.

>>> from attenio import Machine, Workload, best_plan
>>> workload = Workload(n=131072, d=64)
>>> plan = best_plan(workload, Machine.with_fast_bytes(512 * 1024))
>>> plan.moved_words
1140850688

Importing this needs NumPy only.
"""

from attenio.bounds import LowerBound, Strength, lower_bounds
from attenio.dataflows import Run, TrainingRun, execute
from attenio.errors import AttenioError
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
    "best_plan",
    "candidates",
    "execute",
    "lower_bounds",
    "nested_plan",
    "sweep",
    "training_plan",
]
