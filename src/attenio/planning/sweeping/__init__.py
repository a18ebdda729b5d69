"""Sweeps: the best plan at every point of a grid of workloads and machines, many at a time.

``contest``, ``forms``, ``floors``, ``rectangles``, ``row_tiles``, ``products`` and ``room`` are the files of ``search``
for arrays, with the same answers, ties included; laws hold them against each other.
"""

from attenio.planning.sweeping.grid import SweepGrid
from attenio.planning.sweeping.result import SweepResult
from attenio.planning.sweeping.run import sweep

__all__ = ["SweepGrid", "SweepResult", "sweep"]
