"""Steps: some cycles on one engine, the work that is done in them, and what has to be over before."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from operator import add

from attenio.accelerator.growth import RoundNumber
from attenio.errors import InvalidInput


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
    # standard attention: products of a row of columns and one of rows at a time
    LOAD_COLUMNS = "load columns"
    OUTER_PRODUCT = "outer product"
    STORE_TILE = "store a tile of the product"
    LOAD_SCORES = "load scores"
    # the gradient
    ROW_DOTS = "outputs times their gradient"
    VALUE_GRADIENT = "value gradient"
    PROBABILITY_GRADIENT = "probability gradient"
    SCORE_GRADIENT = "score gradient"
    KEY_GRADIENT = "key gradient"
    QUERY_GRADIENT = "query gradient"
    STORE_KEY_GRADIENTS = "store key gradients"


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
    """Elements that an engine takes so many at a time: the cycles of a step that come in whole turns."""

    elements: int
    units: int
    cycles_a_turn: int | Fraction = 1

    @property
    def turns(self) -> int:
        """Turns until all are taken."""
        return -(-self.elements // self.units)

    @property
    def cycles(self) -> int | Fraction:
        """Cycles until all are taken."""
        return self.turns * self.cycles_a_turn


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
    """A step of a ramp whose size depends on the round: ``one`` is that of size 1, the rest what each more adds."""

    one: Step
    size: RoundNumber
    cycles: int | Fraction
    elements: int
    rows: int
    keys: int
    work: Work

    @classmethod
    def of(cls, size: RoundNumber, one: Step, two: Step) -> "GrowingStep":
        """The step that is ``one`` at size 1 and ``two`` at size 2, the size being that of the round."""
        before, after = one.pace, two.pace
        paced = after.cycles - before.cycles if before is not None and after is not None else 0
        return cls(
            one=one,
            size=size,
            cycles=two.cycles - one.cycles - paced,
            elements=after.elements - before.elements if before is not None and after is not None else 0,
            rows=two.rows - one.rows,
            keys=two.keys - one.keys,
            work=two.work + one.work * -1,
        )

    def at(self, round_number: int) -> Step:
        """The step as it is in a round."""
        return self.sized(self.size.at(round_number))

    def sized(self, size: int) -> Step:
        """The step of some size."""
        one, more, pace = self.one, size - 1, self.one.pace
        now = None if pace is None else replace(pace, elements=pace.elements + more * self.elements)
        paced = now.cycles - pace.cycles if now is not None and pace is not None else 0
        return replace(
            one,
            pace=now,
            cycles=one.cycles + more * self.cycles + paced,
            rows=one.rows + more * self.rows,
            keys=one.keys + more * self.keys,
            work=one.work + self.work * more,
        )
