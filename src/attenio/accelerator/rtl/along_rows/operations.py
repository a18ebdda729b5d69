"""What a unit does in a cycle: an operation, and where in the scratchpad its words lie.

Steps become tables of operations, one for every unit and cycle: a control store. An address may move from step to step
(``shifted``), as that of a row in a tile does. ``hides`` is the key less the row that a score is of, counted from the
first of the step: what lies outside the mask becomes -inf as it is written.
"""

from dataclasses import dataclass, field, replace
from enum import Enum

from attenio.errors import DoesNotFit


class Kind(Enum):
    """What a MAC computes of three words."""

    MULTIPLY_ADD = 0  # a * b + c
    SUM = 1  # a + c * b
    TIMES = 2  # c * b
    MAXIMUM = 3  # the larger of a and c
    DIVIDE = 4  # c / b


class Mode(Enum):
    """What an operand is: the word at its address, or a number in its place."""

    WORD = 0
    ZERO = 1
    ONE = 2
    MINUS_INFINITY = 3
    ZERO_IF_FRESH = 4  # before a tile has met its first keys
    MINUS_INFINITY_IF_FRESH = 5


@dataclass(frozen=True, kw_only=True)
class At:
    """An operand, or the place of a result."""

    address: int = 0
    mode: Mode = Mode.WORD
    shifted: bool = False

    def plus(self, words: int) -> "At":
        """The same so many words further."""
        return replace(self, address=self.address + words)

    def read(self, mode: Mode) -> "At":
        """The same, read otherwise."""
        return replace(self, mode=mode)


ZERO, ONE, MINUS_INFINITY = (At(mode=mode) for mode in (Mode.ZERO, Mode.ONE, Mode.MINUS_INFINITY))


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One result."""

    to: At
    a: At = ZERO
    b: At = ONE
    c: At = ZERO
    kind: Kind = Kind.MULTIPLY_ADD
    hides: int | None = None


@dataclass(kw_only=True)
class StepCode:
    """The operations of a step: unit by unit of every cycle, and those of the tree, level by level.

    A level of the tree follows so many cycles after the cycle that it is listed in, and may do so after the step.
    """

    cycles: int
    units: int
    array: list[dict[int, Operation]] = field(init=False)
    tree: dict[tuple[int, int], list[Operation]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.array = [{} for _ in range(self.cycles)]

    def put(self, cycle: int, unit: int, operation: Operation) -> None:
        """Give a unit something to do in a cycle."""
        assert 0 <= cycle < self.cycles and 0 <= unit < self.units and unit not in self.array[cycle]
        self.array[cycle][unit] = operation

    def soonest(self, earliest: int, operation: Operation, name: str) -> int:
        """Give it to any unit that is free from a cycle on; the cycle after it."""
        for cycle in range(earliest, self.cycles):
            if len(self.array[cycle]) < self.units:
                self.put(cycle, min(set(range(self.units)) - self.array[cycle].keys()), operation)
                return cycle + 1
        raise DoesNotFit(
            f"the array cannot do {name!r} in the {self.cycles:,} cycles that the model gives it; use a larger array"
        )


def take_maximum(code: StepCode, words: list[tuple[At, int]], to: At, temporary: At, name: str) -> None:
    """The largest of words, each there from a cycle on; partial ones lie one after the other from ``temporary`` on."""
    pool = sorted(words, key=lambda each: each[1])
    if len(pool) == 1:
        code.soonest(pool[0][1], Operation(kind=Kind.MAXIMUM, a=MINUS_INFINITY, c=pool[0][0], to=to), name)
    made = 0
    while len(pool) > 1:
        (one, _), (other, begin) = pool[0], pool[1]
        result = to if len(pool) == 2 else temporary.plus(made)
        end = code.soonest(begin, Operation(kind=Kind.MAXIMUM, a=one, c=other, to=result), name)
        pool = sorted([*pool[2:], (result, end)], key=lambda each: each[1])
        made += 1


def take_sum(code: StepCode, words: list[At], lanes: int, places: tuple[At, At], name: str) -> None:
    """The sum of words in the order of the functional model: one to a lane and step, then neighbours first.

    The last of the exponentials is written in the first cycle, so that sums begin in the second.
    """
    to, temporary = places
    lanes = min(lanes, len(words))
    sums = [(word, 1) for word in words[:lanes]]
    left = len(words) - 1
    made = 0

    def add(one: tuple[At, int], other: tuple[At, int]) -> tuple[At, int]:
        nonlocal left, made
        left -= 1
        result = to if left == 0 else temporary.plus(made)
        made += 1
        operation = Operation(a=other[0], c=one[0], to=result)
        return result, code.soonest(max(one[1], other[1]), operation, name)

    for number, word in enumerate(words[lanes:]):
        sums[number % lanes] = add(sums[number % lanes], (word, 1))
    while len(sums) > 1:
        pairs = [add(sums[at], sums[at + 1]) for at in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[2 * len(pairs) :]
