"""Dataflows: one loop nest a file, executed on the counted memory."""

from attenio.dataflows.execute import execute, execute_nested
from attenio.dataflows.inputs import Inputs, random_gradient, random_inputs
from attenio.dataflows.run import NestedRun, Run, TrainingRun

__all__ = [
    "Inputs",
    "NestedRun",
    "Run",
    "TrainingRun",
    "execute",
    "execute_nested",
    "random_gradient",
    "random_inputs",
]
