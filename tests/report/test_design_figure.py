"""The picture of a design space."""

from xml.etree import ElementTree

from attenio.accelerator.designs import Designs
from attenio.accelerator.exploration import Budget, explore
from attenio.catalogue import machine_named
from attenio.report.design_figure import design_svg
from attenio.workload import Workload


def drawn(exp_modules: list[int], channels: list[int]) -> tuple[set[str | None], list[str]]:
    """The texts of a picture, and its lines."""
    designs = Designs.product(machine_named("attenio-512k"), exp_modules=exp_modules, channels=channels)
    root = ElementTree.fromstring(design_svg(explore(designs, Workload(n=4096, d=64), Budget(area_mm2=10))))
    named = "{http://www.w3.org/2000/svg}"
    lines = [each.attrib["d"] for each in root.iter(f"{named}path") if each.get("fill") == "none"]
    return {element.text for element in root.iter(f"{named}text")}, lines


def test_it_has_a_line_for_every_bandwidth_that_makes_a_difference() -> None:
    texts, lines = drawn([64, 128], [1, 16])
    assert {
        "attenio, n=4,096 d=64 heads=1 batch=1 dense fp16",
        "8 GB/s",
        "128 GB/s",
        "area (mm²)",
        "time (ms)",
        "the machine",
    } <= texts and len(lines) == 2


def test_bandwidths_that_make_no_difference_share_a_line_and_the_axis_has_more_than_one_number() -> None:
    texts, lines = drawn([64, 128], [16, 32, 64])
    assert "128 to 512 GB/s" in texts and len(lines) == 1
    (line,) = lines
    heights = [float(point.split()[1]) for point in line.replace("M", "").split("L")]
    assert heights == sorted(heights)
    assert sum(text is not None and text[0].isdigit() and "GB" not in text for text in texts) >= 4
