"""What a loop nest works on: needed rows and keys in slow memory, and the weights with their gradients."""

from dataclasses import dataclass

import numpy as np

from attenio.dataflows.arithmetic import Arithmetic
from attenio.elements import ElementType
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices, size
from attenio.weight_gradient.inputs import WeightInputs
from attenio.weight_gradient.workload import WeightGradient

# Below this, products and sums of a run stay finite in float32 whatever their order.
_SAFE = 1e37


@dataclass(frozen=True, kw_only=True)
class Side:
    """Rows of elements, the weights that project them, and the gradient of those weights.

    There are two: A1 with X and dX, which carries the scale, and dO with Y and dY. The second is transposed, as
    B = dO Y^T and dY^T = dO^T E; its arrays "Y" and "dY" have rows and columns exchanged.
    """

    rows: SlowArray
    weights: SlowArray
    gradient: SlowArray
    factor: float


@dataclass(frozen=True, kw_only=True)
class WeightProblem:
    """One weight gradient in slow memory; spilled intermediates take ``intermediate_words`` words each."""

    pattern: Band
    queries: Side
    outputs: Side
    K: SlowArray
    V: SlowArray
    arithmetic: Arithmetic
    element: ElementType
    intermediate_words: int

    @property
    def width(self) -> int:
        """The width d of everything."""
        return size(self.K.columns)

    def spilled(self, name: str, rows: int, columns: int) -> SlowArray:
        """Room in slow memory for intermediates."""
        return SlowArray.intermediate(name, (rows, columns), self.intermediate_words)


def weight_problem(workload: WeightGradient, inputs: WeightInputs) -> WeightProblem:
    """The problem of a workload; only needed rows and keys of its inputs are part of it."""
    (rows, keys), dtype, words, d = workload.needed, workload.dtype, workload.accumulator_words, workload.d
    return WeightProblem(
        pattern=workload.pattern,
        queries=Side(
            rows=SlowArray.elements("A1", inputs.a1[rows], dtype),
            weights=SlowArray.elements("X", inputs.x, dtype),
            gradient=SlowArray.intermediate("dX", (d, d), words),
            factor=float(workload.scale),
        ),
        outputs=Side(
            rows=SlowArray.elements("dO", inputs.do[rows], dtype),
            weights=SlowArray.elements("Y", np.ascontiguousarray(inputs.y.T), dtype),
            gradient=SlowArray.intermediate("dY", (d, d), words),
            factor=1.0,
        ),
        K=SlowArray.elements("A2", inputs.a2[keys], dtype),
        V=SlowArray.elements("A3", inputs.a3[keys], dtype),
        arithmetic=_arithmetic(workload, inputs),
        element=dtype,
        intermediate_words=words,
    )


def passing(fast: FastMemory, source: SlowArray, rows: Indices, columns: Indices) -> Tile:
    """Intermediates that pass through a reserved word or row one after the other, loaded."""
    values = np.empty((size(rows), size(columns)), dtype=np.float32)
    tile = Tile(source.name, values, rows, columns, source.words_each)
    fast.load(source, tile)
    return tile


def _arithmetic(workload: WeightGradient, inputs: WeightInputs) -> Arithmetic:
    """Products are taken in float64 where float32 might overflow."""
    a1, a2, a3, x, y, do = (max(1.0, float(np.abs(array).max())) for array in inputs)
    d, keys, queries, scale = workload.d, workload.keys, workload.queries, max(1.0, abs(workload.scale))
    scores = a1 * x * d * a2 * d * scale
    d_scores = do * y * d * a3 * d
    largest = max(scores, 2 * d_scores * a2 * keys * a1 * queries * scale, a3 * keys * do * queries)
    accumulator = ElementType.FP32 if workload.accumulator is None else workload.accumulator
    return Arithmetic(scale=float(workload.scale), accumulator=accumulator, wide=largest > _SAFE)
