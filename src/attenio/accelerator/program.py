"""Programs: nests of repeated steps, each on one engine, each waiting for others by name.

An engine runs its steps in the order of the program, one at a time. A step begins when its engine is free and the
latest earlier run of every step it names in ``after`` is over; a name that has not run yet holds nothing up. That is
all of the controller: which step waits for which is what overlaps, buffers and orders come to.

>>> load = Step(name="load K", engine=Engine.HBM, cycles=4, after=("scores",), work=Work(loaded_words=64))
>>> scores = Step(name="scores", engine=Engine.PE, cycles=64, after=("load K",))
>>> program = Program((Repeat(count=100, body=(load, scores)),))
>>> program.work.loaded_words, program.steps
(6400, 200)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from operator import add

from attenio.errors import InvalidInput

__all__ = ["Engine", "Node", "Operation", "Program", "Repeat", "Step", "Work", "repeat"]


class Engine(Enum):
    """What steps occupy; the cache and the KV buffer only hold."""

    HBM = "HBM"
    PE = "PE array"
    EXP = "EXP unit"


class Operation(Enum):
    """What a step does to numbers, for the functional mode; the sizes are the step's rows and keys."""

    LOAD_QUERIES = "load queries"
    LOAD_KEYS = "load keys"
    LOAD_VALUES = "load values"
    SCORES = "scores"
    MAXIMUM = "maximum and subtract"
    EXPONENTIALS = "exponentials"
    RESCALING = "exponentials of the rescaling"
    SUM = "multiply and add"
    OUTPUTS = "outputs"
    NORMALISE = "normalise"
    STORE_OUTPUTS = "store outputs"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What steps do besides taking time: words moved, and the events that energy is counted by."""

    loaded_words: int = 0
    stored_words: int = 0
    macs: int = 0
    exponentials: int = 0
    map_operations: int = 0  # one MAC, one operation that is not part of a product: maximum, subtract, add
    cache_words: int = 0
    kv_words: int = 0

    @property
    def moved_words(self) -> int:
        """Words between the cache and the memory, both directions."""
        return self.loaded_words + self.stored_words

    @property
    def counts(self) -> tuple[int, ...]:
        """All counts, in order; written out because long programs ask for it at every step."""
        return (
            self.loaded_words,
            self.stored_words,
            self.macs,
            self.exponentials,
            self.map_operations,
            self.cache_words,
            self.kv_words,
        )

    @classmethod
    def of(cls, counts: Iterable[int]) -> "Work":
        """Work from its counts, in order."""
        return cls(**{part.name: count for part, count in zip(fields(cls), counts, strict=True)})

    def __add__(self, other: "Work") -> "Work":
        return Work.of(map(add, self.counts, other.counts))

    def __mul__(self, times: int) -> "Work":
        return Work.of(times * count for count in self.counts)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Some cycles on one engine. ``cause`` is what an engine that waits for this step says it waits for."""

    name: str
    engine: Engine
    cycles: int | Fraction
    after: tuple[str, ...] = ()
    work: Work = Work()
    cause: str = ""
    operation: Operation | None = None
    rows: int = 0
    keys: int = 0

    def __post_init__(self) -> None:
        if self.cycles < 0:
            raise InvalidInput(f"step {self.name} takes {self.cycles} cycles; it must take at least 0")

    def doing(self, operation: Operation, *, rows: int, keys: int = 0) -> "Step":
        """The same step, told what it does to numbers."""
        return replace(self, operation=operation, rows=rows, keys=keys)


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The body, so many times over."""

    count: int
    body: "tuple[Node, ...]"

    def __post_init__(self) -> None:
        if self.count < 0:
            raise InvalidInput(f"a loop repeats {self.count} times; it must be at least 0")

    @cached_property
    def work(self) -> Work:
        """The work of all rounds."""
        return _work(self.body) * self.count

    @cached_property
    def steps(self) -> int:
        """Steps of all rounds."""
        return _steps(self.body) * self.count


Node = Step | Repeat


@dataclass(frozen=True)
class Program:
    """What a controller runs."""

    body: tuple[Node, ...]

    @cached_property
    def work(self) -> Work:
        """The work of every step together."""
        return _work(self.body)

    @cached_property
    def steps(self) -> int:
        """How many steps run."""
        return _steps(self.body)

    def causes(self, engine: Engine) -> frozenset[str]:
        """What those who wait for steps of this engine say they wait for."""
        return frozenset(_causes(self.body, engine, set()))

    def __iter__(self) -> Iterator[Step]:
        """Every step, in the order of the program."""
        return _flat(self.body)


def repeat(count: int, *body: Node) -> tuple[Node, ...]:
    """The body so many times: nothing, itself, or a loop."""
    if count <= 0 or not body:
        return ()
    return body if count == 1 else (Repeat(count=count, body=body),)


def _work(body: tuple[Node, ...]) -> Work:
    return Work.of(_counts(body))


def _counts(body: tuple[Node, ...]) -> list[int]:
    totals = list(Work().counts)
    for node in body:
        counts = node.work.counts if isinstance(node, Step) else [node.count * each for each in _counts(node.body)]
        totals = list(map(add, totals, counts))
    return totals


def _steps(body: tuple[Node, ...]) -> int:
    return sum(1 if isinstance(node, Step) else node.steps for node in body)


def _flat(body: tuple[Node, ...]) -> Iterator[Step]:
    for node in body:
        if isinstance(node, Step):
            yield node
        else:
            for _ in range(node.count):
                yield from _flat(node.body)


def _causes(body: tuple[Node, ...], engine: Engine, seen: set[int]) -> Iterator[str]:
    for node in body:
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Repeat):
            yield from _causes(node.body, engine, seen)
        elif node.engine is engine:
            yield node.cause or node.name
