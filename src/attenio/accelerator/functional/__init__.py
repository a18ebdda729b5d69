"""The same programs on real numbers: what the array and the EXP unit compute in half precision."""

from attenio.accelerator.functional.arithmetic import Precision
from attenio.accelerator.functional.exponential import ExpApproximation, exponential, relative_error
from attenio.accelerator.functional.run import FUNCTIONAL, FunctionalRun, run_functional

__all__ = [
    "FUNCTIONAL",
    "ExpApproximation",
    "FunctionalRun",
    "Precision",
    "exponential",
    "relative_error",
    "run_functional",
]
