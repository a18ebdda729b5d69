"""A run in Amaranth's own simulator: slow, and in need of no compiler."""

import time
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from attenio.accelerator.rtl.cxxrtl_run import RawRun
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.machines import top_of
from attenio.accelerator.rtl.parts import Library
from attenio.accelerator.rtl.streams import Streams
from attenio.accelerator.step import Engine


def run_pysim(design: Design, given: Streams, most_cycles: int) -> RawRun:
    """Run a design on words until the program is over."""
    bench = _Bench(top_of(Library(separate=False), design), given, most_cycles)
    simulator = Simulator(bench.top)
    simulator.add_clock(1e-9)
    simulator.add_testbench(bench.run)
    begun = time.perf_counter()
    simulator.run()
    return bench.result(time.perf_counter() - begun)


class _Bench:
    """What lies behind the HBM port, and a clerk who notes the times of steps."""

    def __init__(self, top: Any, given: Streams, most_cycles: int) -> None:
        self.top, self._given, self._most = top, given, most_cycles
        self._steps: list[tuple[int, int, int, int]] = []
        self._begun = [0] * len(Engine)
        self._outputs: list[list[int]] = []
        self._cycles = 0
        self._late = False

    async def run(self, ctx: Any) -> None:
        """Every cycle: note, give words, take words."""
        top, names = self.top, [engine.name.lower() for engine in Engine]
        queries, kv = iter(self._given.queries.tolist()), iter(self._given.kv.tolist())
        self._put(ctx, next(queries, None), next(kv, None))
        await ctx.tick()
        while not all(ctx.get(getattr(top, f"{name}_finished")) for name in names) and self._cycles < self._most:
            self._note(ctx, names)
            take_queries, take_kv = ctx.get(top.take_queries), ctx.get(top.take_kv)
            if ctx.get(top.give_outputs):
                lines = self._given.queries.shape[1]
                self._outputs.append([ctx.get(getattr(top, f"outputs_{line}")) for line in range(lines)])
            await ctx.tick()
            self._cycles += 1
            self._put(ctx, next(queries, None) if take_queries else None, next(kv, None) if take_kv else None)
        self._late = bool(ctx.get(top.late))

    def _put(self, ctx: Any, beat: list[list[int]] | None, words: list[int] | None) -> None:
        for line, each in enumerate(beat or ()):
            ctx.set(getattr(self.top, f"queries_{line}"), _joined(each))
        if words is not None:
            ctx.set(self.top.kv, _joined(words))

    def _note(self, ctx: Any, names: list[str]) -> None:
        for number, name in enumerate(names):
            first, last = (ctx.get(getattr(self.top, f"{name}_{which}")) for which in ("first", "last"))
            if first:
                self._begun[number] = self._cycles
            if last:
                place = ctx.get(getattr(self.top, f"{name}_place"))
                self._steps.append((number, place, self._begun[number], self._cycles + 1))

    def result(self, seconds: float) -> RawRun:
        """All that was noted."""
        lines, macs = self._given.queries.shape[1:]
        words = [[[each >> 16 * lane & 0xFFFF for lane in range(macs)] for each in beat] for beat in self._outputs]
        return RawRun(
            steps=self._steps,
            outputs=np.array(words, dtype=np.uint16).reshape(-1, lines, macs),
            cycles=self._cycles,
            late=self._late,
            seconds=seconds,
        )


def _joined(words: list[int]) -> int:
    return sum(word << 16 * at for at, word in enumerate(words))
