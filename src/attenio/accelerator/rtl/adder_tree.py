"""The tree that joins rows shared by lines: which line's partial sums each line adds to its own, level by level.

The additions are those of the MACs themselves. At level l, a line adds what the line 2^l MACs of the row further has,
and nothing where there is none.
"""

from amaranth.hdl import C, Module
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.geometry import Geometry
from attenio.accelerator.rtl.parts import Part


class AdderTree(Part):
    """Partial sums of the partner of every line."""

    clocked = False

    def __init__(self, geometries: list[Geometry], width: int) -> None:
        self.geometries, self.width = geometries, width
        self.lines, bus = geometries[0].lines, 16 * geometries[0].macs_per_line
        self.levels = max(each.levels(width) for each in geometries)
        super().__init__(
            {
                "geometry": In(range(max(2, len(geometries)))),
                "level": In(range(max(2, self.levels))),
                **{f"acc_{line}": In(bus) for line in range(self.lines)},
                **{f"partner_{line}": Out(bus) for line in range(self.lines)},
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """A choice of lines for every line."""
        m = Module()
        for number, geometry in enumerate(self.geometries):
            for level in range(geometry.levels(self.width)):
                with m.If((self.geometry == number) & (self.level == level)):
                    for line in range(self.lines):
                        other = line + (geometry.group << level)
                        is_there = other // geometry.group < geometry.ways(self.width)
                        given = getattr(self, f"acc_{other}") if is_there else C(0, 1)
                        m.d.comb += getattr(self, f"partner_{line}").eq(given)
        return m
