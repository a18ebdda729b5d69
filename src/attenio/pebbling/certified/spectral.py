"""Spectral bound: however the steps are ordered, cutting the order into segments cuts many values.

Theorem: docs/theory/graph_bounds.md. After [Jain and Zaharia 2020], with a clique in the place of every value and the
inputs' and outputs' compulsory words counted apart, and a form for the partial game.

>>> import time
>>> from attenio.pebbling.graphs.product import product
>>> game = Game(graph=product(4, 4, 4), red=4, variant=Variant.ONE_SHOT)
>>> game.graph.compulsory_words, spectral_bound(game, deadline=time.monotonic() + 60).words
(48, 56)
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from math import inf

import numpy as np
from numpy.typing import NDArray

from attenio.errors import MissingExtra
from attenio.pebbling.certified.bound import GraphBound, Numbers, SpectralWitness, Theorem, best_bound
from attenio.pebbling.certified.steps import Steps
from attenio.pebbling.certified.wavefront import depths
from attenio.pebbling.game import Game, Variant

VARIANTS = frozenset({Variant.ONE_SHOT, Variant.PARTIAL})
CITATION = "Jain and Zaharia 2020"

# Blocks up to this size are diagonalised whole: a second or two and 18 MB.
_LARGEST_BLOCK = 1_500
# A block of this size is timed first: how long others take goes with the cube of their size.
_TIMED_BLOCK = 192
# What a block takes may be misjudged by as much.
_CAUTION = 2.0
# Checking a block, with its eigenvectors and their residuals, against finding its eigenvalues.
CHECK_TIMES = 8.0
# Subtracted from every eigenvalue, relative to the largest: thousands of times the rounding error of a block that size.
MARGIN = 1e-9


def spectral_bound(game: Game, *, deadline: float, check_seconds: float = inf) -> GraphBound:
    """The best bound over all numbers of segments and a few ways to cut the graph in blocks, before the deadline.

    Blocks that would not be done by the deadline, or not be checked in ``check_seconds``, are left out.
    """
    steps = Steps.of(game)
    compulsory, diagonal = game.graph.compulsory_words, _Diagonalised(deadline, check_seconds)

    def offers() -> Iterator[tuple[int, SpectralWitness]]:
        for blocks in _cuts(game, steps):
            values = _spectrum(game, steps, blocks, diagonal)
            words, segments = _best_segments(steps.count, values, game.red)
            witness = SpectralWitness(blocks=diagonal.done(blocks), segments=segments, smallest=values[:segments])
            yield compulsory + words, witness

    nothing = SpectralWitness(blocks=np.full(steps.count, -1, dtype=np.int64), segments=1, smallest=np.zeros(1))
    bound = best_bound(Theorem.SPECTRAL, CITATION, offers(), (compulsory, nothing), deadline, variants=VARIANTS)
    return replace(bound, finished=bound.finished and not diagonal.left_out)


def segment_words(count: int, segments: int, smallest: NDArray[np.float64], red: int) -> int:
    """Words beyond the compulsory ones, by the smallest eigenvalues, when the steps are cut into equal segments."""
    size, longer = divmod(count, segments)
    words = size * float(smallest[:segments].sum()) + float(smallest[:longer].sum()) - 2.0 * (segments - 1) * red
    return max(0, int(np.ceil(words * (1 - 1e-12) - 1e-6)))


def _best_segments(count: int, values: NDArray[np.float64], red: int) -> tuple[int, int]:
    if not count:
        return 0, 1
    sums = np.concatenate([[0.0], np.cumsum(values)])
    segments = np.arange(1, count + 1, dtype=np.int64)
    size, longer = count // segments, count % segments
    words = size * sums[segments] + sums[longer] - 2.0 * (segments - 1) * red
    best = int(segments[words.argmax()])
    return segment_words(count, best, values, red), best


def _cuts(game: Game, steps: Steps) -> list[Numbers]:
    """Ways to cut the steps in blocks small enough to diagonalise: none if possible, else runs, and bands of depth.

    Small blocks come first: they tell how long large ones take.
    """
    if steps.count <= _LARGEST_BLOCK:
        return [np.zeros(steps.count, dtype=np.int64)]
    depth = depths(game)[steps.target]
    cuts = []
    height = int(depth.max())
    while height > 2:
        height = (height + 1) // 2
        band = (depth - 1) // height
        for blocks in (band, _pieces(game, steps, band)):
            if np.bincount(blocks).max() <= _LARGEST_BLOCK:
                cuts.append(blocks)
    runs = [np.arange(steps.count, dtype=np.int64) // size for size in (_LARGEST_BLOCK, _LARGEST_BLOCK // 4)]
    return sorted([*cuts, *runs], key=lambda blocks: int(np.bincount(blocks).max()))


def _pieces(game: Game, steps: Steps, band: Numbers) -> Numbers:
    """Connected pieces of each band, where only computed values connect."""
    try:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components
    except ImportError as error:
        raise MissingExtra("a spectral bound", "pebble") from error
    graph = game.graph
    values = np.repeat(np.arange(len(graph), dtype=np.int64), np.diff(steps.starts))
    computed = (np.diff(graph.parent_starts) > 0)[values]
    copies = (values + len(graph) * band[steps.numbers])[computed]
    names, copy = np.unique(copies, return_inverse=True)
    size = steps.count + len(names)
    links = coo_array((np.ones(len(copy)), (steps.numbers[computed], steps.count + copy)), shape=(size, size))
    label = connected_components(links, directed=False)[1][: steps.count]
    numbered: Numbers = np.unique(label, return_inverse=True)[1].astype(np.int64)
    return numbered


class _Diagonalised:
    """Eigenvalues of the blocks met so far, and whether there is time for one more."""

    def __init__(self, deadline: float, check_seconds: float) -> None:
        self.known: dict[bytes, NDArray[np.float64]] = {}
        self.deadline, self.check_seconds = deadline, check_seconds
        self.left_out = False
        self.skipped: set[int] = set()
        self.checked: dict[bytes, float] = {}
        self.seconds_per_cube = seconds_per_cube()

    def begin_cut(self) -> None:
        """Blocks have numbers of their own in every cut."""
        self.skipped, self.checked = set(), {}

    def of(self, number: int, laplacian: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Lower estimates of a block's eigenvalues; None if there is no time for them or for checking them."""
        began = time.monotonic()
        cube = float(len(laplacian)) ** 3
        seconds = _CAUTION * self.seconds_per_cube * cube
        key = sha256(laplacian.tobytes()).digest()
        check = {**self.checked, key: CHECK_TIMES * seconds}
        if (key not in self.known and began + seconds > self.deadline) or sum(check.values()) > self.check_seconds:
            self.leave_out([number])
            return None
        self.checked = check
        if key not in self.known:
            self.known[key] = _lowered(np.asarray(np.linalg.eigvalsh(laplacian), dtype=np.float64))
            self.seconds_per_cube = max(self.seconds_per_cube, (time.monotonic() - began) / max(cube, 1e7))
        return self.known[key]

    def leave_out(self, numbers: Iterable[int]) -> None:
        """These blocks have no eigenvalues in this cut."""
        self.left_out = True
        self.skipped.update(numbers)

    def done(self, blocks: Numbers) -> Numbers:
        """The blocks with eigenvalues; steps of the others are in none."""
        return np.where(np.isin(blocks, list(self.skipped)), -1, blocks)


