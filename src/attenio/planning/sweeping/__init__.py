"""Sweeps: the best plan at every point of a grid of workloads and machines, many at a time."""

from attenio.planning.sweeping.grid import SweepGrid
from attenio.planning.sweeping.result import SweepResult
from attenio.planning.sweeping.run import sweep

__all__ = ["SweepGrid", "SweepResult", "sweep"]
