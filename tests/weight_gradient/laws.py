"""Small random weight gradients, and every closed form again, from the matrix of required scores itself.

Nothing here shares code with the planner or with the loop nests.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from attenio.elements import ElementType
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.planning.plan import Tiles
from attenio.weight_gradient import WeightDataflow, WeightGradient, WeightPlan

QUICK = settings(max_examples=17, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FEWER = settings(QUICK, max_examples=12)

SWEEP = ("query_tile", "key_tile")
WEIGHTS = ("weight_rows", "weight_columns")
NAMES = {
    WeightDataflow.RESIDENT_KEYS: SWEEP,
    WeightDataflow.RESIDENT_ROWS: SWEEP,
    WeightDataflow.FUSED: SWEEP,
    WeightDataflow.FUSED_PROJECTIONS: (*SWEEP, *WEIGHTS),
    WeightDataflow.ONE_PASS: ("projection_columns", *SWEEP, *WEIGHTS),
    WeightDataflow.TWO_PASS: ("projection_columns", *SWEEP, "gradient_rows", "gradient_keys", *WEIGHTS),
    WeightDataflow.TILED_PRODUCTS: (
        "projection_rows",
        "projection_columns",
        "score_rows",
        "score_keys",
        "output_rows",
        "output_columns",
        "gradient_rows",
        "gradient_keys",
        "query_rows",
        "query_columns",
        *WEIGHTS,
    ),
}


@st.composite
def weight_workloads(draw, longest=11, widest=5):
    queries, keys = draw(st.integers(1, longest)), draw(st.integers(1, longest))
    window = SlidingWindow(width=draw(st.integers(1, keys)), causal=draw(st.booleans()))
    dtype = draw(st.sampled_from([ElementType.FP32, ElementType.FP16, ElementType.BF16]))
    return WeightGradient(
        queries=queries,
        keys=keys,
        d=draw(st.integers(1, widest)),
        mask=draw(st.sampled_from([Dense(), Causal(), window])),
        dtype=dtype,
        accumulator=draw(st.sampled_from([None, None, ElementType.FP32, dtype])),
        scale=draw(st.sampled_from([1.0, 0.5, -1.25])),
    )


@st.composite
def some_tiles(draw, workload, dataflow):
    """Random tiles, some larger than what they cut."""
    most = {"rows": workload.queries + 1, "tile": workload.queries + 1, "keys": workload.keys + 1}
    limits = {name: most.get(name.split("_")[-1], workload.d + 1) for name in NAMES[dataflow]}
    limits |= {"key_tile": workload.keys + 1, "weight_rows": workload.d + 1}
    return Tiles.of(**{name: draw(st.integers(1, limits[name])) for name in NAMES[dataflow]})


def given_plan(workload, dataflow, tiles, fast_words):
    return WeightPlan(
        workload=workload, fast_words=fast_words, dataflow=dataflow, tiles=tiles, moved_words=0, peak_words=0
    )


@dataclass(frozen=True)
class Counts:
    """Sizes of a weight gradient, and sums over tiles of its required scores."""

    required: np.ndarray
    d: int
    w: int

    @classmethod
    def of(cls, workload):
        rows, keys = np.ogrid[: workload.queries, : workload.keys]
        distance = keys - rows - (workload.keys - workload.queries)
        match workload.mask:
            case Dense():
                required = distance == distance
            case Causal():
                required = distance <= 0
            case SlidingWindow(width=width, causal=causal):
                required = (distance > -width) & (distance < (1 if causal else width))
        required = required[required.any(axis=1)]
        return cls(required=required[:, required.any(axis=0)], d=workload.d, w=workload.accumulator_words)

    @property
    def n(self):
        return self.required.shape[0]

    @property
    def m(self):
        return self.required.shape[1]

    @property
    def scores(self):
        return int(self.required.sum())

    def _tiles(self, a):
        cut = [self.required[start : start + a] for start in range(0, self.n, a)]
        return [(len(tile), int(tile.any(axis=0).sum())) for tile in cut]

    def key_loads(self, a):
        return sum(keys for _, keys in self._tiles(a))

    def tile_rows(self, a, b):
        return sum(rows * ceil(keys / b) for rows, keys in self._tiles(a))


def phases(counts, dataflow):
    """The phases of a dataflow: names of its tiles, their limits, words moved and words held as functions of them."""
    n, m, d, w, Z = counts.n, counts.m, counts.d, counts.w, counts.scores
    U, T = cache(counts.key_loads), counts.tile_rows
    project = (
        ("projection_columns",),
        (d,),
        lambda c: 2 * (n * d * ceil(d / c) + d * d + n * d * w),
        lambda c: d * c + c * w + 1,
    )
    project_in_tiles = (
        ("projection_rows", "projection_columns"),
        (n, d),
        lambda p, c: 2 * (n * d * ceil(d / c) + d * d * ceil(n / p) + n * d * w),
        lambda p, c: p * c * w + p + 1,
    )
    update = (
        WEIGHTS,
        (d, d),
        lambda p, c: 2 * (n * d * ceil(d / c) + n * d * w * ceil(d / p) + d * d),
        lambda p, c: p * c * w + p + w,
    )

    def sweep(rest):
        return (
            SWEEP,
            (n, m),
            lambda a, b: rest(ceil(n / a)) + 2 * d * U(a),
            lambda a, b: 5 * a * d * w + 4 * a * w + a * b * w + 2 * b * d,
        )

    weights = lambda t: d * d * (2 * t + 4 * w * (t - 1) + 2)  # noqa: E731
    match dataflow:
        case WeightDataflow.FUSED:
            return [sweep(lambda t: 4 * n * d + weights(t))]
        case WeightDataflow.RESIDENT_KEYS:
            names, limits, _, held = sweep(lambda t: 0)
            stay = 2 * m * d + 2 * d * d * (1 + w)
            return [
                (
                    names,
                    limits,
                    lambda a, b: 2 * (n + m) * d + 4 * d * d,
                    lambda a, b: held(a, b) - 2 * b * d + 2 * a * d + stay,
                )
            ]
        case WeightDataflow.RESIDENT_ROWS:
            names, limits, moved, held = sweep(lambda t: 2 * n * d + weights(t))
            return [(names, limits, moved, lambda a, b: held(a, b) + 2 * a * d)]
        case WeightDataflow.FUSED_PROJECTIONS:
            return [sweep(lambda t: 2 * n * d + 2 * d * d * t + 2 * n * d * w), update]
        case WeightDataflow.ONE_PASS:
            return [project, sweep(lambda t: 4 * n * d * w), update]
        case WeightDataflow.TWO_PASS:
            forward = (
                SWEEP,
                (n, m),
                lambda a, b: 2 * n * d * w + 2 * n * w + 2 * d * U(a),
                lambda a, b: 2 * a * d * w + 3 * a * w + a * b * w + b * d,
            )
            gradient = (
                ("gradient_rows", "gradient_keys"),
                (n, m),
                lambda a, b: 4 * n * d * w + 2 * n * w + 2 * d * U(a),
                lambda a, b: 3 * a * d * w + 4 * a * w + a * b * w + 2 * b * d,
            )
            return [project, forward, gradient, update]
        case WeightDataflow.TILED_PRODUCTS:
            scores = (
                ("score_rows", "score_keys"),
                (n, m),
                lambda a, b: T(a, b) * d * w + U(a) * d + Z * w + 2 * n * w,
                lambda a, b: a * b * w + 3 * a * w + 1,
            )
            outputs = (
                ("output_rows", "output_columns"),
                (n, d),
                lambda p, c: Z * ceil(d / c) * w + U(p) * d + 2 * n * w + n * d * w,
                lambda p, c: p * c * w + 3 * p * w + 1,
            )
            gradients = (
                ("gradient_rows", "gradient_keys"),
                (n, m),
                lambda a, b: T(a, b) * d * w + U(a) * d + 2 * Z * w + 2 * n * w + 2 * n * d * w,
                lambda a, b: a * b * w + 4 * a * w + w + 1,
            )
            queries = (
                ("query_rows", "query_columns"),
                (n, d),
                lambda p, c: Z * ceil(d / c) * w + U(p) * d + n * d * w,
                lambda p, c: p * c * w + p * w + 1,
            )
            return [project_in_tiles, scores, outputs, gradients, queries, update]


def closed_form(counts, dataflow, tiles):
    """Words moved and the most words held."""
    moved, held = 0, 0
    for names, limits, words, room in phases(counts, dataflow):
        sizes = [min(tiles[name], limit) for name, limit in zip(names, limits, strict=True)]
        moved, held = moved + words(*sizes), max(held, room(*sizes))
    return moved, held


def tolerance(workload, inputs, exact):
    """Rounding of the result, and of every intermediate on the way, taken at the size of sums without cancellation.

    Scores are sums of d * d products; an error in one changes its weight by that factor.
    """
    a1, a2, a3, x, y, do = (np.abs(array.astype(np.float64)) for array in inputs)
    raw = workload.scale * (inputs.a1.astype(np.float64) @ inputs.x @ inputs.a2.T)
    raw[~workload.band.required(0, workload.queries, np.arange(workload.keys))] = -np.inf
    largest = raw.max(axis=1, keepdims=True)
    weights = np.exp(raw - np.where(np.isneginf(largest), 0, largest))
    f = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    q = do @ (a3 @ y).T
    p = f * q + (f * q).sum(axis=1, keepdims=True) * f
    sizes = abs(workload.scale) * (a1.T @ p @ a2).max(), (a3.T @ f.T @ do).max()
    score = 1 + abs(workload.scale) * (a1 @ x @ a2.T).max()
    steps = workload.queries + workload.keys + 2 * workload.d + 8
    rounding = {ElementType.FP32: 2.0**-24, ElementType.FP16: 2.0**-11, ElementType.BF16: 2.0**-8}[workload.dtype]
    result = 2 * rounding * max(np.abs(exact.dx).max(), np.abs(exact.dy).max())
    return result + 2 * steps * 2.0**-23 * score * max(sizes) + 2.0**-24
