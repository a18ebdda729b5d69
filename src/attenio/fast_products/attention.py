"""Attention by fast products in a small memory: Strassen's product, a softmax that passes by, Strassen's product.

    S = Q Kᵀ by as many steps of Strassen's method as move fewest words
    for each row of S:  its scores pass, one at a time;  max, sum
        they pass again;  store exp(S - max) / sum in their place
    O = P V in the same way as S

>>> plan = plan_fast_attention(Shape(rows=4096, keys=4096, depth=1024), value_dim=1024, fast_words=16)
>>> plan.score_levels, plan.output_levels
(5, 5)
>>> run = fast_attention(*random_inputs(Shape(rows=9, keys=10, depth=11), value_dim=12), fast_words=8)
>>> run.moved_words == run.plan.moved_words, run.peak_words <= 8, run.max_abs_error < 1e-4
(True, True, True)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.fast_products.product import as_matrix
from attenio.fast_products.shape import Block, Shape
from attenio.fast_products.strassen import strassen
from attenio.fast_products.words import best_levels, strassen_words
from attenio.memory import FastMemory, SlowArray, Trace
from attenio.memory.matrix import Values
from attenio.quantities import checked_count, show_shape

# An element in hand, the maximum of its row and the sum.
SOFTMAX_WORDS = 3


@dataclass(frozen=True, kw_only=True)
class FastAttentionPlan:
    """Steps of Strassen's method for the scores and for the outputs, and the words of the whole; 0 is ordinary."""

    scores: Shape
    outputs: Shape
    fast_words: int
    score_levels: int
    output_levels: int
    moved_words: int


@dataclass(frozen=True, kw_only=True, eq=False)
class FastAttentionRun:
    """A plan that has run on the counted memory."""

    plan: FastAttentionPlan
    output: Values
    moved_words: int
    peak_words: int
    max_abs_error: float


def plan_fast_attention(scores: Shape, *, value_dim: int, fast_words: int) -> FastAttentionPlan:
    """The numbers of steps that move fewest words; a softmax between the products moves every score three times."""
    checked_count("fast memory (words)", fast_words, least=SOFTMAX_WORDS, most=2**60)
    outputs = Shape(rows=scores.rows, keys=checked_count("value_dim", value_dim), depth=scores.keys)
    levels = [best_levels(shape, fast_words) for shape in (scores, outputs)]
    products = sum(
        strassen_words(shape, fast_words, steps) for shape, steps in zip((scores, outputs), levels, strict=True)
    )
    return FastAttentionPlan(
        scores=scores,
        outputs=outputs,
        fast_words=fast_words,
        score_levels=levels[0],
        output_levels=levels[1],
        moved_words=products + 3 * scores.rows * scores.keys,
    )


def random_inputs(scores: Shape, *, value_dim: int, seed: int = 0) -> tuple[Values, Values, Values]:
    """Standard normal Q, K and V."""
    rng = np.random.default_rng(seed)
    sides = ((scores.rows, scores.depth), (scores.keys, scores.depth), (scores.keys, value_dim))
    Q, K, V = (rng.standard_normal(side).astype(np.float32) for side in sides)
    return Q, K, V


def fast_attention(Q: ArrayLike, K: ArrayLike, V: ArrayLike, *, fast_words: int) -> FastAttentionRun:
    """softmax(QKᵀ)V on the counted memory, as ``plan_fast_attention`` says."""
    queries, keys, values = (as_matrix(name, each) for name, each in (("Q", Q), ("K", K), ("V", V)))
    if queries.shape[1] != keys.shape[1] or len(keys) != len(values):
        raise InvalidInput(
            f"Q is {show_shape(queries.shape)}, K {show_shape(keys.shape)},"
            f" V {show_shape(values.shape)}; keys are as wide as queries and as many as values"
        )
    shape = Shape(rows=len(queries), keys=len(keys), depth=queries.shape[1])
    plan = plan_fast_attention(shape, value_dim=values.shape[1], fast_words=fast_words)
    fast, fp32 = FastMemory(fast_words, trace=Trace(record=False)), ElementType.FP32
    S = SlowArray.unwritten("S", (shape.rows, shape.keys), fp32)
    O = SlowArray.unwritten("O", (shape.rows, values.shape[1]), fp32)  # noqa: E741 - the field's letter
    given = [SlowArray.elements(name, each, fp32) for name, each in (("Q", queries), ("K", keys), ("V", values.T))]
    first, second, third = (Block.whole(each) for each in given)
    strassen(fast, first, second, Block.whole(S), levels=plan.score_levels)
    _softmax(fast, S)
    strassen(fast, Block.whole(S), third, Block.whole(O), levels=plan.output_levels)
    exact = np.exp((raw := queries.astype(np.float64) @ keys.T) - raw.max(axis=1, keepdims=True))
    exact = exact / exact.sum(axis=1, keepdims=True) @ values
    return FastAttentionRun(
        plan=plan,
        output=O.values,
        moved_words=fast.trace.moved_words,
        peak_words=fast.peak_words,
        max_abs_error=float(np.abs(O.values - exact).max()),
    )


def _softmax(fast: FastMemory, S: SlowArray) -> None:
    """Scores become probabilities in their place, a row at a time, with an element in hand."""
    with fast.scratch("max", 1, 1), fast.scratch("sum", 1, 1), fast.buffer("S", 1, 1) as element:
        for place in range(len(S.values)):
            row = slice(place, place + 1)
            with element.streaming(S, row, along="columns") as scores:
                largest = scores.values.max()
                total = np.exp(scores.values - largest).sum()
            with element.streaming(S, row, along="columns") as scores:
                np.exp(scores.values - largest, out=scores.values)
                scores.values[...] /= total
                fast.store(scores, S)
