"""Pictures of timelines are well-formed, show what runs, and name what waits."""

from fractions import Fraction
from xml.etree import ElementTree

import pytest

from attenio.accelerator import SIMULATED, Program, simulate
from attenio.catalogue import machine_named
from attenio.errors import InvalidInput
from attenio.planning import Dataflow
from attenio.report.timeline_picture import timeline_html, timeline_svg, window
from attenio.workload import Direction, Workload


def program(dataflow: Dataflow = Dataflow.ATTENIO, n: int = 96) -> Program:
    direction = Direction.BACKWARD if dataflow is Dataflow.KEY_STATIONARY else Direction.FORWARD
    return simulate(Workload(n=n, d=16, direction=direction), machine_named("attenio-64k"), dataflow=dataflow).program


@pytest.mark.parametrize("dataflow", SIMULATED)
def test_every_dataflow_has_a_picture(dataflow: Dataflow) -> None:
    root = ElementTree.fromstring(timeline_svg(program(dataflow), title="n < m & more"))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"n < m & more", "HBM", "PE array", "EXP unit", "cycles", "idle"} <= set(texts)


@pytest.mark.parametrize("dataflow", [Dataflow.STANDARD, Dataflow.FLAT])
def test_an_engine_whose_first_step_is_millions_of_steps_away_ramps(dataflow: Dataflow) -> None:
    done = simulate(Workload(n=2**24, d=64), machine_named("attenio-512k"), dataflow=dataflow)
    begin, end = window(done.program)
    assert f"<title>ramp: cycles 0.0 to {float(end):,.1f}" in timeline_svg(done.program, title="")
    assert begin < end


def test_the_overlapped_loads_are_seen_in_the_window_chosen_by_itself() -> None:
    drawn = timeline_svg(program(), title="AttenIO")
    for told in ("load K: cycles", "load V: cycles", "scores: cycles", "outputs: cycles", "waits for EXP unit"):
        assert told in drawn


def test_the_window_has_three_rounds() -> None:
    begin, end = window(program())
    drawn = timeline_svg(program(), title="", begin=begin, cycles=end - begin)
    assert drawn.count("<title>scores: ") == 3


def test_a_page_holds_the_picture() -> None:
    svg = timeline_svg(program(), title="t")
    assert svg in timeline_html(svg, title="t")


@pytest.mark.parametrize(
    ("begin", "cycles", "refusal"),
    [(0, 0, "would show 0 cycles"), (10**9, 10, "have no steps"), (0, 10**6, "more than 4,000 steps")],
)
def test_cycles_that_cannot_be_drawn_are_refused(begin: int, cycles: int, refusal: str) -> None:
    with pytest.raises(InvalidInput, match=refusal):
        timeline_svg(program(n=2000), title="", begin=Fraction(begin), cycles=Fraction(cycles))
