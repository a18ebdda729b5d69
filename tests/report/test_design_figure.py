"""The picture of a design space."""

from xml.etree import ElementTree

from attenio.accelerator.designs import Designs
from attenio.accelerator.exploration import Budget, explore
from attenio.catalogue import machine_named
from attenio.report.design_figure import design_svg
from attenio.workload import Workload


def test_it_has_a_line_for_every_bandwidth_of_the_front() -> None:
    designs = Designs.product(machine_named("attenio-512k"), exp_modules=[64, 128], channels=[1, 16])
    found = explore(designs, Workload(n=4096, d=64), Budget(area_mm2=10))
    root = ElementTree.fromstring(design_svg(found))
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"{design.bandwidth_gb_per_s:g} GB/s" for design in found.front} <= texts
    assert {"area (mm²)", "time (ms)"} <= texts
    assert "the machine" in texts
