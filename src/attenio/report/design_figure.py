"""Time against area of the designs that no other beats, a line for every bandwidth."""

from attenio.accelerator.exploration import Design, Exploration
from attenio.report.line_chart import LineChart, Series

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f6f6f", "#882255", "#7a7a1f")


def design_svg(exploration: Exploration) -> str:
    """The picture; along a line, area buys time until it no longer does."""
    by_bandwidth: dict[float, list[Design]] = {}
    for design in exploration.front:
        by_bandwidth.setdefault(design.bandwidth_gb_per_s, []).append(design)
    series = []
    for number, (bandwidth, designs) in enumerate(sorted(by_bandwidth.items())):
        steps = _staircase(designs)
        series.append(
            Series(
                f"{bandwidth:g} GB/s",
                [design.area_mm2 for design in steps],
                [1e3 * design.seconds for design in steps],
                _COLOURS[number % len(_COLOURS)],
                dashed=number >= len(_COLOURS),
            )
        )
    chart = LineChart(title=f"AttenIO, {exploration.workload}", x_title="area (mm²)", y_title="time (ms)")
    base = exploration.base
    return chart.svg(series, points=[(base.area_mm2, 1e3 * base.seconds, "the machine")])


def _staircase(designs: list[Design]) -> list[Design]:
    """The designs of a line that are faster than all smaller ones."""
    faster: list[Design] = []
    for design in sorted(designs, key=lambda each: (each.area_mm2, each.cycles)):
        if not faster or design.cycles < faster[-1].cycles:
            faster.append(design)
    return faster
