"""The words that the memory gives a program in its order, and the outputs that words stored in order are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.arithmetic import Numbers, Precision
from attenio.accelerator.functional.heads import heads_of
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.geometry import Words
from attenio.accelerator.step import Engine, Operation
from attenio.dataflows.inputs import random_inputs


@dataclass(frozen=True, kw_only=True, eq=False)
class Streams:
    """Beats of queries (address, line, MAC) and of keys and values (words that arrive at once)."""

    queries: Words
    kv: Words


def streams(design: Design, seed: int) -> Streams:
    """What the program loads, step by step, of random inputs."""
    workload = design.plan.workload
    given = random_inputs(workload, seed)
    numbers = Numbers(pe=design.hardware.pe, precision=Precision.HALF)
    queries: list[Words] = []
    kv: list[Words] = []
    heads = list(heads_of(design.plan))
    rows_of = [bits_of(numbers.keep(head.queries(given.q)[0] * workload.softmax_scale)) for head in heads]
    keys_of = [bits_of(numbers.keep(head.keys(given.k))) for head in heads]
    values_of = [bits_of(numbers.keep(head.keys(given.v))) for head in heads]
    at = _Cursor(design.pattern.rows, len(heads))
    for step in design.program:
        if step.engine is not Engine.HBM:
            continue
        match step.operation:
            case Operation.LOAD_QUERIES:
                head, row = at.queries(design)
                queries.append(design.geometry_of(step.rows).beats(rows_of[head][row : row + step.rows]))
            case Operation.LOAD_KEYS:
                head, key = at.key(design, step.rows)
                kv.append(beats_of(keys_of[head][key], design.arriving))
            case Operation.LOAD_VALUES:
                head, key = at.value(design, step.rows)
                kv.append(beats_of(values_of[head][key], design.arriving))
            case _:
                at.stored(step.rows)
    lines, macs = design.hardware.pe.lines, design.hardware.pe.macs_per_line
    return Streams(
        queries=np.concatenate(queries) if queries else np.zeros((0, lines, macs), dtype=np.uint16),
        kv=np.concatenate(kv) if kv else np.zeros((0, design.arriving), dtype=np.uint16),
    )


class _Cursor:
    """Which head, row and key the program is at."""

    def __init__(self, rows: int, heads: int) -> None:
        self._rows, self._heads = rows, heads
        self._head = self._row = self._keys = self._values = 0

    def queries(self, design: Design) -> tuple[int, int]:
        """Queries are of the tile at hand, or, once it has met keys, of the next."""
        if self._keys == 0:
            return self._head, self._row
        tile = min(design.plan.tiles["query_tile"], self._rows - self._row)
        row = self._row + tile
        return (self._head, row) if row < self._rows else (self._head + 1, 0)

    def key(self, design: Design, rows: int) -> tuple[int, int]:
        """The next key of the tile."""
        self._keys += 1
        return self._head, self._needed(design, rows)[self._keys - 1]

    def value(self, design: Design, rows: int) -> tuple[int, int]:
        """The next value of the tile."""
        self._values += 1
        return self._head, self._needed(design, rows)[self._values - 1]

    def stored(self, rows: int) -> None:
        """A tile is over."""
        self._row, self._keys, self._values = self._row + rows, 0, 0
        if self._row == self._rows:
            self._head, self._row = self._head + 1, 0

    def _needed(self, design: Design, rows: int) -> NDArray[np.intp]:
        needed: NDArray[np.intp] = design.pattern.needed_keys(self._row, self._row + rows)
        return needed


def bits_of(values: NDArray[np.floating]) -> Words:
    """Numbers as the words they are kept in."""
    return np.ascontiguousarray(values.astype(np.float16)).view(np.uint16)


def beats_of(vector: Words, arriving: int) -> Words:
    """A vector in pieces that arrive at once."""
    padded = np.zeros(-(-len(vector) // arriving) * arriving, dtype=np.uint16)
    padded[: len(vector)] = vector
    return padded.reshape(-1, arriving)


def outputs_of(design: Design, beats: Words) -> list[Words]:
    """The tiles that were stored, in order, from the words of all lines and MACs, address by address."""
    tiles: list[Words] = []
    at, width = 0, design.widths[1]
    for step in design.program:
        if step.operation is Operation.STORE_OUTPUTS:
            geometry = design.geometry_of(step.rows)
            addresses = geometry.steps(width)
            tiles.append(geometry.matrix(beats[at : at + addresses], width))
            at += addresses
    return tiles
