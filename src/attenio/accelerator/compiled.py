"""A program with its names numbered and its times in whole ticks, so that all arithmetic on it is exact and quick."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm

from attenio.accelerator.program import Engine, Node, Program, Step
from attenio.accelerator.timeline import RAMP

__all__ = ["CompiledLoop", "CompiledProgram", "CompiledStep", "compiled"]

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
class CompiledBody:
    """Nodes in order, with the engines and names that matter to them; equal bodies of a program are one object."""

    nodes: "tuple[CompiledStep | CompiledLoop, ...]"

    @cached_property
    def engines(self) -> tuple[int, ...]:
        """Engines that the body uses."""
        used = {node.engine for node in self.nodes if isinstance(node, CompiledStep)}
        used.update(*(node.body.engines for node in self.nodes if isinstance(node, CompiledLoop)))
        return tuple(sorted(used))

    @cached_property
    def sets(self) -> tuple[int, ...]:
        """Names whose latest run the body moves."""
        found = {node.name for node in self.nodes if isinstance(node, CompiledStep)}
        found.update(*(node.body.sets for node in self.nodes if isinstance(node, CompiledLoop)))
        return tuple(sorted(found))

    @cached_property
    def waits(self) -> tuple[int, ...]:
        """Names that the body waits for."""
        found = {name for node in self.nodes if isinstance(node, CompiledStep) for name in node.after}
        found.update(*(node.body.waits for node in self.nodes if isinstance(node, CompiledLoop)))
        return tuple(sorted(found))


@dataclass(frozen=True, eq=False)
class CompiledLoop:
    """A body and how often it runs."""

    count: int
    body: CompiledBody


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
        self._steps: dict[int, CompiledStep] = {}
        self._bodies: dict[tuple[int, ...], CompiledBody] = {}
        self._loops: dict[tuple[int, int], CompiledLoop] = {}
        # compiled nodes by the identity of what they came from, which the program keeps alive
        self._known: dict[int, CompiledStep | CompiledLoop] = {}
        self._by_value: dict[Step, CompiledStep] = {}
        self._ticks = lcm(*(_denominators(program.body, set())))

    def result(self) -> CompiledProgram:
        body = self._body(self._program.body)
        for name in self._names:
            self._causes[self._names[name]] = self._causes[self._names[name]] or name
        return CompiledProgram(
            body=body, ticks_per_cycle=self._ticks, names=tuple(self._names), causes=tuple(self._causes)
        )

    def _name(self, name: str) -> int:
        if name not in self._names:
            self._names[name] = len(self._names)
            self._causes.append("")
        return self._names[name]

    def _body(self, nodes: tuple[Node, ...]) -> CompiledBody:
        # a loop that never runs moves nothing, so it must not count among what its body moves
        made = tuple(self._node(node) for node in nodes if isinstance(node, Step) or node.steps)
        key = tuple(id(node) for node in made)
        if key not in self._bodies:
            self._bodies[key] = CompiledBody(made)
        return self._bodies[key]

    def _node(self, node: Node) -> CompiledStep | CompiledLoop:
        known = self._known.get(id(node))
        if known is None:
            known = self._step(node) if isinstance(node, Step) else self._loop(node.count, self._body(node.body))
            self._known[id(node)] = known
        return known

    def _loop(self, count: int, body: CompiledBody) -> CompiledLoop:
        return self._loops.setdefault((count, id(body)), CompiledLoop(count, body))

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
    found = {1}
    for node in nodes:
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Step):
            found.add(Fraction(node.cycles).denominator)
        else:
            found |= _denominators(node.body, seen)
    return found
