"""A lower bound that was computed from a graph, with the witness that lets anybody check it."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf

import numpy as np
from numpy.typing import NDArray

from attenio.pebbling.game import Game, Variant

Numbers = NDArray[np.int64]


class Theorem(Enum):
    """The theorems of the page on graph bounds."""

    COMPULSORY = "compulsory"
    PARTITION = "partition"  # exact least number of parts, tiny graphs
    COUNTING = "dominator counting"  # few vertices lie behind a small dominator, by counting flows
    PAIRS = "input pairs"  # few products can be made from few inputs and few accumulators
    WAVEFRONT = "wavefront"  # what is alive at a moment, by flows
    SPECTRAL = "spectral"  # every cut of the order into segments cuts many values


@dataclass(frozen=True, kw_only=True)
class PartitionWitness:
    """Words of traffic (or of loads only) in an epoch, and the fewest epochs; checked by another search."""

    epoch_words: int
    epochs: int
    loads_only: bool


@dataclass(frozen=True, kw_only=True)
class CountingWitness:
    """Words loaded in an epoch; more vertices than ``first`` or ``later`` do not fit in the first or a later one."""

    epoch_words: int
    first: int
    later: int


@dataclass(frozen=True, kw_only=True, eq=False)
class PairWitness:
    """Two inputs of each vertex counted and the vertex counted that follows it, and the words of an epoch.

    Columns: vertex, input, input, follower or -1. ``loads_only`` says whether an epoch counts loads, or loads and
    accumulators that are begun.
    """

    pairs: Numbers
    epoch_words: int
    loads_only: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class FlowWitness:
    """A flow from what is done to what is not when ``vertex`` is computed: columns tail, head, amount.

    ``dearest`` is the most words that one word of capacity can carry: 1 or 2.
    """

    vertex: int
    dearest: int
    arcs: Numbers


@dataclass(frozen=True, kw_only=True)
class WavefrontWitness:
    """Flows at several moments which together use no value beyond its capacity."""

    moments: tuple[FlowWitness, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class SpectralWitness:
    """Block of each step (-1: none), number of segments, and lower estimates of the smallest eigenvalues."""

    blocks: Numbers
    segments: int
    smallest: NDArray[np.float64]


Witness = PartitionWitness | CountingWitness | PairWitness | WavefrontWitness | SpectralWitness | None


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphBound:
    """The game it was computed for moves at least so many words; its theorem has a form for each of ``variants``.

    One that is not ``finished`` met its deadline: it holds, and more time might find more.
    """

    theorem: Theorem
    words: int
    variants: frozenset[Variant]
    citation: str
    witness: Witness
    seconds: float
    finished: bool = True


class OutOfTime(Exception):
    """A check that its deadline ended: the bound is neither proven nor refuted."""


def best_bound(
    theorem: Theorem,
    citation: str,
    offers: Iterable[tuple[int, Witness]],
    nothing: tuple[int, Witness],
    deadline: float,
    *,
    variants: frozenset[Variant] = frozenset(Variant),
) -> GraphBound:
    """The words and witness of most words that come before the deadline or Ctrl-C; ``nothing`` where none do."""
    began = time.monotonic()
    (words, witness), finished = nothing, True
    try:
        for offered_words, offered in offers:
            if offered_words > words:
                words, witness = offered_words, offered
            if time.monotonic() >= deadline:
                finished = False
                break
    except (KeyboardInterrupt, OutOfTime):
        finished = False
    return GraphBound(
        theorem=theorem,
        words=words,
        variants=variants,
        citation=citation,
        witness=witness,
        seconds=time.monotonic() - began,
        finished=finished,
    )


def compulsory_bound(game: Game) -> GraphBound:
    """Every input that computed values need is loaded once, every computed output is stored once.

    Theorem: docs/theory/graph_bounds.md. Holds for every variant.
    """
    return best_bound(Theorem.COMPULSORY, "Hong and Kung 1981", (), (game.graph.compulsory_words, None), inf)
