"""Steps: some cycles on one engine, the work that is done in them, and what has to be over before."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from operator import add

from attenio.errors import InvalidInput

__all__ = ["Engine", "GrowingStep", "Operation", "Pace", "Step", "Work"]


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
class Pace:
    """Elements that an engine takes so many at a time: the part of a step's cycles that grows with them."""

    elements: int
    units: int

    @property
    def cycles(self) -> int:
        """Cycles until all are taken."""
        return -(-self.elements // self.units)


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
    pace: Pace | None = None

    def __post_init__(self) -> None:
        if self.cycles < 0:
            raise InvalidInput(f"step {self.name} takes {self.cycles} cycles; it must take at least 0")

    def doing(self, operation: Operation, *, rows: int, keys: int = 0) -> "Step":
        """The same step, told what it does to numbers."""
        return replace(self, operation=operation, rows=rows, keys=keys)


@dataclass(frozen=True, kw_only=True)
class GrowingStep:
    """A step of a ramp that takes more elements, and does more work, in every round: ``first`` is that of round 0."""

    first: Step
    elements: int
    keys: int
    work: Work

    @classmethod
    def between(cls, first: Step, second: Step) -> "GrowingStep | None":
        """The growing step that is ``first`` in round 0 and ``second`` in round 1, if there is one."""
        if first.pace is None or second.pace is None:
            return None
        found = cls(
            first=first,
            elements=second.pace.elements - first.pace.elements,
            keys=second.keys - first.keys,
            work=second.work + first.work * -1,
        )
        return found if found.at(1) == second else None

    def at(self, round_number: int) -> Step:
        """The step as it is in a round."""
        pace = self.first.pace
        assert pace is not None, "only steps with a pace grow"
        now = replace(pace, elements=pace.elements + round_number * self.elements)
        return replace(
            self.first,
            pace=now,
            cycles=self.first.cycles + now.cycles - pace.cycles,
            keys=self.first.keys + round_number * self.keys,
            work=self.first.work + self.work * round_number,
        )
