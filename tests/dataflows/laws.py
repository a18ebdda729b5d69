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

from attenio.dataflows import execute, random_gradient, random_inputs
from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.backward.problem import saved_by_forward
from attenio.dataflows.inputs import Inputs, random_sinks
from attenio.elements import ElementType
from attenio.errors import MemoryOverflow
from attenio.masks import BlockSparse, Causal, Dense, Documents, SharedPrefix, SlidingWindow
from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
from attenio.reference import Gradients, attention, attention_gradients, segments
from attenio.workload import Workload

QUICK = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
# For a law that draws problems for every dataflow by itself.
QUICK_EACH = settings(QUICK, max_examples=14)

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


def counted(workload, *, stacked=False, by_group=False, heads_as_rows=False):
    """The problems that a dataflow runs, with how often each occurs.

    ``heads_as_rows``, where every row needs every key the rows of all heads of a group are those of one head.
    """
    patterns = workload.stacked_patterns if stacked else workload.separate_patterns
    every = [pattern.required(0, pattern.rows, np.arange(pattern.keys)) for pattern, _ in patterns]
    heads_as_rows = heads_as_rows and all(required.all() for required in every)
    together = stacked or by_group or heads_as_rows
    times = workload.kv_heads if together else workload.heads
    if not stacked:
        times *= workload.batch
    group, height = workload.group if together else 1, 1
    if heads_as_rows:
        group, height = 1, group
    return [
        (
            Counts(
                required=np.tile(required, (height, 1)),
                dk=workload.d,
                dv=workload.value_dim,
                w=workload.accumulator_words,
                g=group,
            ),
            count * times,
        )
        for required, (_, count) in zip(every, patterns, strict=True)
    ]


def total(problems, closed_form, tiles) -> tuple[int, int]:
    """Words moved over all problems, and the largest peak of one."""
    forms = [(closed_form(problem, tiles), times) for problem, times in problems]
    return sum(moved * times for (moved, _), times in forms), max(peak for (_, peak), _ in forms)


def is_as_one_by_one(plan) -> None:
    """What is taken in together moves the same words as one by one, and gives the same outputs."""
    together, one_by_one = execute(plan), execute(plan, record=True)
    assert (together.trace.loads, together.trace.stores) == (one_by_one.trace.loads, one_by_one.trace.stores)
    np.testing.assert_allclose(together.output, one_by_one.output, rtol=1e-5, atol=1e-6)


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
        "kept_keys": keys,
        "kept_rows": rows,
        "keys_per_split": keys,
        "stationary_keys": keys,
        "passing_queries": rows,
        "gradient_rows": rows,
        "gradient_keys": keys,
        "value_keys": keys,
        "value_columns": width,
        "key_keys": keys,
        "key_columns": workload.d,
        "query_rows": rows,
        "query_columns": workload.d,
    }
    names = SMALL_TILES[dataflow] if dataflow in SMALL_TILES else GRADIENT_TILES[dataflow]
    return sizes(draw, **{name: limits[name] for name in names})


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
    Dataflow.KEPT_KEYS: Tiles.of(query_tile=3, kept_keys=2, value_columns=2),
    Dataflow.KEPT_ROWS: Tiles.of(key_tile=3, kept_rows=2),
}

_PRODUCTS = {"value_keys": 3, "value_columns": 2, "key_keys": 2, "key_columns": 3, "query_rows": 3, "query_columns": 2}
GRADIENT_TILES = {
    Dataflow.KEY_STATIONARY: Tiles.of(query_tile=2, key_tile=3),
    Dataflow.QUERY_STATIONARY: Tiles.of(query_tile=3, key_tile=2),
    Dataflow.TWO_PASS: Tiles.of(query_tile=2, head_tile=2, key_tile=2, stationary_keys=3, passing_queries=2),
    Dataflow.TILED_PRODUCTS: Tiles.of(score_rows=3, score_keys=2, **_PRODUCTS),
    Dataflow.FUSED_VALUES: Tiles.of(
        score_rows=3, score_keys=2, **{name: size for name, size in _PRODUCTS.items() if "value" not in name}
    ),
    Dataflow.SPILLED_GRADIENTS: Tiles.of(query_tile=2, key_tile=3, query_rows=3, query_columns=2),
    Dataflow.KEPT_ROW_GRADIENTS: Tiles.of(key_tile=3, kept_rows=2),
}
LEAN_TILES = Tiles.of(query_tile=2, key_tile=3, key_keys=2, key_columns=3, query_rows=3, query_columns=2)
READING_TILES = Tiles.of(gradient_rows=3, gradient_keys=2, **_PRODUCTS)
RESIDENT_TILES = Tiles.of(resident_rows=3, score_keys=2, **_PRODUCTS)


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


