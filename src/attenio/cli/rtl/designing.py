"""What is built: a question, as a design."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from attenio.cli.question import Question
from attenio.errors import MissingExtra

if TYPE_CHECKING:
    from attenio.accelerator.rtl.design import Design

# Small enough to be compiled and run in half a minute, on the small arrays that are checked.
BUILT_N = 32


def design_of(question: Question, dataflow: str | None) -> "Design":
    """The design that runs what is asked about."""
    if find_spec("amaranth") is None:
        raise MissingExtra("attenio rtl", "rtl")
    from attenio.accelerator.rtl.design import Design

    question.refuse_tolerance("the accelerator runs")
    workload = question.separate_workload(BUILT_N, executed=True)
    return Design.of(workload, question.chosen_machine(), "attenio" if dataflow is None else dataflow)
