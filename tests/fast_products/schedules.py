"""Recorded schedules of small products and of small attentions, with the fast memory that each of them took."""

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from attenio.dataflows import execute
from attenio.fast_products.product import classical_product, random_factors, strassen_product
from attenio.fast_products.program import Compute, Load, Program, program_of
from attenio.fast_products.shape import Shape
from attenio.fast_products.words import Order, ProductTile, peak_words
from attenio.planning.plan import Dataflow, Plan, TileRule, Tiles
from attenio.workload import Workload

LAWS = settings(max_examples=17, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
PRIMES = (2, 3, 5, 7, 97, 65521)
KINDS = ("result-stationary", "row-stationary", "rank-one-tiling", "attenio", "strassen")


@dataclass(frozen=True)
class Schedule:
    kind: str
    shape: Shape
    fast_words: int
    program: Program


def shapes(most: int = 9) -> st.SearchStrategy[Shape]:
    side = st.integers(1, most)
    return st.builds(lambda rows, keys, depth: Shape(rows=rows, keys=keys, depth=depth), side, side, side)


def recorded(kind: str, shape: Shape, tile: tuple[int, int], levels: int = 1, fast_words: int = 7) -> Schedule:
    """A schedule of this kind; ``tile`` is for all but Strassen's, ``levels`` and ``fast_words`` for Strassen's."""
    factors = random_factors(shape)
    if kind == "strassen":
        run = strassen_product(*factors, fast_words=fast_words, levels=levels, record=True)
        return Schedule(kind, shape, run.peak_words, program_of(run.trace, depth=shape.depth))
    if kind in ("result-stationary", "row-stationary"):
        order = Order(kind)
        cut = ProductTile(order=order, rows=tile[0], keys=tile[1] if order is Order.RESULT_STATIONARY else 1)
        run = classical_product(*factors, fast_words=peak_words(cut, shape.depth), tile=cut, record=True)
        return Schedule(kind, shape, run.peak_words, program_of(run.trace, depth=shape.depth))
    workload = Workload(queries=shape.rows, keys=shape.keys, d=shape.depth)
    if kind == "attenio":
        dataflow, tiles = Dataflow.ATTENIO, Tiles.of(query_tile=tile[0], key_tile=tile[1])
    else:
        dataflow = Dataflow.RANK_ONE_TILING
        tiles = Tiles.of(score_rows=tile[0], score_keys=tile[1], output_rows=1, output_columns=1)
    plan = Plan(
        workload=workload,
        fast_words=10_000,
        dataflow=dataflow,
        tiles=tiles,
        rule=TileRule.GIVEN,
        moved_words=0,
        peak_words=0,
    )
    attention = execute(plan, record=True)
    return Schedule(kind, shape, attention.peak_words, program_of(attention.trace, depth=shape.depth))


@st.composite
def schedules(draw: st.DrawFn, most: int = 7) -> Schedule:
    return recorded(
        draw(st.sampled_from(KINDS)),
        draw(shapes(most)),
        (draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        draw(st.integers(0, 3)),
        draw(st.integers(7, 40)),
    )


def most_live_words(program: Program) -> int:
    """The most words of scores, sums and factors that lie in fast memory at once and are still needed.

    Other words of attention move without a computation that the program knows; they are left out.
    """
    computations = [step for step in program.steps if isinstance(step, Compute)]
    followed = {step.word for step in computations}
    followed |= {operand for step in computations for _, operands in step.terms for operand in operands}
    live: set[tuple[str, int, int]] = set()
    most = 0
    for step in reversed(program.steps):
        if isinstance(step, Compute):
            most = max(most, len(live | {step.word}))
            live.discard(step.word)
            live.update(operand for _, operands in step.terms for operand in operands)
        elif step.word not in followed:
            continue
        elif isinstance(step, Load):
            most = max(most, len(live | {step.word}))
            live.discard(step.word)
        else:
            live.add(step.word)
        most = max(most, len(live))
    return most


def field_product(Q: np.ndarray, K: np.ndarray, prime: int) -> np.ndarray:
    return Q @ np.swapaxes(K, -1, -2) % prime