def seconds_per_cube() -> float:
    """What the eigenvalues of a block take on this computer, for the cube of its size; a few milliseconds' trial."""
    trial = np.add.outer(np.arange(_TIMED_BLOCK, dtype=np.int64), np.arange(_TIMED_BLOCK, dtype=np.int64)) % 7 + np.eye(
        _TIMED_BLOCK
    )
    np.linalg.eigvalsh(trial)  # the first call also starts the library's threads
    began = time.monotonic()
    np.linalg.eigvalsh(trial)
    return (time.monotonic() - began) / _TIMED_BLOCK**3


def _spectrum(game: Game, steps: Steps, blocks: Numbers, diagonal: _Diagonalised) -> NDArray[np.float64]:
    """Lower estimates of all eigenvalues in increasing order; blocks left out count as zero."""
    eigenvalues = []
    total = int(blocks.max()) + 1
    diagonal.begin_cut()
    for number, laplacian in enumerate(block_laplacians(game, steps, blocks)):
        if time.monotonic() >= diagonal.deadline:
            diagonal.leave_out(range(number, total))
            break
        of_block = diagonal.of(number, laplacian)
        if of_block is not None:
            eigenvalues.append(of_block)
    values = np.concatenate([*eigenvalues, np.zeros(0)])
    return np.sort(np.concatenate([values, np.zeros(steps.count - len(values))]))


def _lowered(values: NDArray[np.float64]) -> NDArray[np.float64]:
    lowered: NDArray[np.float64] = np.maximum(0.0, values - MARGIN * max(1.0, float(values.max())))
    return lowered


def block_laplacians(game: Game, steps: Steps, blocks: Numbers) -> Iterator[NDArray[np.float64]]:
    """The Laplacian of every block in turn.

    Every value is a clique of the steps that touch it, weighted so that cutting them into s segments cuts, summed over
    the segments, at most what the value costs then: s words for a price of 2, s - 1 for a price of 1. Where a value's
    steps lie in several blocks, only those in the block that has most of them count.
    """
    values = np.repeat(np.arange(len(game.graph), dtype=np.int64), np.diff(steps.starts))
    pins = steps.numbers
    home = blocks[pins]
    order = np.lexsort((pins, home, values))
    values, pins, home = values[order], pins[order], home[order]
    if not len(pins):
        return
    change = np.flatnonzero((np.diff(values) != 0) | (np.diff(home) != 0)) + 1
    begins = np.concatenate([[0], change])
    sizes = np.diff(np.concatenate([begins, [len(pins)]]))
    group_value, group_home = values[begins], home[begins]
    # of each value's groups keep the largest, if it has a pair
    rank = np.lexsort((-sizes, group_value))
    first = np.concatenate([[True], np.diff(group_value[rank]) != 0])
    kept = np.sort(rank[first])
    kept = kept[(sizes[kept] > 1) & (group_home[kept] >= 0)]
    by_block = kept[np.argsort(group_home[kept], kind="stable")]
    bounds = np.searchsorted(group_home[by_block], np.arange(int(blocks.max()) + 2, dtype=np.int64))
    members = np.argsort(blocks, kind="stable")
    starts = np.searchsorted(blocks[members], np.arange(int(blocks.max()) + 2, dtype=np.int64))
    local = np.zeros(steps.count, dtype=np.int64)
    weights = game.graph.weights
    for block in range(int(blocks.max()) + 1):
        inside = members[starts[block] : starts[block + 1]]
        local[inside] = np.arange(len(inside), dtype=np.int64)
        laplacian = np.zeros((len(inside), len(inside)))
        for group in by_block[bounds[block] : bounds[block + 1]].tolist():
            size = int(sizes[group])
            where = local[pins[begins[group] : begins[group] + size]]
            value = group_value[group]
            each = int(steps.price[value]) * int(weights[value]) / (2.0 * (size * size // 4))
            laplacian[np.ix_(where, where)] -= each
            laplacian[where, where] += each * size
        yield laplacian
