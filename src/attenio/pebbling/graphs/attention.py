"""Attention forward as a graph: scores, softmax in one of five forms, outputs.

Vertices are named as in formulas: ``Q[i,t]``, ``K[j,t]``, ``V[j,c]``, ``S[i,j]``, ``max[i]``, ``P[i,j]``, ``sum[i]``,
``O[i,c]``. Something after a semicolon is a stage on the way: ``S[i,j;t]`` after t products, ``O[i,c;j]`` after key j,
``O[i,c;scaled j]`` once the maximum knows that key. ``P[i,j;settled]`` is a probability by the row's own maximum.
The maximum or the sum of a single score is that score; it has no vertex of its own. ``statistics[i]`` is a row's
maximum and sum together, a vertex of twice the weight: they are updated together, in place.

>>> graph = attention(Head(rows=2, keys=2, d=1))
>>> graph.names[-1], [graph.names[u] for u in graph.parents[graph.number("O[0,0;1]")]]
('O[1,0]', ['O[0,0;0]', 'rescale[0;1]', 'P[0,1]', 'V[1,0]'])
>>> len(attention(Head(rows=2, keys=2, d=1), softmax=Softmax.UNSHIFTED))
22
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Accumulation, Parents, accumulate, stage
from attenio.quantities import checked_count

# For every row, the runs of keys that are taken in together by an online softmax.
Runs = Sequence[Sequence[Sequence[int]]]
# For every row, a list of numbers.
PerRow = Sequence[Sequence[int]]


class Softmax(Enum):
    """What a probability waits for."""

    UNSHIFTED = "unshifted"  # exp(S): nothing but its score; the fewest dependencies softmax can have
    PLAIN = "plain"  # exp(S - max) with the maximum of the whole row
    NORMALISED = "normalised"  # exp(S - max) / sum with both of the whole row: outputs need no division
    ONLINE = "online"  # exp(S - max so far), and what was summed before is rescaled
    SCALED = "scaled"  # the same, with outputs that are rescaled before a value is there


@dataclass(frozen=True, kw_only=True, eq=False)
class Head:
    """One head: how many query rows and keys, how wide, and which scores a mask requires (all by default).

    Inputs and outputs are one word each; what is computed between them takes ``accumulator_words``.
    """

    rows: int
    keys: int
    d: int
    value_dim: int = 0
    required: NDArray[np.bool_] = field(default_factory=lambda: np.ones((0, 0), dtype=np.bool_))
    accumulator_words: int = 1

    def __post_init__(self) -> None:
        if self.value_dim == 0:
            object.__setattr__(self, "value_dim", self.d)
        for name in ("rows", "keys", "d", "value_dim", "accumulator_words"):
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


def attention(  # noqa: PLR0913 - a form, and what a run decides of each row
    head: Head,
    *,
    softmax: Softmax = Softmax.ONLINE,
    accumulation: Accumulation = Accumulation.CHAIN,
    runs: Runs | None = None,
    splits: PerRow | None = None,
    idle: PerRow | None = None,
    settled: int | None = None,
) -> ComputationGraph:
    """The graph of one head.

    ``runs`` groups the keys of each row for the online form, one key each by default. ``splits`` says how many of its
    runs each split of a row takes: splits are worked on independently and joined, ``O[i,c;split s]`` after split s.
    ``idle`` are keys of each row that the mask hides and that are worked on all the same, each by itself: nothing needs
    what comes of them, but a run may move it. From the ``settled`` column on, of the scaled form, outputs are made with
    the maxima and sums that the columns before have found.
    """
    if softmax not in (Softmax.UNSHIFTED, Softmax.PLAIN) and accumulation is not Accumulation.CHAIN:
        together = softmax is Softmax.NORMALISED
        kept = "updates maximum and sum together" if together else "rescales what it has summed"
        raise InvalidInput(f"the {softmax.value} softmax {kept}, key by key; use accumulation 'chain'")
    parents: Parents = {}
    d, width = head.d, head.value_dim
    for matrix, height, columns in (("Q", head.rows, d), ("K", head.keys, d), ("V", head.keys, width)):
        parents.update({f"{matrix}[{i},{t}]": () for i in range(height) for t in range(columns)})
    one_key_runs = [[[j] for j in head.needed_keys(row)] for row in range(head.rows)]
    grouped = one_key_runs if runs is None else _checked_runs(head, runs)
    for i in range(head.rows):
        keys, hidden = head.needed_keys(i), [] if idle is None else _checked_idle(head, i, idle[i])
        for j in (*keys, *hidden):
            accumulate(parents, f"S[{i},{j}]", [(f"Q[{i},{t}]", f"K[{j},{t}]") for t in range(d)], accumulation)
        match softmax:
            case Softmax.UNSHIFTED | Softmax.PLAIN:
                _whole_row(parents, i, keys, width, accumulation, shifted=softmax is Softmax.PLAIN)
            case Softmax.NORMALISED:
                _normalised_row(parents, i, keys, width)
            case Softmax.ONLINE:
                _online_row(parents, i, _cut(i, grouped[i], None if splits is None else splits[i]), width)
            case Softmax.SCALED:
                _scaled_row(parents, i, grouped[i], width if settled is None else min(settled, width))
                if settled is not None:
                    _settled_columns(parents, i, keys, range(settled, width))
            case _:
                assert_never(softmax)
        for j in hidden:
            parents[f"P[{i},{j}]"] = (f"S[{i},{j}]",)
            parents.update({f"O[{i},{c};{j}]": (f"P[{i},{j}]", f"V[{j},{c}]") for c in range(width)})
    outputs = [f"O[{i},{c}]" for i in range(head.rows) for c in range(width)]
    weights = weights_of(parents, outputs, head.accumulator_words)
    return ComputationGraph.from_parents(parents, name="attention", outputs=outputs, weights=weights)


def weights_of(parents: Parents, outputs: Sequence[str], words: int) -> dict[str, int]:
    """The words of what takes more than one: what is computed between inputs and outputs, if accumulators are wide."""
    if words == 1:
        return {name: 2 for name in parents if name.startswith("statistics")}
    ends = set(outputs)
    between = [name for name, needs in parents.items() if needs and name not in ends]
    return {name: 2 * words if name.startswith("statistics") else words for name in between}


def _checked_runs(head: Head, runs: Runs) -> Runs:
    if len(runs) != head.rows:
        raise InvalidInput(f"runs are given for {len(runs)} rows; the head has {head.rows}")
    for i, row in enumerate(runs):
        if not all(row) or sorted(chain.from_iterable(row)) != head.needed_keys(i):
            raise InvalidInput(f"the runs of row {i} are {row}; put each of its keys {head.needed_keys(i)} in one run")
    return runs


def _checked_idle(head: Head, row: int, keys: Sequence[int]) -> list[int]:
    for key in keys:
        if not 0 <= key < head.keys or head.required[row, key]:
            raise InvalidInput(f"key {key} cannot be idle in row {row}; name a key that the mask hides")
    return list(keys)


def _cut(row: int, runs: Sequence[Sequence[int]], counts: Sequence[int] | None) -> list[Sequence[Sequence[int]]]:
    """The runs of a row, split by split; one split by default."""
    if counts is None:
        return [runs]
    if sum(counts) != len(runs) or min(counts) < 1:
        raise InvalidInput(f"the splits of row {row} take {list(counts)} runs; its {len(runs)} runs are to be divided")
    ends = np.cumsum(counts).tolist()
    return [runs[end - count : end] for end, count in zip(ends, counts, strict=True)]


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


def _normalised_row(parents: Parents, i: int, keys: list[int], width: int) -> None:
    """Maximum and sum of the row together, key by key; then probabilities, and outputs that are final when summed."""
    last = keys[-1]
    before: tuple[str, ...] = ()
    for j in keys:
        name = f"statistics[{i}]" if j == last else f"statistics[{i};{j}]"
        parents[name] = (*before, f"S[{i},{j}]")
        before = (name,)
    for j in keys:
        parents[f"P[{i},{j}]"] = (f"S[{i},{j}]", *before)
    for c in range(width):
        summed: tuple[str, ...] = ()
        for j in keys:
            name = f"O[{i},{c}]" if j == last else f"O[{i},{c};{j}]"
            parents[name] = (*summed, f"P[{i},{j}]", f"V[{j},{c}]")
            summed = (name,)


class _Partial(NamedTuple):
    """What an online softmax has at the end of a split: the names of its maximum, its sum and its outputs."""

    largest: str
    total: str
    outputs: tuple[str, ...]


def _online_row(parents: Parents, i: int, splits: Sequence[Sequence[Sequence[int]]], width: int) -> None:
    """Every split by itself, then joined one after the other, then divided by the sum."""
    partials = [_online_split(parents, i, runs, width) for runs in splits]
    whole = partials[0]
    for number, partial in enumerate(partials[1:], 1):
        whole = _joined(parents, i, number, (whole, partial), last=number == len(partials) - 1)
    for c in range(width):
        parents[f"O[{i},{c}]"] = (whole.outputs[c], whole.total)


def _joined(parents: Parents, i: int, number: int, two: tuple[_Partial, _Partial], *, last: bool) -> _Partial:
    """One split added to those before it.

    The gap between the two maxima says which part is scaled down and by how much, exp(-abs(gap)), and with one of them
    it gives the larger: so (gap, larger) can take the place of the two maxima. The last maximum is not asked for.
    """
    whole, partial = two
    gap, largest, total = (f"{what}[{i};split {number}]" for what in ("gap", "max", "sum"))
    parents[gap] = (whole.largest, partial.largest)
    if not last:
        parents[largest] = (gap, partial.largest)
    parents[total] = (whole.total, gap, partial.total)
    outputs = tuple(f"O[{i},{c};split {number}]" for c in range(len(whole.outputs)))
    for name, mine, other in zip(outputs, whole.outputs, partial.outputs, strict=True):
        parents[name] = (mine, gap, other)
    return _Partial(largest, total, outputs)


def _online_split(parents: Parents, i: int, runs: Sequence[Sequence[int]], width: int) -> _Partial:
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
    return _Partial(largest, total, tuple(outputs))


def _scaled_row(parents: Parents, i: int, runs: Sequence[Sequence[int]], width: int) -> None:
    """Key by key, and what was taken in before is scaled at once, probabilities of the run as well as sum and outputs.

    The gap between the maximum and a score takes the place of one of them, as where splits are joined: it says what is
    scaled down, and the probability of the key takes its place in turn.
    """
    largest = total = ""
    outputs = [""] * width
    for run in runs:
        probabilities: list[str] = []
        for j in run:
            score, gap = f"S[{i},{j}]", f"gap[{i};{j}]"
            parents_of_probability = (gap,) if largest else (score,)
            if largest:
                parents[gap] = (largest, score)
                parents[f"max[{i};{j}]"] = (gap, score)
                parents[f"sum[{i};{j}]"] = (total, gap)
                earlier = [f"{each.partition(';')[0].removesuffix(']')};scaled {j}]" for each in probabilities]
                parents.update({new: (old, gap) for new, old in zip(earlier, probabilities, strict=True)})
                probabilities = earlier
                for c in range(width):
                    if outputs[c]:
                        parents[f"O[{i},{c};scaled {j}]"] = (outputs[c], gap)
                        outputs[c] = f"O[{i},{c};scaled {j}]"
            parents[f"P[{i},{j}]"] = parents_of_probability
            largest, total = (f"max[{i};{j}]", f"sum[{i};{j}]") if largest else (score, f"P[{i},{j}]")
            probabilities.append(f"P[{i},{j}]")
        for j, probability in zip(run, probabilities, strict=True):
            for c in range(width):
                parents[f"O[{i},{c};{j}]"] = (*((outputs[c],) if outputs[c] else ()), probability, f"V[{j},{c}]")
                outputs[c] = f"O[{i},{c};{j}]"
    for c in range(width):
        parents[f"O[{i},{c}]"] = (outputs[c], total)


def _settled_columns(parents: Parents, i: int, keys: list[int], columns: range) -> None:
    """Outputs by the maximum and the sum of the whole row, which a row of one key has of that key."""
    last = keys[-1]
    largest, total = (f"max[{i};{last}]", f"sum[{i};{last}]") if len(keys) > 1 else (f"S[{i},{last}]", f"P[{i},{last}]")
    for j in keys if columns else ():
        score = f"S[{i},{j}]"
        parents[f"P[{i},{j};settled]"] = (score,) if largest == score else (score, largest)
    for c in columns:
        before: tuple[str, ...] = ()
        for j in keys:
            parents[f"O[{i},{c};{j}]"] = (*before, f"P[{i},{j};settled]", f"V[{j},{c}]")
            before = (f"O[{i},{c};{j}]",)
        parents[f"O[{i},{c}]"] = (*before, total)
