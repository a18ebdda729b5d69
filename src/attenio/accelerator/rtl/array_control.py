"""What the array does in every cycle of its steps: passes, elements, addresses, joins, sums, and what is hidden."""

from typing import Any

from amaranth.hdl import C, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.delay import delayed
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
        self.silicon = design.hardware.pe.silicon
        ones = (
            *("first", "score", "join", "output", "sum", "divide", "fresh", "capture", "shared", "capture_shared"),
            *("hold", "pair", "scale"),
        )
        super().__init__(
            {
                "place": In(range(max(2, len(self.places)))),
                "phase": In(range(max(2, longest))),
                "active": In(1),
                "last": In(1),
                "rescaled_passes": In(passes),
                **{name: Out(1) for name in (*ones, "begins", "gives", "late")},
                **{name: Out(self._pass_bits) for name in ("sum_pass", "output_pass", "capture_pass")},
                "geometry": Out(range(max(2, len(design.geometries)))),
                "level": Out(range(max(2, levels + 1))),
                "turn": Out(range(max(2, self.silicon.macs_a_divider))),
                "element": Out(range(max(d, value_dim) + design.hardware.pe.lines)),
                "address": Out(range(max(2, longest))),
                **{name: Out(signed(ROW_BITS)) for name in ("low", "high")},
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Decode the step, count passes and elements, take sums as rescalings arrive, follow rows and keys."""
        m, design = Module(), self.design
        is_step = {op: Signal(name=f"is_{op.name.lower()}") for op in (*_COUNTING, Operation.MAXIMUM, Operation.SUM)}
        known = ("full", "passes", "last_steps", "ways", "width", "levels", "scaled")
        sizes = {
            name: Signal(range(2 + max(self._known(place)[name] for place in self.places)), name=name) for name in known
        }
        with m.Switch(self.place):
            for place in self.places:
                with m.Case(place.number):
                    self._decode(m, place, is_step, sizes)
        counting = Signal()
        m.d.comb += counting.eq(self.active & (sum(is_step[op] for op in _COUNTING) != 0))
        self._count(m, counting, sizes, is_step)
        m.d.comb += [
            self.begins.eq(self.active & is_step[Operation.MAXIMUM] & ~self.last),
            self.gives.eq(self.active & is_step[Operation.MAXIMUM] & self.last),
        ]
        free = Signal()
        m.d.comb += free.eq(~(self.active & (sum(is_step[op] for op in (*_COUNTING, Operation.MAXIMUM)) != 0)))
        landed = self._sums(m, free)
        # the sums of all passes are there when the step that waits for them ends
        with m.If(self.active & self.last & is_step[Operation.SUM] & (landed < sizes["passes"])):
            m.d.sync += self.late.eq(1)
        fresh, used, divided = Signal(init=1), Signal(), Signal()
        m.d.comb += self.fresh.eq(fresh)
        m.d.comb += used.eq(self.active & self.last & is_step[Operation.OUTPUTS])
        m.d.comb += divided.eq(self.active & self.last & is_step[Operation.NORMALISE])
        with m.If(used):
            m.d.sync += fresh.eq(0)
        with m.If(divided):
            m.d.sync += fresh.eq(1)
        if design.masked:
            self._follow(m, used, divided)
        return m

    def _sums(self, m: Module, free: Signal) -> Value:
        """Sums of rows, a pass as soon as its factors have come; how many passes have theirs after this cycle.

        With one multiplier a sum is scaled first, and its product is added when the scaled one is there.
        """
        latency, scaling = self.silicon.latency_cycles, self.silicon.multipliers == 1
        passes = range(self.design.passes + 2)
        done, added, landed = Signal(passes), Signal(passes), Signal(passes)
        begun, adds = Signal(), Signal()
        m.d.comb += adds.eq(delayed(m, begun, latency + 1, "begun") if scaling else begun)
        waiting = (done < self.rescaled_passes) & free
        m.d.comb += begun.eq(waiting & ~adds if scaling else waiting)
        m.d.comb += [self.sum.eq(begun | adds), self.sum_pass.eq(Mux(adds, added, done))]
        lands = delayed(m, adds, latency, "lands")
        with m.If(self.begins):
            m.d.sync += [done.eq(0), added.eq(0), landed.eq(0)]
        with m.Else():
            m.d.sync += [done.eq(done + begun), added.eq(added + adds), landed.eq(landed + lands)]
        if scaling:
            with m.If(begun):
                m.d.comb += self.scale.eq(1)
        return landed + lands

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
            "levels": geometry.levels(width) if step.operation is Operation.SCORES else 0,
            "scaled": max(geometry.steps(width), self.silicon.latency_cycles + 1),
        }

    def _decode(self, m: Module, place: Place, is_step: dict[Any, Signal], sizes: dict[str, Signal]) -> None:
        if place.step.operation in is_step:
            m.d.comb += is_step[place.step.operation].eq(1)
        m.d.comb += self.geometry.eq(self.design.geometry_number(place))
        for name, number in self._known(place).items():
            m.d.comb += sizes[name].eq(number)

    def _count(self, m: Module, counting: Signal, sizes: dict[str, Signal], is_step: dict[Any, Signal]) -> None:
        """Passes and their elements; after a pass of scores its partial sums meet, after the last those of lines."""
        adder, longest = self.silicon.adder_cycles, max(*self.design.widths, 2 * self.silicon.pairing_cycles)
        at, number, turn = Signal(range(2 + longest)), Signal(range(2 + self.design.passes)), Signal(len(self.turn))
        element, address, level = Signal(len(self.element)), Signal(len(self.address)), Signal(len(self.level))
        is_scores, pairing, length = is_step[Operation.SCORES], Signal(), Signal(len(at))
        issues, ends, pass_ends, joining, join_ends, meets = (Signal() for _ in range(6))
        m.d.comb += length.eq(Mux(number == sizes["full"], sizes["last_steps"], sizes["width"]))
        within = at < length if adder > 1 else C(1)
        m.d.comb += issues.eq(counting & (number < sizes["passes"]) & ~pairing)
        # a pass of scores has a product, if only of zeros, for each of its partial sums
        padded = Mux(is_scores & (length < adder), adder, length) if adder > 1 else length
        turns = self.silicon.macs_a_divider - 1
        m.d.comb += ends.eq(issues & (at + 1 == padded) & (turn == Mux(self.divide, turns, 0)))
        if adder > 1:
            m.d.comb += pass_ends.eq(Mux(is_scores, pairing & (at + 1 == self.silicon.pairing_cycles), ends))
            self._pair(m, pairing, at)
        else:
            m.d.comb += pass_ends.eq(ends)
        m.d.comb += joining.eq(counting & is_scores & (number == sizes["passes"]) & (level != sizes["levels"]))
        m.d.comb += join_ends.eq(joining & (at == adder - 1))
        m.d.comb += [self.shared.eq(number == sizes["full"]), self.output_pass.eq(number), self.turn.eq(turn)]
        m.d.comb += self.element.eq(Mux(within, element, sizes["width"]))
        m.d.comb += [self.score.eq(issues & is_scores), self.first.eq(self.score & (at < adder))]
        m.d.comb += [self.join.eq(joining & (at == 0)), self.level.eq(level)]
        m.d.comb += self.output.eq(issues & is_step[Operation.OUTPUTS])
        m.d.comb += self.divide.eq(issues & is_step[Operation.NORMALISE])
        # banks hear no address beyond their end
        m.d.comb += self.address.eq(Mux(issues & within, address, 0))
        with m.If(issues & (turn == Mux(self.divide, turns, 0))):
            m.d.sync += [at.eq(at + 1), turn.eq(0)]
            with m.If(within):
                m.d.sync += address.eq(address + 1)
                m.d.sync += element.eq(element + Mux(self.shared, sizes["ways"], 1))
        with m.Elif(issues):
            m.d.sync += turn.eq(turn + 1)
        with m.If(pairing | joining):
            m.d.sync += at.eq(Mux(join_ends, 0, at + 1))
            m.d.sync += level.eq(level + join_ends)
        if adder > 1:
            with m.If(ends & is_scores):
                m.d.sync += [at.eq(0), pairing.eq(1)]
        with m.If(pass_ends):
            m.d.sync += [at.eq(0), element.eq(0), number.eq(number + 1), pairing.eq(0)]
        scaled = Signal()
        if self.silicon.multipliers == 1:
            m.d.comb += self.scale.eq(self.output & ~scaled)
            with m.If(counting & is_step[Operation.OUTPUTS] & (self.phase + 1 == sizes["scaled"])):
                m.d.sync += [at.eq(0), number.eq(0), element.eq(0), address.eq(0), scaled.eq(1)]
        with m.If(counting & self.last):
            m.d.sync += [each.eq(0) for each in (at, number, element, address, level, turn, scaled, pairing)]
        # a pass is captured in the cycle after its last sum: that of its last element, or of the last join
        alone = Signal()
        if any(self._known(place)["full"] for place in self.places):
            m.d.comb += alone.eq(number < sizes["full"])
        m.d.comb += meets.eq(pass_ends & is_scores & (alone | (sizes["levels"] == 0)))
        over = meets | (join_ends & (level + 1 == sizes["levels"]))
        m.d.sync += [self.capture.eq(over), self.capture_shared.eq(~alone)]
        m.d.sync += self.capture_pass.eq(Mux(joining, number - 1, number))

    def _pair(self, m: Module, pairing: Signal, at: Signal) -> None:
        """Partial sums come one a cycle, then their sums one in two, and so on: one is kept, the next added to it."""
        adder = self.silicon.adder_cycles
        for level in range((adder - 1).bit_length()):
            for count in range(1, (adder >> level) + 1):
                with m.If(pairing & (at + 1 == level * adder + (count << level))):
                    m.d.comb += (self.hold if count % 2 else self.pair).eq(1)

    def _follow(self, m: Module, used: Signal, divided: Signal) -> None:
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
        with m.If(used):
            m.d.sync += key.eq(key + 1)
        first = Signal(signed(bits))
        m.d.comb += first.eq(following + back)
        with m.If(divided):
            m.d.sync += [base.eq(following), key.eq(Mux(first > 0, first, 0))]
        macs = self.design.hardware.pe.macs
        m.d.comb += low.eq(key - base - macs * self.capture_pass)
        m.d.comb += self.low.eq(low - (int(band.shift) + int(band.right)))
        m.d.comb += self.high.eq(low + (int(band.left) - int(band.shift)))
