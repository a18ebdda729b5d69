import xml.etree.ElementTree as ElementTree

import pytest

from attenio.errors import InvalidInput
from attenio.report.line_chart import LineChart, Series

CHART = LineChart(title="a < b", x_title="memory", y_title="words")


def paths(svg: str) -> list[str]:
    return [node.attrib["d"] for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path")]


def test_a_chart_is_well_formed_whatever_the_titles():
    svg = CHART.svg([Series("x & y", [1, 2, 4], [1, None, 10], "#000")], marks=[(2, "d²")])
    assert "a &lt; b" in svg
    assert "x &amp; y" in svg
    assert any(path.count("M") == 2 and "L" not in path for path in paths(svg)), "a missing number breaks the line"


def test_equal_ratios_are_equal_distances():
    (line,) = (p for p in paths(CHART.svg([Series("s", [1, 10, 100], [1, 10, 100], "#000")])) if "L" in p)
    xs = [float(point.split()[0]) for point in line.replace("M", "").split("L")]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


@pytest.mark.parametrize("y", [[0.0], [-1.0], [None]])
def test_numbers_without_a_logarithm_are_refused(y):
    with pytest.raises(InvalidInput, match="positive"):
        CHART.svg([Series("s", [1.0], y, "#000")])


def test_a_short_axis_has_more_numbers_than_powers_of_ten():
    def texts(y: list[float]) -> set[str | None]:
        svg = ElementTree.fromstring(CHART.svg([Series("s", [1, 2], y, "#000")]))
        return {node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")}

    assert {"2,000", "5,000", "10,000"} <= texts([1400, 15_000])
    assert {"1e1", "1e3"} <= texts([1, 5000])
    assert not {"20", "50", "500"} & texts([1, 5000])
