"""A program's nest as a controller walks it: places of steps, loops with their counts in every round, and parents.

A step has one length wherever it stands. Where steps grow from tile to tile, as those of whole rows of scores do under
a causal mask, rounds are written out, one place for every length; equal rounds that follow each other are a loop again.
"""

from dataclasses import dataclass, field
from itertools import groupby

from attenio.accelerator.growth import RoundNumber
from attenio.accelerator.program import Node, Program, Ramp, Repeat, repeat
from attenio.accelerator.step import Engine, GrowingStep, Step
from attenio.errors import InvalidInput


@dataclass(eq=False)
class Place:
    """Where a step stands in the nest; ``number`` counts the places of its engine."""

    step: Step
    number: int


@dataclass(eq=False)
class Loop:
    """A body and how often it runs: one count, or one for every round of the ramp around it."""

    counts: tuple[int, ...]
    parent: "Loop | None"
    position: int
    is_ramp: bool = False
    body: "list[Place | Loop]" = field(default_factory=list)

    def has(self, engine: Engine) -> bool:
        """Whether a step of the engine stands in it."""
        return any(node.step.engine is engine if isinstance(node, Place) else node.has(engine) for node in self.body)

    def runs(self, name: str, count: int) -> tuple[int, ...]:
        """How often steps of a name run in it, round by round, ``count`` rounds in all."""
        rounds = self.counts[0] if self.is_ramp else count
        totals = [0] * rounds
        for node in self.body:
            inner = (int(node.step.name == name),) if isinstance(node, Place) else node.runs(name, rounds)
            totals = [total + inner[at % len(inner)] for at, total in enumerate(totals)]
        if self.is_ramp:
            return (sum(totals),) * count
        return tuple(total * self.counts[at % len(self.counts)] for at, total in enumerate(totals))


class Nest:
    """The whole nest, the places of every engine in their order, and how many rounds are written out."""

    def __init__(self, program: Program) -> None:
        self.places: dict[Engine, list[Place]] = {engine: [] for engine in Engine}
        self.loops: list[Loop] = []
        self.written_out = 0
        self.root = Loop(counts=(1,), parent=None, position=0)
        self._fill(self.root, program.body, rounds=1)

    def names(self, engine: Engine) -> tuple[str, ...]:
        """The names of an engine's steps."""
        return tuple(dict.fromkeys(place.step.name for place in self.places[engine]))

    def _fill(self, loop: Loop, body: tuple[Node, ...], rounds: int) -> None:
        for node in body:
            match node:
                case Step():
                    loop.body.append(self._place(node))
                case GrowingStep():
                    raise AssertionError("a step that grows outside a ramp")
                case Repeat():
                    counts = _counts(node.count, rounds)
                    if any(counts):
                        self._inner(loop, counts, node.body, rounds, is_ramp=False)
                case Ramp() if _has_growing_steps(node):
                    self.written_out += node.times
                    for same, alike in groupby(node.at(number) for number in range(node.times)):
                        self._fill(loop, repeat(len(list(alike)), *same), rounds)
                case Ramp():
                    if node.times:
                        self._inner(loop, (node.times,), node.body, node.times, is_ramp=True)

    def _inner(
        self, loop: Loop, counts: tuple[int, ...], body: tuple[Node, ...], rounds: int, *, is_ramp: bool
    ) -> None:
        inner = Loop(counts=counts, parent=loop, position=len(loop.body), is_ramp=is_ramp)
        loop.body.append(inner)
        self.loops.append(inner)
        self._fill(inner, body, rounds)

    def _place(self, step: Step) -> Place:
        if step.cycles != int(step.cycles) or step.cycles < 1:
            raise InvalidInput(
                f"step {step.name!r} takes {float(step.cycles):g} cycles, and a clock counts whole ones; use memory"
                " timings in whole cycles, such as hbm: {refresh_ns: 0}"
            )
        place = Place(step, len(self.places[step.engine]))
        self.places[step.engine].append(place)
        return place


def _has_growing_steps(node: Ramp | Repeat) -> bool:
    """Whether the length of some step in it depends on the round."""
    inner = (each for each in node.body if isinstance(each, Repeat))
    return any(isinstance(each, GrowingStep) for each in node.body) or any(map(_has_growing_steps, inner))


def _counts(count: int | RoundNumber, rounds: int) -> tuple[int, ...]:
    return (count,) if isinstance(count, int) else tuple(count.at(number) for number in range(rounds))
