"""Attention forward as a graph: scores, softmax in one of three forms, outputs.

Vertices are named as in formulas: ``Q[i,t]``, ``K[j,t]``, ``V[j,c]``, ``S[i,j]``, ``max[i]``, ``P[i,j]``, ``sum[i]``,
``O[i,c]``. Something after a semicolon is a stage on the way: ``S[i,j;t]`` after t products, ``O[i,c;j]`` after key j.
The maximum or the sum of a single score is that score; it has no vertex of its own.

>>> graph = attention(Head(rows=2, keys=2, d=1))
>>> graph.names[-1], [graph.names[u] for u in graph.parents[graph.number("O[0,0;1]")]]
('O[1,0]', ['O[0,0;0]', 'rescale[0;1]', 'P[0,1]', 'V[1,0]'])
>>> len(attention(Head(rows=2, keys=2, d=1), softmax=Softmax.UNSHIFTED))
22
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Accumulation, Parents, accumulate, stage
from attenio.quantities import checked_count

__all__ = ["Head", "Runs", "Softmax", "attention", "one_key_runs"]

# For every row, the runs of keys that are taken in together by an online softmax.
Runs = Sequence[Sequence[Sequence[int]]]


class Softmax(Enum):
    """What a probability waits for."""

    UNSHIFTED = "unshifted"  # exp(S): nothing but its score; the fewest dependencies softmax can have
    PLAIN = "plain"  # exp(S - max) with the maximum of the whole row
    ONLINE = "online"  # exp(S - max so far), and what was summed before is rescaled


@dataclass(frozen=True, kw_only=True, eq=False)
class Head:
    """One head: how many query rows and keys, how wide, and which scores a mask requires (all by default)."""

    rows: int
    keys: int
    d: int
    value_dim: int = 0
    required: NDArray[np.bool_] = field(default_factory=lambda: np.ones((0, 0), dtype=np.bool_))

    def __post_init__(self) -> None:
        if self.value_dim == 0:
            object.__setattr__(self, "value_dim", self.d)
        for name in ("rows", "keys", "d", "value_dim"):
            checked_count(name, getattr(self, name))
        check_size("attention", self.inputs + self.rows * self.keys * (self.d + 4 + self.value_dim))
        if self.required.size == 0:
            object.__setattr__(self, "required", np.ones((self.rows, self.keys), dtype=np.bool_))
        if self.required.shape != (self.rows, self.keys):
            shape = " x ".join(str(size) for size in self.required.shape)
            raise InvalidInput(f"the mask is {shape}; the head has {self.rows} rows and {self.keys} keys")
        if not self.required.any(axis=1).all():
            row = int(self.required.any(axis=1).argmin())
            raise InvalidInput(f"row {row} needs no key, so its output is zero; leave the row out of the graph")

    @property
    def inputs(self) -> int:
        """How many entries Q, K and V have."""
        return self.rows * self.d + self.keys * (self.d + self.value_dim)

    def needed_keys(self, row: int) -> list[int]:
        """The keys that a row attends to."""
        keys: list[int] = np.flatnonzero(self.required[row]).tolist()
        return keys


def attention(
    head: Head,
    *,
    softmax: Softmax = Softmax.ONLINE,
    accumulation: Accumulation = Accumulation.CHAIN,
    runs: Runs | None = None,
) -> ComputationGraph:
    """The graph of one head; ``runs`` groups the keys of each row for the online form, one key each by default."""
    if softmax is Softmax.ONLINE and accumulation is not Accumulation.CHAIN:
        raise InvalidInput("an online softmax rescales what it has summed, key by key; use accumulation 'chain'")
    parents: Parents = {}
    d, width = head.d, head.value_dim
    for matrix, height, columns in (("Q", head.rows, d), ("K", head.keys, d), ("V", head.keys, width)):
        parents.update({f"{matrix}[{i},{t}]": () for i in range(height) for t in range(columns)})
    grouped = one_key_runs(head) if runs is None else runs
    for i in range(head.rows):
        keys = head.needed_keys(i)
        for j in keys:
            accumulate(parents, f"S[{i},{j}]", [(f"Q[{i},{t}]", f"K[{j},{t}]") for t in range(d)], accumulation)
        match softmax:
            case Softmax.UNSHIFTED | Softmax.PLAIN:
                _whole_row(parents, i, keys, width, accumulation, shifted=softmax is Softmax.PLAIN)
            case Softmax.ONLINE:
                _online_row(parents, i, grouped[i], width)
            case _:
                assert_never(softmax)
    outputs = [f"O[{i},{c}]" for i in range(head.rows) for c in range(width)]
    return ComputationGraph.from_parents(parents, name="attention", outputs=outputs)


def one_key_runs(head: Head) -> Runs:
    """Every required key in a run of its own."""
    return [[[j] for j in head.needed_keys(row)] for row in range(head.rows)]


def _whole_row(
    parents: Parents, i: int, keys: list[int], width: int, accumulation: Accumulation, *, shifted: bool
) -> None:
    """The row's maximum first if shifted, then its probabilities, their sum and the outputs."""
    largest = f"S[{i},{keys[0]}]" if len(keys) == 1 else f"max[{i}]"
    if shifted and len(keys) > 1:
        _gather(parents, largest, i, "S", keys, accumulation)
    for j in keys:
        score = f"S[{i},{j}]"
        parents[f"P[{i},{j}]"] = (score, largest) if shifted and largest != score else (score,)
    total = f"P[{i},{keys[0]}]" if len(keys) == 1 else f"sum[{i}]"
    if len(keys) > 1:
        _gather(parents, total, i, "P", keys, accumulation)
    for c in range(width):
        terms = [(f"P[{i},{j}]", f"V[{j},{c}]") for j in keys]
        if accumulation is Accumulation.CHAIN:
            before: tuple[str, ...] = ()
            for j, factors in zip(keys, terms, strict=True):
                parents[f"O[{i},{c};{j}]"] = (*before, *factors)
                before = (f"O[{i},{c};{j}]",)
        else:
            accumulate(parents, f"PV[{i},{c}]", terms, accumulation)
            before = (f"PV[{i},{c}]",)
        parents[f"O[{i},{c}]"] = (*before, total)


