"""Programs: nests of repeated steps, each on one engine, each waiting for others by name.

An engine runs its steps in the order of the program, one at a time. A step begins when its engine is free and the
latest earlier run of every step it names in ``after`` is over; a name that has not run yet holds nothing up. That is
all of the controller: which step waits for which is what overlaps, buffers and orders come to.

>>> load = Step(name="load K", engine=Engine.HBM, cycles=4, after=("scores",), work=Work(loaded_words=64))
>>> scores = Step(name="scores", engine=Engine.PE, cycles=64, after=("load K",))
>>> program = Program((Repeat(count=100, body=(load, scores)),))
>>> program.work.loaded_words, program.steps
(6400, 200)

Under a causal mask every tile of queries repeats its loop over keys more often than the one before. That is a ramp:

>>> keys = Repeat(count=3, growth=2, body=(load, scores))           # 3, 5, 7, ... times
>>> Program((Ramp(times=1000, body=(keys,)),)).steps
2004000
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import comb
from operator import add, sub

from attenio.accelerator.step import Engine, GrowingStep, Operation, Pace, Step, Work
from attenio.errors import InvalidInput

__all__ = [
    "Engine",
    "GrowingStep",
    "Node",
    "Operation",
    "Pace",
    "Program",
    "Ramp",
    "Repeat",
    "Step",
    "Work",
    "repeat",
]


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The body, so many times over; inside a ramp so many in its round 0, and ``growth`` more in every round."""

    count: int
    body: "tuple[Node, ...]"
    growth: int = 0

    def __post_init__(self) -> None:
        if self.count < 0:
            raise InvalidInput(f"a loop repeats {self.count} times; it must be at least 0")

    @cached_property
    def grows(self) -> bool:
        """Whether rounds of the ramp around it differ."""
        return self.growth != 0 or _grows(self.body)

    def at(self, round_number: int) -> "Repeat":
        """The loop as it is in a round of a ramp."""
        if not self.grows:
            return self
        return Repeat(count=self.count + round_number * self.growth, body=_at(self.body, round_number))


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """The body so many times over, its loops and steps growing from round to round."""

    times: int
    body: "tuple[Node, ...]"

    def __post_init__(self) -> None:
        if self.times < 0:
            raise InvalidInput(f"a ramp has {self.times} rounds; it must have at least 0")
        if any(isinstance(node, Ramp) for node in _every(self.body)):
            raise InvalidInput("a ramp inside a ramp has two rounds to grow with; write the inner one out")
        if self.times:
            _at(self.body, self.times - 1)  # a loop or step that shrinks below zero says so

    def at(self, round_number: int) -> "tuple[Node, ...]":
        """The nodes of one round."""
        return _at(self.body, round_number)


Node = Step | GrowingStep | Repeat | Ramp


@dataclass(frozen=True)
class Program:
    """What a controller runs."""

    body: tuple[Node, ...]

    @cached_property
    def work(self) -> Work:
        """The work of every step together."""
        return Work.of(_counts(self.body, 0)[1:])

    @cached_property
    def steps(self) -> int:
        """How many steps run."""
        return _counts(self.body, 0)[0]

    def causes(self, engine: Engine) -> frozenset[str]:
        """What those who wait for steps of this engine say they wait for."""
        steps = (node.first if isinstance(node, GrowingStep) else node for node in _every(self.body))
        return frozenset(step.cause or step.name for step in steps if isinstance(step, Step) and step.engine is engine)

    def __iter__(self) -> Iterator[Step]:
        """Every step, in the order of the program."""
        return _flat(self.body)


def repeat(count: int, *body: Node) -> tuple[Node, ...]:
    """The body so many times: nothing, itself, or a loop."""
    if count <= 0 or not body:
        return ()
    return body if count == 1 else (Repeat(count=count, body=body),)


def _grows(body: tuple[Node, ...]) -> bool:
    return any(isinstance(node, GrowingStep) or (isinstance(node, Repeat) and node.grows) for node in body)


def _at(body: tuple[Node, ...], round_number: int) -> tuple[Node, ...]:
    return tuple(node.at(round_number) if isinstance(node, GrowingStep | Repeat) else node for node in body)


def _counts(body: tuple[Node, ...], round_number: int) -> list[int]:
    """Steps, then their work, of one round of the ramp around the body."""
    totals = [0, *Work().counts]
    for node in body:
        match node:
            case Step():
                counts = [1, *node.work.counts]
            case GrowingStep():
                growth = node.work.counts
                counts = [
                    1,
                    *(now + round_number * more for now, more in zip(node.first.work.counts, growth, strict=True)),
                ]
            case Repeat():
                times = node.count + round_number * node.growth
                counts = [times * each for each in _counts(node.body, round_number)]
            case Ramp():
                counts = _ramp_counts(node)
        totals = list(map(add, totals, counts))
    return totals


def _ramp_counts(ramp: Ramp) -> list[int]:
    """Counts are polynomials in the round, so Newton's forward differences sum them over all rounds."""
    rounds = range(min(ramp.times, 1 + _degree(ramp.body)))
    rows = [_counts(ramp.body, number) for number in rounds]
    totals = [0, *Work().counts]
    for order in rounds:
        totals = [total + comb(ramp.times, order + 1) * each for total, each in zip(totals, rows[0], strict=True)]
        rows = [list(map(sub, later, earlier)) for earlier, later in pairwise(rows)]
    return totals


def _degree(body: tuple[Node, ...]) -> int:
    """The degree of the polynomial that the counts of a body are at most."""
    found = 0
    for node in body:
        if isinstance(node, GrowingStep):
            found = max(found, 1)
        elif isinstance(node, Repeat):
            found = max(found, _degree(node.body) + (node.growth != 0))
    return found


def _flat(body: tuple[Node, ...]) -> Iterator[Step]:
    for node in body:
        match node:
            case Step():
                yield node
            case GrowingStep():
                yield node.first
            case Repeat():
                for _ in range(node.count):
                    yield from _flat(node.body)
            case Ramp():
                for number in range(node.times):
                    yield from _flat(node.at(number))


def _every(body: tuple[Node, ...]) -> Iterator[Node]:
    """Every node of a nest, those that stand in several places once."""
    seen: set[int] = set()
    left = list(body)
    while left:
        node = left.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            if isinstance(node, Repeat | Ramp):
                left.extend(node.body)
