"""Programs: nests of repeated steps, each on one engine, each waiting for others by name.

An engine runs its steps in the order of the program, one at a time. A step begins when its engine is free and the
latest earlier run of every step it names in ``after`` is over; a name that has not run yet holds nothing up. That is
all of the controller: which step waits for which is what overlaps, buffers and orders come to.

>>> from attenio.accelerator.growth import Growing
>>> load = Step(name="load K", engine=Engine.HBM, cycles=4, after=("scores",), work=Work(loaded_words=64))
>>> scores = Step(name="scores", engine=Engine.PE, cycles=64, after=("load K",))
>>> program = Program((Repeat(count=100, body=(load, scores)),))
>>> program.work.loaded_words, program.steps
(6400, 200)

Under a causal mask every tile of queries repeats its loop over keys more often than the one before. That is a ramp:

>>> keys = Repeat(count=Growing(3, 2), body=(load, scores))           # 3, 5, 7, ... times
>>> Program((Ramp(times=1000, body=(keys,)),)).steps
2004000
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import comb, gcd, lcm
from operator import add, sub

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.growth import RoundNumber
from attenio.accelerator.step import Engine, GrowingStep, Step, Work
from attenio.errors import InvalidInput

Rounds = NDArray[np.int64]

# Rounds of a ramp that are counted together: arrays that stay in this computer's caches.
_AT_ONCE = 2**14


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The body, so many times over; inside a ramp the number may depend on the round."""

    count: int | RoundNumber
    body: "tuple[Node, ...]"

    def __post_init__(self) -> None:
        if isinstance(self.count, int) and self.count < 0:
            raise InvalidInput(f"a loop repeats {self.count} times; it must be at least 0")

    @cached_property
    def grows(self) -> bool:
        """Whether rounds of the ramp around it differ."""
        return isinstance(self.count, RoundNumber) or any(
            isinstance(node, GrowingStep) or (isinstance(node, Repeat) and node.grows) for node in self.body
        )

    def at(self, round_number: int) -> "Repeat":
        """The loop as it is in a round of a ramp."""
        if not self.grows:
            return self
        count = self.count if isinstance(self.count, int) else self.count.at(round_number)
        return Repeat(count=count, body=_at(self.body, round_number))


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """The body so many times over; how often its loops run and how long its steps are depends on the round."""

    times: int
    body: "tuple[Node, ...]"

    def __post_init__(self) -> None:
        if self.times < 0:
            raise InvalidInput(f"a ramp has {self.times} rounds; it must have at least 0")
        for node in _every(self.body):
            if isinstance(node, Ramp):
                raise InvalidInput("a ramp inside a ramp has two rounds to grow with; write the inner one out")
            counted = node.count if isinstance(node, Repeat) else node.size if isinstance(node, GrowingStep) else 0
            if isinstance(counted, RoundNumber) and self.times and (least := counted.least(self.times)) < 0:
                what = "a loop repeats" if isinstance(node, Repeat) else "a step is of size"
                raise InvalidInput(f"{what} {least} in a round of a ramp; it must be at least 0")

    def at(self, round_number: int) -> "tuple[Node, ...]":
        """The nodes of one round."""
        return _at(self.body, round_number)

    @cached_property
    def period(self) -> int:
        """Rounds after which all that depends on the round has grown by the same amount, wherever they begin."""
        sizes = [node for node in _every(self.body) if isinstance(node, GrowingStep)]
        counts = [node.count for node in _every(self.body) if isinstance(node, Repeat)]
        period = lcm(
            *(count.period for count in counts if isinstance(count, RoundNumber)), *(s.size.period for s in sizes)
        )
        units = []
        for step in sizes:
            if step.one.pace is not None:
                rise = step.elements * (step.size.at(period) - step.size.at(0)) if period < self.times else 0
                units.append(step.one.pace.units // gcd(rise, step.one.pace.units))
        return period * lcm(*units)


Node = Step | GrowingStep | Repeat | Ramp


@dataclass(frozen=True)
class Program:
    """What a controller runs."""

    body: tuple[Node, ...]

    @cached_property
    def work(self) -> Work:
        """The work of every step together."""
        return Work.of(_counts(self.body)[1:])

    @cached_property
    def steps(self) -> int:
        """How many steps run."""
        return _counts(self.body)[0]

    def causes(self, engine: Engine) -> frozenset[str]:
        """What those who wait for steps of this engine say they wait for."""
        steps = (node.one if isinstance(node, GrowingStep) else node for node in _every(self.body))
        return frozenset(step.cause or step.name for step in steps if isinstance(step, Step) and step.engine is engine)

    def __iter__(self) -> Iterator[Step]:
        """Every step, in the order of the program."""
        return _flat(self.body)


def repeat(count: int, *body: Node) -> tuple[Node, ...]:
    """The body so many times: nothing, itself, or a loop."""
    if count <= 0 or not body:
        return ()
    return body if count == 1 else (Repeat(count=count, body=body),)


def _at(body: tuple[Node, ...], round_number: int) -> tuple[Node, ...]:
    return tuple(node.at(round_number) if isinstance(node, GrowingStep | Repeat) else node for node in body)


def _counts(body: tuple[Node, ...]) -> list[int]:
    """Steps, then their work."""
    totals = [0, *Work().counts]
    for node in body:
        match node:
            case Step():
                counts = [1, *node.work.counts]
            case Repeat():
                assert isinstance(node.count, int), "a loop that grows outside a ramp"
                counts = [node.count * each for each in _counts(node.body)]
            case Ramp():
                counts = _ramp_counts(node)
            case GrowingStep():
                raise AssertionError("a step that grows outside a ramp")
        totals = list(map(add, totals, counts))
    return totals


def _ramp_counts(ramp: Ramp) -> list[int]:
    """Counts of rounds a period apart are polynomials, so Newton's forward differences sum them over all periods."""
    periods, rest = divmod(ramp.times, ramp.period)
    order = min(periods, 1 + _degree(ramp.body))
    rows = [_rounds_counts(ramp, number * ramp.period, (number + 1) * ramp.period) for number in range(order)]
    totals = _rounds_counts(ramp, periods * ramp.period, periods * ramp.period + rest)
    for power in range(order):
        totals = [total + comb(periods, power + 1) * each for total, each in zip(totals, rows[0], strict=True)]
        rows = [list(map(sub, later, earlier)) for earlier, later in pairwise(rows)]
    return totals


def _rounds_counts(ramp: Ramp, start: int, stop: int) -> list[int]:
    """Steps and work of some rounds, each counted."""
    totals = [0, *Work().counts]
    for at in range(start, stop, _AT_ONCE):
        rounds = np.arange(at, min(at + _AT_ONCE, stop), dtype=np.int64)
        counts_of_rounds = _array_counts(ramp.body, rounds)
        totals = [total + exact_sum(counts) for total, counts in zip(totals, counts_of_rounds, strict=True)]
    return totals


def _array_counts(body: tuple[Node, ...], rounds: Rounds) -> list[Rounds]:
    """Steps and work of a body in every round."""
    totals = [np.zeros_like(rounds) for _ in range(1 + len(Work().counts))]
    for node in body:
        match node:
            case Step():
                counts = [1, *node.work.counts]
                totals = [total + each for total, each in zip(totals, counts, strict=True)]
            case GrowingStep():
                more = node.size.values(rounds) - 1
                totals[0] += 1
                for number, (one, growth) in enumerate(zip(node.one.work.counts, node.work.counts, strict=True), 1):
                    totals[number] += one + growth * more
            case Repeat():
                often = node.count if isinstance(node.count, int) else node.count.values(rounds)
                inner = _array_counts(node.body, rounds)
                totals = [total + often * each for total, each in zip(totals, inner, strict=True)]
            case Ramp():
                raise AssertionError("a ramp inside a ramp")
    return totals


def exact_sum(numbers: Rounds) -> int:
    """The sum of numbers of 64 bits, however large."""
    return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())


def _degree(body: tuple[Node, ...]) -> int:
    """The degree of the polynomial that the counts of a body are at most."""
    degree = 0
    for node in body:
        if isinstance(node, GrowingStep):
            degree = max(degree, 1)
        elif isinstance(node, Repeat):
            degree = max(degree, _degree(node.body) + isinstance(node.count, RoundNumber))
    return degree


def _flat(body: tuple[Node, ...]) -> Iterator[Step]:
    for node in body:
        match node:
            case Step():
                yield node
            case GrowingStep():
                raise AssertionError("a step that grows outside a ramp")
            case Repeat():
                assert isinstance(node.count, int), "a loop that grows outside a ramp"
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
