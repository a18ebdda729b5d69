"""What the array does in every cycle of its steps: passes, elements, addresses, joins, sums, and what is hidden."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.mac_line import ROW_BITS
from attenio.accelerator.rtl.nest import Place
from attenio.accelerator.rtl.parts import Part
from attenio.accelerator.step import Engine, Operation

_COUNTING = (Operation.SCORES, Operation.OUTPUTS, Operation.NORMALISE)


class ArrayControl(Part):
    """The steps of the array, taken apart into cycles."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.places = design.nest.places[Engine.PE]
        longest = max(int(place.step.cycles) for place in self.places)
        d, value_dim = design.widths
        levels = max(each.levels(d) for each in design.geometries)
        passes = range(max(2, design.passes + 1))
        self._pass_bits = len(Signal(range(max(2, design.passes))))
        ones = ("first", "score", "join", "output", "sum", "divide", "fresh", "capture", "shared", "capture_shared")
        super().__init__(
            {
                "place": In(range(max(1, len(self.places)))),
                "phase": In(range(longest)),
                "active": In(1),
                "last": In(1),
                "rescaled_passes": In(passes),
                **{name: Out(1) for name in (*ones, "begins", "gives", "late")},
                **{name: Out(self._pass_bits) for name in ("sum_pass", "output_pass", "capture_pass")},
                "geometry": Out(range(max(2, len(design.geometries)))),
                "level": Out(range(max(2, levels))),
                "element": Out(range(max(d, value_dim) + design.hardware.pe.lines)),
                "address": Out(range(longest)),
                **{name: Out(signed(ROW_BITS)) for name in ("low", "high")},
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Decode the step, count passes and elements, take sums as rescalings arrive, follow rows and keys."""
        m, design = Module(), self.design
        is_step = {op: Signal(name=f"is_{op.name.lower()}") for op in (*_COUNTING, Operation.MAXIMUM, Operation.SUM)}
        known = ("full", "passes", "last_steps", "ways", "width")
        sizes = {
            name: Signal(range(2 + max(self._known(place)[name] for place in self.places)), name=name) for name in known
        }
        with m.Switch(self.place):
            for place in self.places:
                with m.Case(place.number):
                    self._decode(m, place, is_step, sizes)
        counting = Signal()
        m.d.comb += counting.eq(self.active & (sum(is_step[op] for op in _COUNTING) != 0))
        self._count(m, counting, sizes, is_step[Operation.SCORES])
        m.d.comb += [
            # banks hear no address beyond their end
            self.address.eq(Mux(self.score | self.output | self.divide, self.phase, 0)),
            self.output.eq(self.active & is_step[Operation.OUTPUTS]),
            self.divide.eq(self.active & is_step[Operation.NORMALISE]),
            self.begins.eq(self.active & is_step[Operation.MAXIMUM] & ~self.last),
            self.gives.eq(self.active & is_step[Operation.MAXIMUM] & self.last),
        ]
        done = Signal(range(design.passes + 2))
        with m.If(self.begins):
            m.d.sync += done.eq(0)
        with m.Elif(self.sum):
            m.d.sync += done.eq(done + 1)
        free = ~(self.active & (sum(is_step[op] for op in (*_COUNTING, Operation.MAXIMUM)) != 0))
        m.d.comb += [self.sum.eq((done < self.rescaled_passes) & free), self.sum_pass.eq(done)]
        # the sums of all passes are taken when the step that waits for them ends
        with m.If(self.active & self.last & is_step[Operation.SUM] & (done + self.sum < sizes["passes"])):
            m.d.sync += self.late.eq(1)
        fresh = Signal(init=1)
        m.d.comb += self.fresh.eq(fresh)
        with m.If(self.last & self.output):
            m.d.sync += fresh.eq(0)
        with m.If(self.last & self.divide):
            m.d.sync += fresh.eq(1)
        if design.masked:
            self._follow(m)
        return m

    def _known(self, place: Place) -> dict[str, int]:
        design, step = self.design, place.step
        geometry = design.geometries[design.geometry_number(place)]
        width = design.widths[0 if step.operation is Operation.SCORES else 1]
        return {
            "full": geometry.full,
            "passes": geometry.passes,
            "last_steps": geometry.last_steps(width),
            "ways": geometry.ways(width),
            "width": width,
        }

    def _decode(self, m: Module, place: Place, is_step: dict[Any, Signal], sizes: dict[str, Signal]) -> None:
        if place.step.operation in is_step:
            m.d.comb += is_step[place.step.operation].eq(1)
        m.d.comb += self.geometry.eq(self.design.geometry_number(place))
        for name, number in self._known(place).items():
            m.d.comb += sizes[name].eq(number)

    def _count(self, m: Module, counting: Signal, sizes: dict[str, Signal], is_scores: Signal) -> None:
        """Passes and their elements; after the last pass of scores the levels of the tree."""
        at, number, element = (
            Signal(range(2 + max(self.design.widths))),
            Signal(range(2 + self.design.passes)),
            Signal(len(self.element)),
        )
        joining = is_scores & (number == sizes["passes"])
        length = Mux(number == sizes["full"], sizes["last_steps"], sizes["width"])
        ends = Signal()
        m.d.comb += ends.eq(at + 1 == length)
        m.d.comb += [self.shared.eq(number == sizes["full"]), self.element.eq(element), self.output_pass.eq(number)]
        m.d.comb += [self.score.eq(counting & is_scores & ~joining), self.first.eq(self.score & (at == 0))]
        m.d.comb += [self.join.eq(counting & joining), self.level.eq(at)]
        with m.If(counting):
            with m.If(self.last):
                m.d.sync += [at.eq(0), number.eq(0), element.eq(0)]
            with m.Elif(ends & ~joining):
                m.d.sync += [at.eq(0), number.eq(number + 1), element.eq(0)]
            with m.Else():
                m.d.sync += [at.eq(at + 1), element.eq(element + Mux(self.shared, sizes["ways"], 1))]
        # a pass is captured in the cycle after its last sum: that of its last element, or of the last join
        over = Mux(joining, self.last, self.score & ends & ((number < sizes["full"]) | self.last))
        m.d.sync += [self.capture.eq(over), self.capture_shared.eq(number >= sizes["full"])]
        m.d.sync += self.capture_pass.eq(Mux(joining, number - 1, number))

    def _follow(self, m: Module) -> None:
        """The first and last row of the tile that sees the key at hand, counted from the first row of the pass."""
        band, bits = self.design.pattern, ROW_BITS
        back = int(band.shift) - int(band.left)
        base, key, low = Signal(signed(bits)), Signal(signed(bits), init=max(0, back)), Signal(signed(bits))
        rows = Signal(signed(bits))
        with m.Switch(self.place):
            for place in self.places:
                with m.Case(place.number):
                    m.d.comb += rows.eq(place.step.rows)
        following = Signal(signed(bits))
        m.d.comb += following.eq(Mux(base + rows == int(band.rows), 0, base + rows))
        with m.If(self.last & self.output):
            m.d.sync += key.eq(key + 1)
        first = Signal(signed(bits))
        m.d.comb += first.eq(following + back)
        with m.If(self.last & self.divide):
            m.d.sync += [base.eq(following), key.eq(Mux(first > 0, first, 0))]
        macs = self.design.hardware.pe.macs
        m.d.comb += low.eq(key - base - macs * self.capture_pass)
        m.d.comb += self.low.eq(low - (int(band.shift) + int(band.right)))
        m.d.comb += self.high.eq(low + (int(band.left) - int(band.shift)))