def _gather(parents: Parents, total: str, i: int, matrix: str, keys: list[int], how: Accumulation) -> None:
    """Maximum or sum of several entries of a row; a chain's stages are named after the last key taken in."""
    entries = [f"{matrix}[{i},{j}]" for j in keys]
    if how is not Accumulation.CHAIN:
        accumulate(parents, total, [(entry,) for entry in entries], how)
        return
    before = entries[0]
    for j, entry in zip(keys[1:], entries[1:], strict=True):
        name = total if j == keys[-1] else stage(total, str(j))
        parents[name] = (before, entry)
        before = name


def _online_row(parents: Parents, i: int, runs: Sequence[Sequence[int]], width: int) -> None:
    """Maximum, sum and outputs so far, run of keys by run of keys."""
    largest = total = ""
    outputs = [""] * width
    for run in runs:
        before = largest
        for j in run:
            score = f"S[{i},{j}]"
            if largest:
                parents[f"max[{i};{j}]"] = (largest, score)
            largest = f"max[{i};{j}]" if largest else score
        rescale: tuple[str, ...] = ()
        if before:
            rescale = (f"rescale[{i};{run[0]}]",)
            parents[rescale[0]] = (before, largest)
        for j in run:
            score, probability = f"S[{i},{j}]", f"P[{i},{j}]"
            parents[probability] = (score,) if largest == score else (score, largest)
        for position, j in enumerate(run):
            scaled = rescale if position == 0 else ()
            if total:
                parents[f"sum[{i};{j}]"] = (total, *scaled, f"P[{i},{j}]")
            total = f"sum[{i};{j}]" if total else f"P[{i},{j}]"
            for c in range(width):
                name = f"O[{i},{c};{j}]"
                kept = (outputs[c], *scaled) if outputs[c] else ()
                parents[name] = (*kept, f"P[{i},{j}]", f"V[{j},{c}]")
                outputs[c] = name
    for c in range(width):
        parents[f"O[{i},{c}]"] = (outputs[c], total)
