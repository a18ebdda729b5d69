"""A sequencer: one engine's walk through the nest of a program, its loops as counters and its waits as counts of ends.

An engine runs its steps in order. For every name that it waits for, it counts the runs that the program has before the
step it stands at; the engine that runs them counts those that are over. A step begins when none is missing. Loops in
which the engine has no step are passed at once. The next step is known in the cycle in which the last one ends, so that
it may begin in the next.
"""

from typing import Any

from amaranth.hdl import Array, C, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.nest import Loop, Nest, Place
from attenio.accelerator.rtl.parts import Part
from attenio.accelerator.step import Engine

# Counts of runs and of ends differ by a few, so that their low bits tell which is ahead.
COUNT_BITS = 8

_Passed = dict[str, Any]


class Sequencer(Part):
    """Which place of the nest an engine is at, whether a step runs, in which of its cycles, and which names ended."""

    def __init__(self, nest: Nest, engine: Engine) -> None:
        self.nest, self.engine = nest, engine
        self.places = nest.places[engine]
        own = set(nest.names(engine))
        awaited = {name for place in self.places for name in place.step.after}
        every = {name for other in Engine for name in nest.names(other)}
        self.awaited = sorted((awaited & every) - own)
        longest = max((int(place.step.cycles) for place in self.places), default=1)
        super().__init__(
            {
                **{f"ended_{number}": In(COUNT_BITS) for number in range(len(self.awaited))},
                "place": Out(range(max(2, len(self.places)))),
                "phase": Out(range(max(2, longest))),
                "active": Out(1),
                "first": Out(1),
                "last": Out(1),
                "finished": Out(1),
            }
        )
        # the state, which proofs speak about
        self.started = Signal()
        self.needed = {name: Signal(COUNT_BITS, name=f"needed_{at}") for at, name in enumerate(self.awaited)}
        self.left = {loop: Signal(range(max(*loop.counts, 2)), name=f"left_{at}") for at, loop in enumerate(nest.loops)}
        self.round = Signal(range(max([2, *(loop.counts[0] for loop in nest.loops if loop.is_ramp)])))
        self.last_phase = Signal(range(1 << len(self.phase)))
        self.ready = Signal()

    def elaborate(self, _platform: object) -> Module:
        """Counters, and what comes after every place."""
        m = Module()
        self._wait(m)
        ready, length = self.ready, self.last_phase
        with m.Switch(self.place):
            for place in self.places:
                with m.Case(place.number):
                    m.d.comb += length.eq(int(place.step.cycles) - 1)
        running = self.phase != 0
        m.d.comb += [
            self.active.eq(self.started & ~self.finished & (running | ready)),
            self.first.eq(self.active & ~running),
            self.last.eq(self.active & (self.phase == length)),
        ]
        with m.If(self.active):
            m.d.sync += self.phase.eq(Mux(self.last, 0, self.phase + 1))
        with m.If(~self.started):
            m.d.sync += self.started.eq(1)
            self._scan(m, self.nest.root, 0, self.round, {})
        with m.Elif(self.last), m.Switch(self.place):
            for loop in (self.nest.root, *self.nest.loops):
                for at, node in enumerate(loop.body):
                    if isinstance(node, Place) and node.step.engine is self.engine:
                        with m.Case(node.number):
                            self._scan(m, loop, at + 1, self.round, {})
        return m

    def _wait(self, m: Module) -> None:
        """Whether nothing that the step at hand waits for is missing."""
        over = {}
        for number, name in enumerate(self.awaited):
            missing, over[name] = Signal(COUNT_BITS, name=f"missing_{number}"), Signal(name=f"over_{number}")
            m.d.comb += missing.eq(self.needed[name] - getattr(self, f"ended_{number}"))
            m.d.comb += over[name].eq((missing == 0) | missing[-1])
        m.d.comb += self.ready.eq(1)
        with m.Switch(self.place):
            for place in self.places:
                waits = [over[name] for name in place.step.after if name in over]
                if waits:
                    with m.Case(place.number):
                        m.d.comb += self.ready.eq(_all(waits))

    def _scan(self, m: Module, loop: Loop, start: int, number: Value, passed: _Passed) -> None:
        """Go to the next place of this engine, from a position in the body of a loop on."""
        for at in range(start, len(loop.body)):
            node = loop.body[at]
            if isinstance(node, Place):
                if node.step.engine is self.engine:
                    self._go(m, node, passed)
                    return
                passed = _more(passed, {node.step.name: 1}, self.needed)
            elif not node.has(self.engine):
                runs = {name: node.runs(name, self._rounds(node)) for name in self.needed}
                passed = _more(passed, {name: in_round(each, number) for name, each in runs.items()}, self.needed)
            elif min(node.counts) > 0:
                self._enter(m, node, number, passed)
                return
            else:
                with m.If(in_round(node.counts, number) != 0):
                    self._enter(m, node, number, passed)
                with m.Else():
                    self._scan(m, loop, at + 1, number, passed)
                return
        if loop.parent is None:
            m.d.sync += self.finished.eq(1)
            return
        again = self.left[loop] != 0
        with m.If(again):
            m.d.sync += self.left[loop].eq(self.left[loop] - 1)
            if loop.is_ramp:
                following = (self.round + 1)[: len(self.round)]
                m.d.sync += self.round.eq(following)
                self._scan(m, loop, 0, following, passed)
            else:
                self._scan(m, loop, 0, number, passed)
        with m.Else():
            self._scan(m, loop.parent, loop.position + 1, number, passed)

    def _enter(self, m: Module, loop: Loop, number: Value, passed: _Passed) -> None:
        m.d.sync += self.left[loop].eq(in_round(loop.counts, number) - 1)
        if loop.is_ramp:
            m.d.sync += self.round.eq(0)
            number = C(0, len(self.round))
        self._scan(m, loop, 0, number, passed)

    def _go(self, m: Module, place: Place, passed: _Passed) -> None:
        m.d.sync += self.place.eq(place.number)
        for name, runs in passed.items():
            m.d.sync += self.needed[name].eq(self.needed[name] + runs)

    def _rounds(self, loop: Loop) -> int:
        around: Loop | None = loop
        while around is not None:
            if around.is_ramp:
                return around.counts[0]
            around = around.parent
        return 1


def in_round(counts: tuple[int, ...], number: Value) -> Value:
    """A count that may depend on the round."""
    bits = max(1, max(counts).bit_length())
    return C(counts[0], bits) if len(set(counts)) == 1 else Array(C(count, bits) for count in counts)[number]


def _more(passed: _Passed, runs: _Passed, known: dict[str, Signal]) -> _Passed:
    more = dict(passed)
    for name, each in runs.items():
        if name in known:
            more[name] = more[name] + each if name in more else each
    return more


def _all(values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = result & value
    return result
