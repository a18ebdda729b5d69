"""What every dataflow must obey, and small random problems to check it on.

Counts are taken here from the matrix of required scores, element by element, and the closed forms stand in the test of
each dataflow: neither shares code with the planner or with the loop nests.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from attenio.dataflows import execute, random_inputs
from attenio.dataflows.inputs import Inputs
from attenio.elements import ElementType
from attenio.errors import MemoryOverflow
from attenio.masks import BlockSparse, Causal, Dense, Documents, SharedPrefix, SlidingWindow
from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
from attenio.reference import attention, parts
from attenio.workload import Workload

QUICK = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

EPSILON = {ElementType.FP32: 2.0**-23, ElementType.FP16: 2.0**-10, ElementType.BF16: 2.0**-7, ElementType.FP8: 2.0**-3}


@st.composite
def masks(draw, queries, keys):
    kind = draw(st.sampled_from(["dense", "causal", "window", "documents", "prefix", "blocks"]))
    if kind == "causal":
        return Causal()
    if kind == "window":
        return SlidingWindow(width=draw(st.integers(1, keys)), causal=draw(st.booleans()))
    if kind == "documents" and min(queries, keys) > 1:
        count = draw(st.integers(1, min(3, queries, keys)))
        lengths = [
            tuple(b - a for a, b in pairwise([0, *sorted(draw(_cuts(total, count))), total]))
            for total in (queries, keys)
        ]
        return Documents(lengths=lengths[0], key_lengths=lengths[1], causal=draw(st.booleans()))
    if kind == "prefix" and keys > 1:
        length = draw(st.integers(1, keys - 1))
        return SharedPrefix(length=length, causal=queries <= keys - length and draw(st.booleans()))
    if kind == "blocks":
        height, width = draw(st.integers(1, 4)), draw(st.integers(1, 4))
        shape = -(-queries // height), -(-keys // width)
        cells = draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
        layout = np.array(cells).reshape(shape)
        return BlockSparse.from_array(layout, query_block=height, key_block=width)
    return Dense()


def _cuts(total, count):
    return st.lists(st.integers(1, total - 1), min_size=count - 1, max_size=count - 1, unique=True)


@st.composite
def workloads(draw):
    queries, keys = draw(st.integers(1, 11)), draw(st.integers(1, 11))
    kv_heads = draw(st.sampled_from([1, 1, 2]))
    dtype = draw(st.sampled_from(list(ElementType)))
    wider = [kind for kind in ElementType if kind.bytes >= dtype.bytes]
    return Workload(
        queries=queries,
        keys=keys,
        d=draw(st.integers(1, 5)),
        value_dim=draw(st.integers(1, 5)),
        heads=kv_heads * draw(st.sampled_from([1, 1, 2, 3])),
        kv_heads=kv_heads,
        batch=draw(st.integers(1, 2)),
        mask=draw(masks(queries, keys)),
        dtype=dtype,
        accumulator=draw(st.sampled_from([None, None, ElementType.FP32, *wider])),
    )


def sizes(draw, **limits):
    """Random tile sizes, some larger than what they cut; a limit may be a (least, most) pair."""
    bounds = {name: limit if isinstance(limit, tuple) else (1, limit) for name, limit in limits.items()}
    return Tiles.of(**{name: draw(st.integers(least, most)) for name, (least, most) in bounds.items()})


@dataclass(frozen=True)
class Counts:
    """A problem's sizes and the counts that closed forms are made of, from its matrix of required scores."""

    required: np.ndarray
    dk: int
    dv: int
    w: int
    g: int

    @property
    def n(self):
        return self.required.shape[0]

    @property
    def m(self):
        return self.required.shape[1]

    @property
    def scores(self):
        return int(self.required.sum())

    @property
    def touched_rows(self):
        return int(self.required.any(axis=1).sum())

    @property
    def touched_keys(self):
        return int(self.required.any(axis=0).sum())

    def tiles(self, a):
        """(rows, keys needed) of every tile of a rows."""
        cut = [self.required[start : start + a] for start in range(0, self.n, a)]
        return [(len(tile), int(tile.any(axis=0).sum())) for tile in cut]

    def key_loads(self, a):
        return sum(keys for _, keys in self.tiles(a))

    def tile_rows(self, a, b):
        return sum(rows * -(-keys // b) for rows, keys in self.tiles(a))

    def live_rows(self, a):
        return sum(rows for rows, keys in self.tiles(a) if keys)

    def row_visits(self, b):
        return sum(int(self.required[:, start : start + b].any(axis=1).sum()) for start in range(0, self.m, b))

    def scores_beyond(self, r):
        return int(np.maximum(self.required.sum(axis=1) - r, 0).sum())


def counted(workload, *, stacked=False, by_group=False):
    """The problems that a dataflow runs, with how often each occurs."""
    patterns = workload.stacked_patterns if stacked else workload.separate_patterns
    together = stacked or by_group
    times = workload.kv_heads if together else workload.heads
    if not stacked:
        times *= workload.batch
    group = workload.group if together else 1
    return [
        (
            Counts(
                required=pattern.required(0, pattern.rows, np.arange(pattern.keys)),
                dk=workload.d,
                dv=workload.value_dim,
                w=workload.accumulator_words,
                g=group,
            ),
            count * times,
        )
        for pattern, count in patterns
    ]


def total(problems, closed_form, tiles) -> tuple[int, int]:
    """Words moved over all problems, and the largest peak of one."""
    forms = [(closed_form(problem, tiles), times) for problem, times in problems]
    return sum(moved * times for (moved, _), times in forms), max(peak for (_, peak), _ in forms)


def some_tiles(draw, workload, dataflow: Dataflow) -> Tiles:
    """Random tiles with the names that a dataflow asks for."""
    rows, keys, width = workload.queries, workload.keys, workload.value_dim
    limits = {
        "query_tile": rows,
        "key_tile": keys,
        "score_rows": rows,
        "score_keys": keys,
        "resident_keys": (0, keys),
        "output_rows": rows,
        "output_columns": width,
        "depth_tile": 3,
        "head_tile": workload.group,
        "keys_per_split": keys,
    }
    return sizes(draw, **{name: limits[name] for name in SMALL_TILES[dataflow]})


SMALL_TILES = {
    Dataflow.STANDARD: Tiles.of(score_rows=3, score_keys=2, resident_keys=3, output_rows=2, output_columns=3),
    Dataflow.FLAT: Tiles.of(query_tile=2),
    Dataflow.FLASH_ATTENTION_1: Tiles.of(query_tile=2, key_tile=3),
    Dataflow.FLASH_ATTENTION_2: Tiles.of(query_tile=3, key_tile=2),
    Dataflow.ATTENIO: Tiles.of(query_tile=3, key_tile=1),
    Dataflow.SQUARE_TILING: Tiles.of(query_tile=3, key_tile=2, depth_tile=2),
    Dataflow.RANK_ONE_TILING: Tiles.of(score_rows=3, score_keys=2, output_rows=2, output_columns=2),
    Dataflow.SCORE_STATIONARY: Tiles.of(query_tile=3, key_tile=2),
    Dataflow.SPLIT_KEYS: Tiles.of(query_tile=2, head_tile=2, keys_per_split=3, key_tile=2),
    Dataflow.STACKED_GROUPS: Tiles.of(query_tile=2, head_tile=2, key_tile=2),
}


def planned(workload, dataflow: Dataflow, tiles: Tiles, fast_words: int) -> Plan:
    return Plan(
        workload=workload,
        fast_words=fast_words,
        dataflow=dataflow,
        tiles=tiles,
        rule=TileRule.GIVEN,
        moved_words=0,
        peak_words=0,
    )


def obeys_its_closed_form(workload, dataflow, tiles, problems, closed_form: Callable) -> None:
    """Words and peak are exact; a memory of just the peak is enough, and one word less is not; the output is right."""
    moved, peak = total(problems, closed_form, tiles)
    run = execute(planned(workload, dataflow, tiles, peak))
    assert (run.moved_words, run.peak_words) == (moved, peak)
    assert run.max_abs_error <= tolerance(workload, random_inputs(workload))
    if peak > 1:
        with pytest.raises(MemoryOverflow):
            execute(planned(workload, dataflow, tiles, peak - 1))


def tolerance(workload, inputs: Inputs) -> float:
    """Twice the error of an untiled run in the same precision, and a few units in the last place for other orders.

    Another order of adding may change a score by a rounding of the largest score each time something is added, and so
    each weight by that factor; a narrow accumulator is rounded again with every key.
    """
    exact = attention(*inputs, workload)
    untiled, largest_score = _untiled(workload, inputs)
    accumulator = workload.accumulator or ElementType.FP32
    steps = workload.keys + workload.d
    roundings = steps * EPSILON[accumulator] * (1 + largest_score) * np.abs(inputs.v).max()
    return 2 * np.abs(untiled - exact).max() + 2 * EPSILON[workload.dtype] * np.abs(exact).max() + 2 * roundings


def _untiled(workload, inputs: Inputs) -> tuple[np.ndarray, float]:
    """Attention by its definition with the whole matrix at once, in the precision of a run."""
    accumulator = workload.accumulator or ElementType.FP32
    repeat = [np.repeat(x, workload.group, axis=1) for x in (inputs.k, inputs.v)]
    scores = inputs.q @ np.swapaxes(repeat[0], -1, -2) * np.float32(workload.softmax_scale)
    required = required_matrix(workload)
    scores = np.where(required, accumulator.rounded(scores), -np.inf).astype(np.float32)
    largest = np.maximum(scores.max(axis=-1, keepdims=True), np.finfo(np.float32).min)
    weights = accumulator.rounded(np.exp(scores - largest))
    sums = accumulator.rounded(weights.sum(axis=-1, keepdims=True))
    outputs = accumulator.rounded(weights @ repeat[1]) / np.where(sums == 0, 1, sums)
    finite = np.abs(scores[np.isfinite(scores)])
    return workload.dtype.rounded(outputs), float(finite.max(initial=0))


def required_matrix(workload) -> np.ndarray:
    """Required scores of one sequence, documents in their places."""
    required = np.zeros((workload.queries, workload.keys), dtype=bool)
    for part in parts(workload):
        pattern = part.pattern
        required[part.rows, part.keys] = pattern.required(0, pattern.rows, np.arange(pattern.keys))
    return required
