"""Facts set against bounds: answers, tables, figures, and published numbers reproduced.

What draws pages and reproduces figures is loaded when it is first asked for: an answer does not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attenio.report.answer import Answer, BoundaryAnswer, Floor, TimeFloor, answer, floor
from attenio.report.training import TrainingAnswer, training_answer

if TYPE_CHECKING:
    from attenio.report.html import write_report, write_training_report
    from attenio.report.reproduction import Reproduction, reproduce

__all__ = [
    "Answer",
    "BoundaryAnswer",
    "Floor",
    "Reproduction",
    "TimeFloor",
    "TrainingAnswer",
    "answer",
    "floor",
    "reproduce",
    "training_answer",
    "write_report",
    "write_training_report",
]

_HOMES = {"html": ("write_report", "write_training_report"), "reproduction": ("Reproduction", "reproduce")}


def __getattr__(name: str) -> Any:
    """A name of the package whose module is loaded when it is first asked for."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'attenio.report' has no attribute {name!r}")
    return getattr(import_module(f"attenio.report.{home}"), name)
