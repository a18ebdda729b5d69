"""What a report says about a machine with an accelerator."""

import math

import plotly.graph_objects as graphs
import pytest

from attenio.accelerator import simulate
from attenio.catalogue import machine_named
from attenio.report.accelerator_section import AcceleratorSection, accelerator_section
from attenio.report.page import with_links
from attenio.workload import Workload


def test_a_machine_without_an_accelerator_has_no_section() -> None:
    found = accelerator_section(Workload(n=128, d=64), machine_named("h100"))
    assert (found.sections, found.figures) == ((), {})


@pytest.fixture(scope="module")
def found() -> AcceleratorSection:
    return accelerator_section(Workload(n=128, d=64), machine_named("attenio-512k"))


def test_there_is_a_timeline_and_a_place_for_every_figure_that_plotly_accepts(found: AcceleratorSection) -> None:
    (_, timeline), (_, places) = found.sections
    assert "<svg" in timeline
    assert "waits for EXP unit" in timeline
    assert {name.partition("-")[0] for name in found.figures} == {
        *(f"fig{number}" for number in range(10, 18)),
        "table3",
    }
    assert '<a href="https://doi.org/10.1145/3779212.3790174">' in places
    for name, figure in found.figures.items():
        assert f'id="{name}"' in places
        graphs.Figure(figure)


def test_printed_bars_stand_beside_ours(found: AcceleratorSection) -> None:
    legends = [trace["meta"]["legend"] for trace in found.figures["fig10-0"]["data"]]
    assert {"attenio, d = 64", "attenio, d = 64, printed", "flat, d = 128, printed"} <= set(legends)


def test_a_workload_that_does_not_run_there_says_why() -> None:
    (_, timeline), _ = accelerator_section(Workload(n=128, d=64, dtype="fp32"), machine_named("attenio-512k")).sections
    assert "works on words of 16 bits" in timeline


def test_the_report_and_the_command_line_count_the_same_cycles() -> None:
    # 2,125 1/7 cycles and others: rounding and counting begun cycles differ
    for n in (100, 128, 130, 257, 300):
        workload = Workload(n=n, d=64)
        (_, timeline), _ = accelerator_section(workload, machine_named("attenio-512k")).sections
        done = simulate(workload, "attenio-512k")
        assert f" {done.to_json()['cycles']:,} cycles" in timeline


def test_axes_fit_their_figures() -> None:
    figures = accelerator_section(Workload(n=128, d=64), machine_named("attenio-512k")).figures
    for name, figure in figures.items():
        if name.startswith("table3"):
            continue
        x_axis, y_axis = figure["layout"]["xaxis"], figure["layout"]["yaxis"]
        places = sorted({at for trace in figure["data"] for at in trace["x"]})
        values = [value for trace in figure["data"] for value in trace["y"]]
        assert x_axis["tickvals"] == places and len(x_axis["ticktext"]) == len(places), name
        ends = [math.log10(at) if x_axis["type"] == "log" else at for at in (places[0], places[-1])]
        assert x_axis["range"][0] < ends[0] and ends[1] < x_axis["range"][1], name
        assert all(trace["cliponaxis"] is False for trace in figure["data"]), name
        if "(%)" in y_axis["title"]["text"]:
            assert y_axis["type"] == "linear" and y_axis["range"][0] == 0, name
        low, high = y_axis["range"] if y_axis["type"] == "linear" else [10**end for end in y_axis["range"]]
        assert low <= min(values) and max(values) <= high, name


def test_every_number_of_a_figure_is_drawn_and_every_axis_can_be_read() -> None:
    figures = accelerator_section(Workload(n=128, d=64), machine_named("attenio-512k")).figures
    for name, figure in figures.items():
        for trace in figure["data"]:
            assert "markers" in trace["mode"] or len(trace["x"]) > 1, f"{name}: a line through one point is not seen"
        y_axis = figure["layout"]["yaxis"]
        assert max(map(len, y_axis["title"]["text"].split("<br>"))) <= 34, name
        if y_axis["type"] == "log":
            numbered = [float(text.replace(",", "")) for text in y_axis["ticktext"]]
            assert numbered == y_axis["tickvals"] and len(numbered) >= 2, name
            assert y_axis["range"][0] <= math.log10(numbered[0]) < math.log10(numbered[-1]) <= y_axis["range"][1], name


def test_papers_are_links() -> None:
    assert with_links("<Lu>, doi 10.1145/3779212.3790174, section 4") == (
        '&lt;Lu&gt;, <a href="https://doi.org/10.1145/3779212.3790174">doi 10.1145/3779212.3790174</a>, section 4'
    )
    assert with_links("no paper here") == "no paper here"
