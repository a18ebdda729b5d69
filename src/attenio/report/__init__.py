"""Facts set against bounds: answers, tables, figures, and published numbers reproduced."""

from attenio.report.answer import Answer, BoundaryAnswer, TimeFloor, answer
from attenio.report.html import write_report
from attenio.report.reproduce import Reproduction, reproduce

__all__ = ["Answer", "BoundaryAnswer", "Reproduction", "TimeFloor", "answer", "reproduce", "write_report"]
