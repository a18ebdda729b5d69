"""What the EXP unit does in every cycle: which rows give, one cycle before, and which take what comes out."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.mac_line import ROW_BITS
from attenio.accelerator.rtl.parts import Part
from attenio.accelerator.step import Engine, Operation


class ExpControl(Part):
    """Groups of rows through the modules, first their scores, then the steps of their maxima."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.places = design.nest.places[Engine.EXP]
        longest = max((int(place.step.cycles) for place in self.places), default=1)
        pass_bits = len(Signal(range(max(2, design.passes))))
        super().__init__(
            {
                "place": In(range(max(2, len(self.places)))),
                "phase": In(range(max(2, longest))),
                **{name: In(1) for name in ("active", "last", "begins", "gives")},
                **{name: Out(1) for name in ("take_p", "take_alpha", "give_step", "take_shared")},
                **{name: Out(pass_bits) for name in ("take_pass", "give_pass")},
                "slot": Out(range(max(2, design.slots))),
                "take_base": Out(signed(ROW_BITS)),
                "take_geometry": Out(range(max(2, len(design.geometries)))),
                "rescaled_passes": Out(range(max(2, design.passes + 1))),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """A pointer that gives, and the same pointer a cycle later, which takes."""
        m, design = Module(), self.design
        is_step, full, groups = Signal(), Signal(range(design.passes + 2)), Signal(len(self.phase) + 1)
        with m.Switch(self.place):
            for place in self.places:
                with m.Case(place.number):
                    m.d.comb += is_step.eq(place.step.operation is Operation.RESCALING)
                    m.d.comb += self.take_geometry.eq(design.geometry_number(place))
                    m.d.comb += full.eq(design.geometry_of(place.step.rows).full)
                    m.d.comb += groups.eq(int(place.step.cycles))
        step, number, slot, group = Signal(), Signal(len(self.give_pass)), Signal(len(self.slot)), Signal(len(groups))
        m.d.comb += [self.give_step.eq(step), self.give_pass.eq(number), self.slot.eq(slot)]
        modules, slots, base = design.hardware.exp.modules, design.slots, Signal(signed(ROW_BITS))
        with m.If(self.begins):
            m.d.sync += [step.eq(0), number.eq(0), slot.eq(0), base.eq(0), group.eq(0), self.rescaled_passes.eq(0)]
        with m.Elif(self.gives | self.active):
            m.d.sync += [self.take_pass.eq(number), self.take_base.eq(base)]
            with m.If(group + 1 == groups):
                m.d.sync += [slot.eq(0), base.eq(0), number.eq(0), group.eq(0), step.eq(1)]
            with m.Else():
                m.d.sync += group.eq(group + 1)
                with m.If(slot == slots - 1):
                    m.d.sync += [slot.eq(0), base.eq(0), number.eq(number + 1)]
                with m.Else():
                    m.d.sync += [slot.eq(slot + 1), base.eq(base + modules)]
        m.d.comb += [self.take_p.eq(self.active & ~is_step), self.take_alpha.eq(self.active & is_step)]
        m.d.comb += self.take_shared.eq(self.take_pass == full)
        with m.If(self.take_alpha & (self.last | (self.take_base == (slots - 1) * modules))):
            m.d.sync += self.rescaled_passes.eq(self.rescaled_passes + 1)
        return m
