"""A line of MACs: one broadcast element, one bank of queries and one of outputs, one place among the rows."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.arithmetic.divide import Divide
from attenio.accelerator.rtl.cache_bank import CacheBank
from attenio.accelerator.rtl.delay import delayed
from attenio.accelerator.rtl.mac import PASSES, Mac, control_of
from attenio.accelerator.rtl.parts import Library, Part
from attenio.parts import SiliconParts

# Rows and keys of a tile, and how far they lie apart.
ROW_BITS = 20


@dataclass(frozen=True, kw_only=True)
class LineSizes:
    """What lines are built for."""

    macs: int
    passes: int
    query_depth: int
    output_depth: int
    exp_modules: int
    masked: bool
    silicon: SiliconParts


class MacLine(Part):
    """All lines are equal; which rows a line has, it is told."""

    def __init__(self, library: Library, sizes: LineSizes) -> None:
        self.library, self.sizes = library, sizes
        bus, queries, outputs = 16 * sizes.macs, range(max(2, sizes.query_depth)), range(max(2, sizes.output_depth))
        super().__init__(
            {
                **{name: In(bits) for name, bits in control_of(sizes.silicon).items()},
                **{name: In(range(max(2, sizes.passes))) for name in PASSES},
                "x": In(16),
                **{name: In(bus) for name in ("partner", "taken", "loaded")},
                # rows: the first of the line as scores are captured and as exponentials are taken, and what is visible
                **{name: In(signed(ROW_BITS)) for name in ("capture_row", "take_row", "take_base", "low", "high")},
                "load": In(1),
                "load_address": In(queries),
                "query_address": In(queries),
                "output_address": In(outputs),
                "write_outputs": In(1),
                "write_address": In(outputs),
                "turn": In(range(max(2, sizes.silicon.macs_a_divider))),
                **{name: Out(bus) for name in ("acc", "minuend", "subtrahend", "outputs")},
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """Banks and MACs."""
        m, sizes = Module(), self.sizes
        queries = self._bank(m, "query_bank", sizes.query_depth)
        outputs = self._bank(m, "output_bank", sizes.output_depth)
        m.d.comb += [queries.read_address.eq(self.query_address), queries.write_address.eq(self.load_address)]
        m.d.comb += [queries.write.eq(self.load), queries.write_words.eq(self.loaded)]
        m.d.comb += [outputs.read_address.eq(self.output_address), outputs.write_address.eq(self.write_address)]
        m.d.comb += outputs.write.eq(self.write_outputs)
        heard = delayed(m, self.x, sizes.silicon.fill_cycles, "x")
        m.d.comb += self.outputs.eq(outputs.read_words)
        given: dict[str, list[Signal]] = {name: [] for name in ("acc", "minuend", "subtrahend", "o_new")}
        macs = []
        for lane in range(sizes.macs):
            mac = self.library.place(
                m, "mac", f"mac_{lane}", Mac(self.library, passes=sizes.passes, silicon=sizes.silicon)
            )
            macs.append(mac)
            word = slice(16 * lane, 16 * lane + 16)
            for name in (*control_of(sizes.silicon), *PASSES):
                m.d.comb += getattr(mac, name).eq(getattr(self, name))
            m.d.comb += [mac.q.eq(queries.read_words[word]), mac.o.eq(outputs.read_words[word]), mac.x.eq(heard)]
            m.d.comb += [mac.partner.eq(self.partner[word]), mac.taken.eq(self.taken[word])]
            row, taking = Signal(signed(ROW_BITS)), Signal(signed(ROW_BITS))
            m.d.comb += [row.eq(self.capture_row + lane), taking.eq(self.take_row + lane - self.take_base)]
            if sizes.masked:
                m.d.comb += mac.hidden.eq((row < self.low) | (row > self.high))
            m.d.comb += mac.enable_take.eq((taking >= 0) & (taking < sizes.exp_modules))
            for name, lanes in given.items():
                lanes.append(getattr(mac, name))
        for name in ("acc", "minuend", "subtrahend"):
            m.d.comb += getattr(self, name).eq(Cat(given[name]))
        m.d.comb += outputs.write_words.eq(Cat(given["o_new"]))
        if sizes.silicon.macs_a_divider > 1:
            self._divide(m, macs)
        return m

    def _divide(self, m: Module, macs: list[Any]) -> None:
        """Dividers that MACs take turns at; quotients wait for the last of a turn, and are written together."""
        turns = self.sizes.silicon.macs_a_divider
        for number, first in enumerate(range(0, len(macs), turns)):
            served = macs[first : first + turns]
            divide = self.library.place(m, "fp16_divide", f"divide_{number}", Divide())
            m.d.comb += divide.a.eq(Array(mac.dividend for mac in served)[self.turn])
            m.d.comb += divide.b.eq(Array(mac.divisor for mac in served)[self.turn])
            for turn, mac in enumerate(served):
                waiting = Signal(16, name=f"quotient_{first + turn}")
                with m.If(self.turn == turn):
                    m.d.sync += waiting.eq(divide.result)
                m.d.comb += mac.quotient.eq(Mux(self.turn == turn, divide.result, waiting))

    def _bank(self, m: Module, name: str, depth: int) -> CacheBank:
        bank: CacheBank = self.library.place(m, name, name, CacheBank(words=self.sizes.macs, depth=depth))
        return bank
