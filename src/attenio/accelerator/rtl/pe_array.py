"""The PE array: equal lines, what each hears and which rows it has, and the way of exponentials back to their rows."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.adder_tree import AdderTree
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.mac import PASSES, control_of
from attenio.accelerator.rtl.mac_line import ROW_BITS, LineSizes, MacLine
from attenio.accelerator.rtl.parts import Library, Part

# What all lines are told alike, besides what all MACs are.
TOLD = (
    *("take_base", "low", "high", "load", "load_address", "query_address", "output_address"),
    *("write_outputs", "write_address", "turn"),
)


def line_sizes(design: Design) -> LineSizes:
    """The sizes of the lines of a design."""
    d, value_dim = design.widths
    return LineSizes(
        macs=design.hardware.pe.macs_per_line,
        passes=design.passes,
        query_depth=design.depth(d),
        output_depth=design.depth(value_dim),
        exp_modules=design.hardware.exp.modules,
        masked=design.masked,
        silicon=design.hardware.pe.silicon,
    )


class PeArray(Part):
    """Lines of MACs, the tree, and the routing of elements, rows and exponentials."""

    def __init__(self, library: Library, design: Design) -> None:
        self.library, self.design = library, design
        self.lines, self.macs = design.hardware.pe.lines, design.hardware.pe.macs_per_line
        self.modules = design.hardware.exp.modules
        self.ways = max(design.ways(width) for width in design.widths)
        self._told = (*control_of(design.hardware.pe.silicon), *PASSES, *TOLD)
        told = dict(MacLine(library, line_sizes(design)).signature.members.items())
        bus = 16 * self.macs
        super().__init__(
            {
                **{name: told[name] for name in self._told},
                **{f"element_{way}": In(16) for way in range(self.ways)},
                **{f"result_{module}": In(16) for module in range(self.modules)},
                **{name: In(1) for name in ("shared", "capture_shared", "take_shared")},
                **{
                    name: In(range(max(2, len(design.geometries))))
                    for name in ("geometry", "take_geometry", "heard_geometry")
                },
                "level": In(range(max(2, AdderTree(design.geometries, design.widths[0]).levels))),
                **{f"loaded_{line}": In(bus) for line in range(self.lines)},
                **{
                    f"{name}_{line}": Out(bus)
                    for name in ("minuend", "subtrahend", "outputs")
                    for line in range(self.lines)
                },
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Lines and what lies between them."""
        m = Module()
        tree = self.library.place(m, "adder_tree", "tree", AdderTree(self.design.geometries, self.design.widths[0]))
        m.d.comb += [tree.geometry.eq(self.geometry), tree.level.eq(self.level)]
        for number in range(self.lines):
            line = self.library.place(m, "mac_line", f"line_{number}", MacLine(self.library, line_sizes(self.design)))
            for name in self._told:
                m.d.comb += getattr(line, name).eq(getattr(self, name))
            m.d.comb += [line.x.eq(self._element(m, number)), line.loaded.eq(getattr(self, f"loaded_{number}"))]
            m.d.comb += line.partner.eq(getattr(tree, f"partner_{number}"))
            m.d.comb += getattr(tree, f"acc_{number}").eq(line.acc)
            rows = self._rows(m, number)
            m.d.comb += line.capture_row.eq(Mux(self.capture_shared, rows["geometry"], number * self.macs))
            m.d.comb += line.take_row.eq(Mux(self.take_shared, rows["take_geometry"], number * self.macs))
            m.d.comb += line.taken.eq(self._taken(m, number))
            for name in ("minuend", "subtrahend", "outputs"):
                m.d.comb += getattr(self, f"{name}_{number}").eq(getattr(line, name))
        return m

    def _element(self, m: Module, line: int) -> Value:
        """What a line hears: in the last pass every group of lines an element of its own."""
        element = Signal(16, name=f"element_of_{line}")
        m.d.comb += element.eq(self.element_0)
        for number, geometry in enumerate(self.design.geometries):
            way = line // geometry.group if geometry.rest else 0
            if way:
                given = getattr(self, f"element_{way}") if way < self.ways else C(0, 16)
                with m.If(self.shared & (self.heard_geometry == number)):
                    m.d.comb += element.eq(given)
        return element

    def _rows(self, m: Module, line: int) -> dict[str, Signal]:
        """The first row of a line in the last pass."""
        rows = {}
        for which in ("geometry", "take_geometry"):
            rows[which] = Signal(signed(ROW_BITS), name=f"{which}_row_of_{line}")
            for number, geometry in enumerate(self.design.geometries):
                if geometry.rest:
                    with m.If(getattr(self, which) == number):
                        m.d.comb += rows[which].eq(line % geometry.group * self.macs)
        return rows

    def _taken(self, m: Module, line: int) -> Value:
        """The results of the modules that serve the rows of a line."""
        taken = Signal(16 * self.macs, name=f"taken_of_{line}")
        m.d.comb += taken.eq(self._results(line * self.macs))
        for number, geometry in enumerate(self.design.geometries):
            if geometry.rest and (line % geometry.group - line) * self.macs % self.modules:
                with m.If(self.take_shared & (self.take_geometry == number)):
                    m.d.comb += taken.eq(self._results(line % geometry.group * self.macs))
        return taken

    def _results(self, first_row: int) -> Value:
        return Cat(getattr(self, f"result_{(first_row + lane) % self.modules}") for lane in range(self.macs))
