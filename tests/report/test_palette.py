import re

import pytest

from attenio.planning.plan import Dataflow
from attenio.report import palette

PAPER = {"light": "#ffffff", "dark": "#12161b"}


def colours(scheme: str) -> dict[str, str]:
    light, dark = palette.stylesheet().split("@media")
    found = re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark)
    return dict(found)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", PAPER)
def test_every_dataflow_has_a_colour_of_its_own(scheme: str) -> None:
    assert set(colours(scheme)) == {dataflow.value for dataflow in Dataflow}
    assert len(set(colours(scheme).values())) == len(Dataflow)
    assert len({palette.marker(dataflow) for dataflow in Dataflow}) == len(Dataflow)


@pytest.mark.parametrize("scheme", PAPER)
def test_every_colour_stands_out_from_the_paper_as_wcag_asks_of_graphics(scheme: str) -> None:
    for name, colour in colours(scheme).items():
        low, high = sorted((luminance(colour), luminance(PAPER[scheme])))
        assert (high + 0.05) / (low + 0.05) >= 3, name
