"""The KV buffer: a block of one key and one of its value; one is filled while the other is broadcast.

Elements leave in order, as many at once as MACs share a row, and arrive in order, as many as the memory gives a cycle.
"""

from amaranth.hdl import Array, C, Module, Signal
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.parts import Part


class KvBlock(Part):
    """One vector of so many words; beyond its end there are zeros."""

    def __init__(self, *, words: int, ways: int, arriving: int) -> None:
        self.words, self.ways, self.arriving = words, ways, arriving
        super().__init__(
            {
                "element": In(range(words + ways)),
                **{f"given_{way}": Out(16) for way in range(ways)},
                "write": In(1),
                "write_element": In(range(words + arriving)),
                "write_words": In(16 * arriving),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """A register a word."""
        m = Module()
        slots = [Signal(16, name=f"word_{at}") for at in range(self.words)]
        padded = Array([*slots, *(C(0, 16) for _ in range(2 * self.ways))])
        for way in range(self.ways):
            m.d.comb += getattr(self, f"given_{way}").eq(padded[self.element + way])
        with m.If(self.write), m.Switch(self.write_element):
            for start in range(0, self.words, self.arriving):
                with m.Case(start):
                    for at, slot in enumerate(slots[start : start + self.arriving]):
                        m.d.sync += slot.eq(self.write_words.word_select(at, 16))
        return m