@st.composite
def grouped_workloads(draw):
    """Small dense problems whose query heads share keys, with wide accumulators or none."""
    group = draw(st.integers(1, 3))
    return Workload(
        queries=draw(st.integers(1, 7)),
        keys=draw(st.integers(1, 7)),
        d=draw(st.integers(1, 4)),
        value_dim=draw(st.integers(1, 4)),
        heads=2 * group,
        kv_heads=2,
        accumulator=draw(st.sampled_from([None, "fp32"])),
    )


def obeys_its_closed_form(workload, dataflow, tiles, problems, closed_form: Callable) -> None:
    """Words and peak are exact; a memory of just the peak is enough, and one word less is not; the result is right."""
    moved, peak = total(problems, closed_form, tiles)
    run = execute(planned(workload, dataflow, tiles, peak))
    assert (run.moved_words, run.peak_words) == (moved, peak)
    is_right(run)
    if peak > 1:
        with pytest.raises(MemoryOverflow):
            execute(planned(workload, dataflow, tiles, peak - 1))


def whole_tiles_read(required, tile: int, per_score: int, per_row: int) -> tuple[int, int]:
    """Keys that tiles of rows read and rows in those that need any, if all scores stay: in the better of two ways.

    Tiles are alike, or where the first row needs one key, or else the last one, the tile there has as many rows as fit.
    """
    needed = required.sum(axis=1)
    room, starts = tile * (int(needed.max()) * per_score + per_row), [required, required[::-1]]
    best = _read(required, tile, tile)
    if required.sum(axis=0).max() > needed.max():
        return best  # a row would need more keys than there are
    for rows in starts[: 1 if needed[0] == 1 else 2]:
        counts = rows.sum(axis=1)
        # where the last rows need few keys as well that is not counted on
        held = np.cumsum(np.minimum(np.arange(1, len(rows) + 1), needed.max()) * per_score + per_row)
        first = int(np.searchsorted(held, room, side="right"))
        grows = all(counts[each] == each + 1 for each in range(int(needed.max())))
        if grows and first > tile and needed.max() <= first < len(rows):
            best = min(best, _read(rows, tile, first), key=lambda each: each[0])
    return best


def _read(required, tile: int, first: int) -> tuple[int, int]:
    cut = [required[:first], *(required[start : start + tile] for start in range(first, len(required), tile))]
    return sum(int(rows.any(axis=0).sum()) for rows in cut), sum(len(rows) for rows in cut if rows.any())


def is_right(run) -> None:
    """The output, or each gradient, is as near to the definition as its precision allows; seed 0."""
    workload = run.plan.workload
    inputs = random_inputs(workload)
    if run.gradients is None:
        assert run.max_abs_error <= tolerance(workload, inputs)
        return
    do = random_gradient(workload)
    exact = attention_gradients(*inputs, do, workload)
    distances = [np.abs(found - right).max() for found, right in zip(run.gradients, exact, strict=True)]
    assert run.max_abs_error == max(distances)
    for distance, allowed in zip(distances, gradient_tolerances(workload, inputs, do), strict=True):
        assert distance <= allowed


