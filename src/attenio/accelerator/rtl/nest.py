"""A program's nest as a controller walks it: places of steps, loops with their counts in every round, and parents."""

from dataclasses import dataclass, field

from attenio.accelerator.growth import RoundNumber
from attenio.accelerator.program import Node, Program, Ramp, Repeat
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
    """The whole nest, and the places of every engine in their order."""

    def __init__(self, program: Program) -> None:
        self.places: dict[Engine, list[Place]] = {engine: [] for engine in Engine}
        self.loops: list[Loop] = []
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
                    raise InvalidInput(
                        f"step {node.one.name!r} grows from tile to tile, and the controller's steps have fixed"
                        " lengths; use one key at a time, or a dense mask"
                    )
                case Repeat():
                    counts = _counts(node.count, rounds)
                    if any(counts):
                        self._inner(loop, counts, node.body, rounds, is_ramp=False)
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


def _counts(count: int | RoundNumber, rounds: int) -> tuple[int, ...]:
    return (count,) if isinstance(count, int) else tuple(count.at(number) for number in range(rounds))
