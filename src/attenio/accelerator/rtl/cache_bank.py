"""A bank of the cache: as wide as a line of MACs, one address for all of them, one read and one write a cycle."""

from amaranth.hdl import Module
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.parts import Part


class CacheBank(Part):
    """Words of a line, by address; a read sees what was written before the cycle."""

    def __init__(self, *, words: int, depth: int) -> None:
        self.words, self.depth = words, max(2, depth)  # a memory of one word has no address, which tools stumble over
        super().__init__(
            {
                "read_address": In(range(max(2, depth))),
                "read_words": Out(16 * words),
                "write": In(1),
                "write_address": In(range(max(2, depth))),
                "write_words": In(16 * words),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        """The memory and its two ports."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=16 * self.words, depth=self.depth, init=[])
        read, write = memory.read_port(domain="comb"), memory.write_port()
        m.d.comb += [read.addr.eq(self.read_address), self.read_words.eq(read.data)]
        m.d.comb += [write.addr.eq(self.write_address), write.data.eq(self.write_words), write.en.eq(self.write)]
        return m
