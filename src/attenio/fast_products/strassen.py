"""Strassen's product QKᵀ on the counted memory [Strassen 1969], in Winograd's form with fifteen sums [Winograd 1971].

strassen(Q, K, S, levels):
    no level left, or a side of length one:  the ordinary product with its best tile
    for each word of the quadrants of Q:  load the four;  store the sums S1 ... S4 of the recipe
    for each word of the quadrants of K:  load the four;  store the sums T1 ... T4
    P1 ... P7 = strassen(...) of quadrants and sums
    for each word of the quadrants of S:  load the seven products;  store their four sums

Sums are made word by word and in place: five words of fast memory serve Q and K, seven the scores. Every word of a
quadrant is loaded once for all sums that it is in. Where a side is odd, the lower or right quadrant is one shorter, and
what a zero would fill is neither stored nor loaded.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from attenio.fast_products.classical import multiply
from attenio.fast_products.events import Combined, Term
from attenio.fast_products.shape import Block, shape_of
from attenio.fast_products.words import best_tile
from attenio.memory import EventKind, FastMemory, SlowArray, Tile
from attenio.memory.indices import as_array, span
from attenio.memory.matrix import Values


@dataclass(frozen=True, kw_only=True)
class _Sum:
    """``name = sign * first + sign * second``, kept in the word called ``place`` from then on."""

    name: str
    place: str
    first: tuple[int, str]
    second: tuple[int, str]


def _sum(name: str, place: str, first: str, sign: int, second: str) -> _Sum:
    return _Sum(name=name, place=place, first=(1, first), second=(sign, second))


# Operands are places: after the first line "21" of Q holds A21, after the second it holds S1.
_QUERY_SUMS = (
    _sum("S3", "spare", "11", -1, "21"),
    _sum("S1", "21", "21", 1, "22"),
    _sum("S2", "11", "21", -1, "11"),
    _sum("S4", "12", "12", -1, "11"),
)
_KEY_SUMS = (
    _sum("T3", "spare", "22", -1, "21"),
    _sum("T1", "21", "21", -1, "11"),
    _sum("T2", "22", "22", -1, "21"),
    _sum("T4", "12", "22", -1, "12"),
)
_SCORE_SUMS = (
    _sum("C11", "P2", "P1", 1, "P2"),
    _sum("U2", "P6", "P1", 1, "P6"),
    _sum("U3", "P7", "P6", 1, "P7"),
    _sum("U4", "P6", "P6", 1, "P5"),
    _sum("C12", "P3", "P6", 1, "P3"),
    _sum("C21", "P4", "P7", -1, "P4"),
    _sum("C22", "P7", "P7", 1, "P5"),
)


def strassen(fast: FastMemory, Q: Block, K: Block, S: Block, *, levels: int, path: str = "") -> None:
    """Store the product of the blocks Q and K transposed to the block S; ``path`` names what is stored on the way."""
    shape = shape_of(Q, K)
    if levels == 0 or not shape.halves:
        multiply(fast, Q, K, S, best_tile(shape, fast.capacity_words))
        return
    q, k, s = (dict(zip(("11", "12", "21", "22"), block.quadrants(), strict=True)) for block in (Q, K, S))
    half, deep = q["11"].width, q["12"].width
    upper, lower = q["11"].height, q["21"].height
    first, last = k["11"].height, k["21"].height
    sums = _rooms(path, {"S1": (lower, half), "S2": (upper, half), "S3": (upper, half), "S4": (upper, deep)})
    _combine(fast, _QUERY_SUMS, q, sums, path)
    key_sums = _rooms(path, {"T1": (first, half), "T2": (first, half), "T3": (last, half), "T4": (first, deep)})
    _combine(fast, _KEY_SUMS, k, key_sums, path)
    factors = {
        "P1": (q["11"], k["11"]),
        "P2": (q["12"], k["12"]),
        "P3": (sums["S4"], k["22"]),
        "P4": (q["22"], key_sums["T4"]),
        "P5": (sums["S1"], key_sums["T1"]),
        "P6": (sums["S2"], key_sums["T2"]),
        "P7": (sums["S3"], key_sums["T3"]),
    }
    products = _rooms(path, {name: (left.height, right.height) for name, (left, right) in factors.items()})
    for name, (left, right) in factors.items():
        strassen(fast, left, right, products[name], levels=levels - 1, path=f"{path}{name}/")
    results = {f"C{number}": block for number, block in s.items()}
    _combine(fast, _SCORE_SUMS, products, results, path)


def _rooms(path: str, shapes: Mapping[str, tuple[int, int]]) -> dict[str, Block]:
    """Room in slow memory for sums or products."""
    return {name: Block.whole(SlowArray.intermediate(f"{path}{name}", shape, 1)) for name, shape in shapes.items()}


def _combine(
    fast: FastMemory, recipe: tuple[_Sum, ...], sources: Mapping[str, Block], results: Mapping[str, Block], path: str
) -> None:
    """One pass over the sources: word by word load all of them, make the sums, store those that have room."""
    spare = [step.place for step in recipe if step.place not in sources]
    with ExitStack() as residency:
        words = {name: residency.enter_context(fast.buffer(name, 1, 1)) for name in (*sources, *spare)}
        for row in range(max(block.height for block in sources.values())):
            with ExitStack() as passing:
                held = _Row(fast, path, row)
                for name, block in sources.items():
                    if row < block.height:
                        there = block.part(slice(row, row + 1), span(block.width))
                        stream = words[name].streaming(block.array, there.rows, there.columns, along="columns")
                        held.take(name, passing.enter_context(stream).values, there)
                for step in recipe:
                    held.add(step, results.get(step.name))


class _Row:
    """One row of every place, as it passes word by word through fast memory."""

    def __init__(self, fast: FastMemory, path: str, row: int) -> None:
        self._fast, self._path, self._row = fast, path, row
        self._values: dict[str, Values] = {}
        self._names: dict[str, tuple[str, int, int]] = {}

    def take(self, place: str, values: Values, block: Block) -> None:
        self._values[place] = values
        self._names[place] = (block.array.name, *block.corner)

    def add(self, step: _Sum, result: Block | None) -> None:
        """Make one sum in its place, and store it if there is room for it."""
        terms = [(sign, place) for sign, place in (step.first, step.second) if place in self._values]
        height = self._row + 1 if result is None else result.height
        if self._row >= height or not terms:
            return
        width = max(self._values[place].shape[1] for _, place in terms) if result is None else result.width
        values = np.zeros((1, width), dtype=np.float32)
        for sign, place in terms:
            part = self._values[place][:, :width]
            values[:, : part.shape[1]] += np.float32(sign) * part
        name, top, left = f"{self._path}{step.name}", self._row, 0
        if result is not None:
            name, top, left = result.array.name, result.rows.start + self._row, result.columns.start
        self._note((name, top, left), width, terms)
        if result is not None:
            tile = Tile(name, values, slice(top, top + 1), slice(left, left + width))
            self._fast.store(tile, result.array)
        self._values[step.place], self._names[step.place] = values, (name, top, left)

    def _note(self, target: tuple[str, int, int], width: int, terms: list[tuple[int, str]]) -> None:
        trace = self._fast.trace
        if trace.record:
            name, row, left = target
            trace.events.append(
                Combined(
                    kind=EventKind.COMPUTE,
                    operand=name,
                    rows=as_array(slice(row, row + 1)),
                    columns=as_array(slice(left, left + width)),
                    stream=trace.stream,
                    terms=tuple(
                        Term(
                            sign=sign,
                            operand=self._names[place][0],
                            row=self._names[place][1],
                            first_column=self._names[place][2],
                            width=min(width, self._values[place].shape[1]),
                        )
                        for sign, place in terms
                    ),
                )
            )
