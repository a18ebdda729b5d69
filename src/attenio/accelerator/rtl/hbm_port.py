"""The HBM port: transfers take the simulator's cycles, and their words come in the last of them, or leave in the first.

What lies behind it is not built: the words of queries, keys and values stand at its inputs in the order in which the
program asks for them, and go on when they are taken.
"""

from amaranth.hdl import C, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.parts import Part
from attenio.accelerator.step import Engine, Operation


class HbmPort(Part):
    """Strobes and addresses of what is loaded and stored."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.places = design.nest.places[Engine.HBM]
        longest = max(int(place.step.cycles) for place in self.places)
        d, value_dim = design.widths
        super().__init__(
            {
                "place": In(range(max(2, len(self.places)))),
                "phase": In(range(max(2, longest))),
                "active": In(1),
                **{name: Out(1) for name in ("load_queries", "load_key", "load_value", "store")},
                "address": Out(range(max(2, longest))),
                "element": Out(range(max(d, value_dim) + design.arriving)),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Which cycles of a transfer have words."""
        m, design = Module(), self.design
        d, value_dim = design.widths
        strobes = {
            Operation.LOAD_QUERIES: self.load_queries,
            Operation.LOAD_KEYS: self.load_key,
            Operation.LOAD_VALUES: self.load_value,
            Operation.STORE_OUTPUTS: self.store,
        }
        beats = {Operation.LOAD_KEYS: design.kv_beats(d), Operation.LOAD_VALUES: design.kv_beats(value_dim)}
        at = Signal(len(self.phase))
        with m.Switch(self.place):
            for place in self.places:
                operation, cycles = place.step.operation, int(place.step.cycles)
                assert operation is not None
                count = beats[operation] if operation in beats else design.addresses(place)
                with m.Case(place.number):
                    if operation is Operation.STORE_OUTPUTS:
                        m.d.comb += [strobes[operation].eq(self.active & (self.phase < count)), at.eq(self.phase)]
                    else:
                        begun: Value = self.phase >= cycles - count if cycles > count else C(1)
                        m.d.comb += [strobes[operation].eq(self.active & begun), at.eq(self.phase - (cycles - count))]
        moves = self.load_queries | self.store
        m.d.comb += [self.address.eq(Mux(moves, at, 0)), self.element.eq(at * design.arriving)]
        return m
