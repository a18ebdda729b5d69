"""What a report says about a machine with an accelerator."""

import plotly.graph_objects as graphs

from attenio.accelerator import simulate
from attenio.catalogue import machine_named
from attenio.report.accelerator_section import accelerator_section
from attenio.workload import Workload


def test_a_machine_without_an_accelerator_has_no_section() -> None:
    found = accelerator_section(Workload(n=128, d=64), machine_named("h100"))
    assert (found.sections, found.figures) == ((), {})


def test_an_accelerator_has_a_timeline_and_a_place_for_every_figure_that_plotly_accepts() -> None:
    found = accelerator_section(Workload(n=128, d=64), machine_named("attenio-512k"))
    (_, timeline), (_, places) = found.sections
    assert "<svg" in timeline
    assert "waits for EXP unit" in timeline
    assert {name.partition("-")[0] for name in found.figures} == {
        *(f"fig{number}" for number in range(10, 18)),
        "table3",
    }
    for name, figure in found.figures.items():
        assert f'id="{name}"' in places
        graphs.Figure(figure)


def test_printed_bars_stand_beside_ours() -> None:
    figures = accelerator_section(Workload(n=128, d=64), machine_named("attenio-512k")).figures
    legends = [trace["meta"]["legend"] for trace in figures["fig10-0"]["data"]]
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
