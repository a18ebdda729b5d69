"""Facts set against bounds: answers, tables, figures, and published numbers reproduced."""

from attenio.report.answer import Answer, BoundaryAnswer, Floor, TimeFloor, answer, floor
from attenio.report.html import write_report
from attenio.report.reproduce import Reproduction, reproduce

__all__ = [
    "Answer",
    "BoundaryAnswer",
    "Floor",
    "Reproduction",
    "TimeFloor",
    "answer",
    "floor",
    "reproduce",
    "write_report",
]
