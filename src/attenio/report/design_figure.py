"""Time against area of the designs that no other beats, a line for every bandwidth that makes a difference."""

from bisect import bisect_right

from attenio.accelerator.exploration import Design, Exploration
from attenio.report.line_chart import LineChart, Series

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f6f6f", "#882255", "#7a7a1f")
# Lines that differ by less than this share cannot be told apart.
_NEAR = 0.02


def design_svg(exploration: Exploration) -> str:
    """The picture; along a line, area buys time until it no longer does."""
    by_bandwidth: dict[float, list[Design]] = {}
    for design in exploration.front:
        by_bandwidth.setdefault(design.bandwidth_gb_per_s, []).append(design)
    lines: list[tuple[list[float], list[Design]]] = []
    for bandwidth, designs in sorted(by_bandwidth.items()):
        steps = _staircase(designs)
        if lines and _alike(lines[-1][1], steps):
            lines[-1][0].append(bandwidth)
        else:
            lines.append(([bandwidth], steps))
    series = [
        Series(
            f"{rates[0]:g} to {rates[-1]:g} GB/s" if len(rates) > 1 else f"{rates[0]:g} GB/s",
            [design.area_mm2 for design in steps],
            [1e3 * design.seconds for design in steps],
            _COLOURS[number % len(_COLOURS)],
            dashed=number >= len(_COLOURS),
        )
        for number, (rates, steps) in enumerate(lines)
    ]
    chart = LineChart(
        title=f"{exploration.dataflow.value}, {exploration.workload}", x_title="area (mm²)", y_title="time (ms)"
    )
    base = exploration.base
    return chart.svg(series, points=[(base.area_mm2, 1e3 * base.seconds, "the machine")])


def _staircase(designs: list[Design]) -> list[Design]:
    """The designs of a line that are faster than all smaller ones."""
    faster: list[Design] = []
    for design in sorted(designs, key=lambda each: (each.area_mm2, each.cycles)):
        if not faster or design.cycles < faster[-1].cycles:
            faster.append(design)
    return faster


def _alike(one: list[Design], other: list[Design]) -> bool:
    """Whether two lines lie on each other: times within two percent wherever both have a design."""
    if abs(one[0].area_mm2 - other[0].area_mm2) > _NEAR * one[0].area_mm2:
        return False
    areas = [[design.area_mm2 for design in line] for line in (one, other)]
    for area in sorted({*areas[0], *areas[1]}):
        near = area * (1 + _NEAR)
        times = [line[max(bisect_right(of, near) - 1, 0)].seconds for line, of in zip((one, other), areas, strict=True)]
        if max(times) > (1 + _NEAR) * min(times):
            return False
    return True
