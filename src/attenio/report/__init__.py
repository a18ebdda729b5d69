"""Facts set against bounds: answers, tables, figures, and published numbers reproduced."""

from attenio.report.answer import Answer, BoundaryAnswer, Floor, TimeFloor, answer, floor
from attenio.report.html import write_report, write_training_report
from attenio.report.reproduce import Reproduction, reproduce
from attenio.report.training import TrainingAnswer, training_answer

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
