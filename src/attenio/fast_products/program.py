"""A recorded schedule word by word: which word moves when, and which words make which sum.

A trace says what happened to tiles. Here every event is taken apart into single words, streams piece by piece, so that
a run can be replayed in any field. Only the products and sums that lead to scores are kept as computations; softmax and
outputs are not arithmetic of a finite field, and no score depends on them. Their moves stay, because they take time.

>>> from attenio.fast_products.product import classical_product, random_factors
>>> from attenio.fast_products.shape import Shape
>>> run = classical_product(*random_factors(Shape(rows=2, keys=2, depth=1)), fast_words=7, record=True)
>>> for step in program_of(run.trace, depth=1).steps[:4]:
...     print(step)
Load(word=('Q', 0, 0))
Load(word=('Q', 1, 0))
Load(word=('K', 0, 0))
Compute(word=('S', 0, 0), terms=((1, (('Q', 0, 0), ('K', 0, 0))),), score=True)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from attenio.errors import InvalidInput
from attenio.fast_products.events import Combined, Multiplied
from attenio.memory import Event, EventKind, Step, Trace

# Name of the matrix, row, column: a word of it lies in slow memory, in fast memory, or in both.
Word = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Load:
    """The word is copied to fast memory."""

    word: Word


@dataclass(frozen=True, slots=True)
class Store:
    """The word is copied to slow memory."""

    word: Word


@dataclass(frozen=True, slots=True)
class Compute:
    """The word becomes a sum of terms, each a sign and one word or two to multiply; ``score``: it is a score now."""

    word: Word
    terms: tuple[tuple[int, tuple[Word, ...]], ...]
    score: bool


Action = Load | Store | Compute


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """The steps of one run of a product or of attention with a single head."""

    steps: tuple[Action, ...]
    depth: int

    @property
    def moved_words(self) -> int:
        """Words that the steps move."""
        return sum(not isinstance(step, Compute) for step in self.steps)


def program_of(trace: Trace, *, depth: int) -> Program:
    """The program of a recorded trace of one dense head whose queries and keys are ``depth`` wide."""
    moved = sum(event.words for event in trace.events)
    if not trace.events or trace.moved_words > moved:
        raise InvalidInput("the trace has no record of its events; run with record=True")
    if len({event.problem for event in trace.events}) > 1 or any(event.cells is not None for event in trace.events):
        raise InvalidInput("the trace holds several heads or masked scores; record one dense head")
    steps: list[Action] = []
    for stream, group in groupby(trace.events, key=lambda event: event.stream):
        events = [event for event in group if event.kind in (EventKind.LOAD, EventKind.STORE, EventKind.COMPUTE)]
        steps += _interleaved(events, depth) if stream else _in_order(events, depth)
    return Program(steps=tuple(steps), depth=depth)


def _in_order(events: Sequence[Event], depth: int) -> Iterator[Action]:
    for event in events:
        yield from _words(event, depth, slice(None), slice(None))


def _interleaved(events: Sequence[Event], depth: int) -> Iterator[Action]:
    """Piece by piece: each piece goes through all events before the next one arrives."""
    pieces = max(len(event.rows if event.along == "rows" else event.columns) for event in events if event.along)
    for piece in range(pieces):
        only = slice(piece, piece + 1)
        for event in events:
            by_row = event.along == "rows"
            yield from _words(event, depth, only if by_row else slice(None), slice(None) if by_row else only)


def _words(event: Event, depth: int, rows: slice, columns: slice) -> Iterator[Action]:
    places = [(int(row), int(column)) for row in event.rows[rows] for column in event.columns[columns]]
    match event:
        case Event(kind=EventKind.LOAD):
            yield from (Load((event.operand, *place)) for place in places)
        case Event(kind=EventKind.STORE):
            yield from (Store((event.operand, *place)) for place in places)
        case Combined():
            yield from (_sum(event, place) for place in places)
        case Multiplied():
            yield from (_product(event, place) for place in places)
        case Event(step=Step.SCORES):
            whole = Multiplied(
                kind=event.kind,
                operand="S",
                inner=event.inner if len(event.inner) else np.arange(depth, dtype=np.int64),
                left="Q",
                right="K",
                left_corner=(0, 0),
                right_corner=(0, 0),
                depth=depth,
            )
            yield from (_product(whole, place) for place in places)
        case _:
            return


def _product(event: Multiplied, place: tuple[int, int]) -> Compute:
    word = (event.operand, *place)
    (top, left), (first, start) = event.left_corner, event.right_corner
    products = tuple(
        (1, ((event.left, top + place[0], left + t), (event.right, first + place[1], start + t)))
        for t in event.inner.tolist()
    )
    before = () if 0 in event.inner else ((1, (word,)),)
    return Compute(word, before + products, score=event.operand == "S" and event.depth - 1 in event.inner)


def _sum(event: Combined, place: tuple[int, int]) -> Compute:
    column = place[1] - int(event.columns[0])
    terms = tuple(
        (term.sign, ((term.operand, term.row, term.first_column + column),))
        for term in event.terms
        if column < term.width
    )
    return Compute((event.operand, *place), terms, score=event.operand == "S")
