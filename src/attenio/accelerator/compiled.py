"""A program with its names numbered and its times in whole ticks, so that all arithmetic on it is exact and quick."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.growth import RoundNumber
from attenio.accelerator.program import Node, Program, Ramp, Repeat
from attenio.accelerator.step import Engine, GrowingStep, Step
from attenio.accelerator.timeline import RAMP

ENGINES = tuple(Engine)


@dataclass(frozen=True, eq=False)
class CompiledStep:
    """A step: engine and names are indices."""

    engine: int
    name: int
    ticks: int
    after: tuple[int, ...]
    step: Step


@dataclass(frozen=True, eq=False)
class CompiledGrowingStep:
    """A step of a ramp: as it is at size 1, and the ticks that every more adds besides its turns."""

    one: CompiledStep
    growing: GrowingStep
    ticks: int
    ticks_a_turn: int

    def at(self, number: int) -> CompiledStep:
        """The step as it is in a round."""
        step = self.growing.at(number)
        ticks = self.one.ticks + self.ticks * (self.growing.size.at(number) - 1)
        if self.one.step.pace is not None and step.pace is not None:
            ticks += self.ticks_a_turn * (step.pace.turns - self.one.step.pace.turns)
        return replace(self.one, ticks=ticks, step=step)

    def values(self, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Its ticks in each of many rounds."""
        more = self.growing.size.values(rounds) - 1
        ticks, pace = self.one.ticks + self.ticks * more, self.one.step.pace
        if pace is not None:
            elements = pace.elements + self.growing.elements * more
            ticks += self.ticks_a_turn * (-(-elements // pace.units) - pace.turns)
        return ticks


@dataclass(frozen=True, eq=False)
class CompiledBody:
    """Nodes in order, with the engines and names that matter to them; equal bodies of a program are one object."""

    nodes: "tuple[CompiledNode, ...]"

    @cached_property
    def steps(self) -> tuple[CompiledStep, ...]:
        """The steps of the body and of what is nested in it, each once for every place where it stands."""
        steps: list[CompiledStep] = []
        for node in self.nodes:
            match node:
                case CompiledStep():
                    steps.append(node)
                case CompiledGrowingStep():
                    steps.append(node.one)
                case CompiledLoop() | CompiledRamp():
                    steps += node.body.steps
        return tuple(dict.fromkeys(steps))

    @cached_property
    def engines(self) -> tuple[int, ...]:
        """Engines that the body uses."""
        return tuple(sorted({step.engine for step in self.steps}))

    @cached_property
    def sets(self) -> tuple[int, ...]:
        """Names whose latest run the body moves."""
        return tuple(sorted({step.name for step in self.steps}))

    @cached_property
    def waits(self) -> tuple[int, ...]:
        """Names that the body waits for."""
        return tuple(sorted({name for step in self.steps for name in step.after}))

    @cached_property
    def waiting(self) -> dict[int, tuple[int, ...]]:
        """For every name that the body waits for, the engines whose steps do."""
        engines_by_name: dict[int, set[int]] = {name: set() for name in self.waits}
        for step in self.steps:
            for name in step.after:
                engines_by_name[name].add(step.engine)
        return {name: tuple(sorted(engines)) for name, engines in engines_by_name.items()}

    @cached_property
    def grows(self) -> bool:
        """Whether rounds of the ramp around it differ."""
        return any(
            isinstance(node, CompiledGrowingStep)
            or (isinstance(node, CompiledLoop) and (isinstance(node.count, RoundNumber) or node.body.grows))
            for node in self.nodes
        )

    def at(self, number: int) -> "CompiledBody":
        """The body as it is in a round of the ramp around it."""
        if not self.grows:
            return self
        nodes: list[CompiledNode] = []
        for node in self.nodes:
            if isinstance(node, CompiledLoop):
                count = node.count if isinstance(node.count, int) else node.count.at(number)
                nodes += [CompiledLoop(count, node.body.at(number))] if count else []
            else:
                nodes.append(node.at(number) if isinstance(node, CompiledGrowingStep) else node)
        return CompiledBody(tuple(nodes))


@dataclass(frozen=True, eq=False)
class CompiledLoop:
    """A body and how often it runs."""

    count: int | RoundNumber
    body: CompiledBody


@dataclass(frozen=True, eq=False)
class CompiledRamp:
    """A body whose rounds differ by what grows in it."""

    times: int
    period: int
    body: CompiledBody


CompiledNode = CompiledStep | CompiledGrowingStep | CompiledLoop | CompiledRamp


def flat_steps(body: CompiledBody) -> Iterator[CompiledStep]:
    """Every step, in the order of the program."""
    for node in body.nodes:
        match node:
            case CompiledStep():
                yield node
            case CompiledGrowingStep():
                raise AssertionError("a step that grows outside a ramp")
            case CompiledLoop():
                assert isinstance(node.count, int), "a loop that grows outside a ramp"
                for _ in range(node.count):
                    yield from flat_steps(node.body)
            case CompiledRamp():
                for number in range(node.times):
                    yield from flat_steps(node.body.at(number))


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """The whole, with what its numbers stand for."""

    body: CompiledBody
    ticks_per_cycle: int
    names: tuple[str, ...]
    causes: tuple[str, ...]

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for waiting, without repetition: those of the names, and the ramp."""
        return tuple(dict.fromkeys((*self.causes, RAMP)))


def compiled(program: Program) -> CompiledProgram:
    """The program in whole ticks."""
    return _Compiler(program).result()


class _Compiler:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._names: dict[str, int] = {}
        self._causes: list[str] = []
        self._bodies: dict[tuple[int, ...], CompiledBody] = {}
        self._loops: dict[tuple[int | RoundNumber, int], CompiledLoop] = {}
        # compiled nodes by the identity of what they came from, which the program keeps alive
        self._known: dict[int, CompiledNode] = {}
        self._by_value: dict[Step, CompiledStep] = {}
        self._ticks = lcm(*(_denominators(program.body, set())))

    def result(self) -> CompiledProgram:
        body = self._body(self._program.body)
        causes = tuple(cause or name for name, cause in zip(self._names, self._causes, strict=True))
        return CompiledProgram(body=body, ticks_per_cycle=self._ticks, names=tuple(self._names), causes=causes)

    def _name(self, name: str) -> int:
        if name not in self._names:
            self._names[name] = len(self._names)
            self._causes.append("")
        return self._names[name]

    def _body(self, nodes: tuple[Node, ...]) -> CompiledBody:
        # a loop that never runs moves nothing, so it must not count among what its body moves
        compiled_nodes = tuple(node for each in nodes if (node := self._node(each)) is not None)
        key = tuple(id(node) for node in compiled_nodes)
        if key not in self._bodies:
            self._bodies[key] = CompiledBody(compiled_nodes)
        return self._bodies[key]

    def _node(self, node: Node) -> CompiledNode | None:
        """The node in ticks, None if it never runs."""
        known = self._known.get(id(node))
        if known is None:
            match node:
                case Step():
                    known = self._step(node)
                case GrowingStep():
                    known = self._growing(node)
                case Repeat():
                    known = self._loop(node)
                case Ramp():
                    body = self._body(node.body) if node.times else CompiledBody(())
                    known = CompiledRamp(node.times, node.period, body) if body.nodes else None
            if known is not None:
                self._known[id(node)] = known
        return known

    def _loop(self, node: Repeat) -> CompiledLoop | None:
        if isinstance(node.count, int) and node.count == 0:
            return None
        body = self._body(node.body)
        if not body.nodes:
            return None
        return self._loops.setdefault((node.count, id(body)), CompiledLoop(node.count, body))

    def _growing(self, node: GrowingStep) -> CompiledGrowingStep:
        pace = node.one.pace
        return CompiledGrowingStep(
            one=self._step(node.one),
            growing=node,
            ticks=int(node.cycles * self._ticks),
            ticks_a_turn=0 if pace is None else int(pace.cycles_a_turn * self._ticks),
        )

    def _step(self, step: Step) -> CompiledStep:
        if step not in self._by_value:
            name = self._name(step.name)
            self._causes[name] = step.cause or step.name
            self._by_value[step] = CompiledStep(
                engine=ENGINES.index(step.engine),
                name=name,
                ticks=int(step.cycles * self._ticks),
                after=tuple(self._name(name) for name in step.after),
                step=step,
            )
        return self._by_value[step]


def _denominators(nodes: tuple[Node, ...], seen: set[int]) -> set[int]:
    denominators = {1}
    for node in nodes:
        if id(node) in seen:
            continue
        seen.add(id(node))
        match node:
            case Step():
                denominators.add(Fraction(node.cycles).denominator)
            case GrowingStep():
                turn = 1 if node.one.pace is None else node.one.pace.cycles_a_turn
                denominators |= {Fraction(each).denominator for each in (node.one.cycles, node.cycles, turn)}
            case Repeat() | Ramp():
                denominators |= _denominators(node.body, seen)
    return denominators