def tolerance(workload, inputs: Inputs) -> float:
    """Twice the error of an untiled run in the same precision, and a few units in the last place for other orders.

    Another order of adding may change a score by a rounding of the largest score each time something is added, and so
    each weight by that factor; a narrow accumulator is rounded again with every key.
    """
    exact = attention(*inputs, workload, sinks=random_sinks(workload))
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
    required, sinks, largest_score = required_matrix(workload), random_sinks(workload), float(np.abs(scores).max())
    if workload.softcap is not None:
        scores = np.float32(workload.softcap) * np.tanh(accumulator.rounded(scores) / np.float32(workload.softcap))
    scores = np.where(required, accumulator.rounded(scores), -np.inf).astype(np.float32)
    largest = np.maximum(scores.max(axis=-1, keepdims=True), np.finfo(np.float32).min)
    if sinks is not None:
        largest = np.maximum(largest, sinks[:, None, None])
    weights = accumulator.rounded(np.exp(scores - largest))
    sink_weights = 0 if sinks is None else np.exp(sinks[:, None, None] - largest)
    sums = accumulator.rounded(weights.sum(axis=-1, keepdims=True) + sink_weights)
    outputs = accumulator.rounded(weights @ repeat[1]) / np.where(sums == 0, 1, sums)
    finite = np.abs(scores[np.isfinite(scores)])
    seen = float(finite.max(initial=0)) if workload.softcap is None else largest_score
    return workload.dtype.rounded(outputs), seen


def gradient_tolerances(workload, inputs: Inputs, do) -> list[float]:
    """The same for each gradient: what it adds up, without signs, says how much a rounding of every term may change.

    Scores are exponents of probabilities, so that the largest one multiplies their roundings.
    """
    exact = attention_gradients(*inputs, do, workload)
    untiled, terms, largest_score = _untiled_gradients(workload, inputs, do)
    accumulator = workload.accumulator or ElementType.FP32
    relative = EPSILON[accumulator] * (1 + largest_score)
    return [
        2 * np.abs(found - right).max() + 2 * EPSILON[workload.dtype] * np.abs(right).max() + 2 * relative * size.max()
        for found, right, size in zip(untiled, exact, terms, strict=True)
    ]


def _untiled_gradients(workload, inputs: Inputs, do) -> tuple[Gradients, Gradients, float]:
    """The gradient by its definition with whole matrices, in the precision of a run; and its terms without signs."""
    accumulator, scale = workload.accumulator or ElementType.FP32, np.float32(workload.softmax_scale)
    saved = saved_by_forward(workload, inputs, Arithmetic.of(workload, *inputs, do))
    q, (k, v) = inputs.q, (np.repeat(x, workload.group, axis=1) for x in (inputs.k, inputs.v))
    required = required_matrix(workload)
    scores = accumulator.rounded(q @ _turned(k) * scale)
    L = np.where(np.isneginf(saved.log_sum_exp), np.float32(0), saved.log_sum_exp)
    P = accumulator.rounded(np.where(required, np.exp(np.where(required, scores - L, -np.inf)), 0).astype(np.float32))
    dP, D = do @ _turned(v), (do * saved.output).sum(axis=-1, keepdims=True)
    dS = accumulator.rounded(P * (accumulator.rounded(dP) - accumulator.rounded(D)))
    sizes = P * (np.abs(do) @ np.abs(_turned(v)) + np.abs(do * saved.output).sum(axis=-1, keepdims=True))
    found = (dS @ k * scale, _turned(dS) @ q * scale, _turned(P) @ do)
    terms = (sizes @ np.abs(k) * abs(scale), _turned(sizes) @ np.abs(q) * abs(scale), _turned(P) @ np.abs(do))
    largest = np.abs(np.where(required, scores, 0)).max(initial=0)
    rounded = [workload.dtype.rounded(accumulator.rounded(x)) for x in (found[0], *_by_kv_head(workload, found[1:]))]
    return Gradients(*rounded), Gradients(terms[0], *_by_kv_head(workload, terms[1:])), float(largest)


def _turned(x):
    return np.swapaxes(x, -1, -2)


def _by_kv_head(workload, arrays):
    """Gradients of keys or values of every query head, added up over those that share a KV head."""
    shape = (workload.batch, workload.kv_heads, workload.group, workload.keys, -1)
    return [x.reshape(shape).sum(axis=2) for x in arrays]


def required_matrix(workload) -> np.ndarray:
    """Required scores of one sequence, documents in their places."""
    required = np.zeros((workload.queries, workload.keys), dtype=bool)
    for segment in segments(workload):
        pattern = segment.pattern
        required[segment.rows, segment.keys] = pattern.required(0, pattern.rows, np.arange(pattern.keys))
    return required
