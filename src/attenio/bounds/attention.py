"""Every lower bound that applies to a workload, and the largest ones of the strengths that bind every algorithm."""

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import assert_never

import numpy as np

from attenio.bounds.approximating import approximate_bounds
from attenio.bounds.backward import (
    five_product_words,
    five_products,
    gradient_bounds,
    gradient_words,
    growth_of_gradients,
    passing_sums,
    step_in_order,
)
from attenio.bounds.compulsory import compulsory
from attenio.bounds.fast_products import fast_products
from attenio.bounds.few_words import few_words
from attenio.bounds.floats import Floats
from attenio.bounds.fused_epochs import fused_epoch_words, fused_epochs
from attenio.bounds.held_scores import held_scores
from attenio.bounds.lower_bound import LowerBound, Strength
from attenio.bounds.mask_edges import mask_edges
from attenio.bounds.one_shot import one_shot
from attenio.bounds.operators import operator_by_operator
from attenio.bounds.output_epochs import output_epoch_words, output_epochs
from attenio.bounds.recomputed_scores import recomputed_score_words, recomputed_scores
from attenio.bounds.row_passes import applies as whole_rows
from attenio.bounds.row_passes import row_passes
from attenio.bounds.row_sums import row_sums
from attenio.bounds.saha_ye import saha_ye
from attenio.bounds.score_epochs import score_epoch_words, score_epochs
from attenio.bounds.short_periods import short_periods
from attenio.bounds.single_stays import single_stays
from attenio.bounds.tiles_at_edges import tiles_at_edges
from attenio.bounds.whole_epochs import whole_epoch_words, whole_epochs
from attenio.catalogue import as_machine
from attenio.display import Listed
from attenio.errors import InvalidInput
from attenio.machine import Boundary, Machine
from attenio.names import checked_kind
from attenio.quantities import checked_count
from attenio.workload import Direction, Workload, checked_workload


def bounds_for(
    workload: Workload, fast_words: int, *, units: int = 1, degree: int | None = None, probabilities_saved: bool = False
) -> Listed[LowerBound]:
    """Every bound for a fast memory of this many words, the absolute ones first.

    They hold for all heads and the whole batch together; a workload with ``heads=1, batch=1`` asks about one head.
    ``units`` fast memories of that size may work side by side, exchanging words through slow memory only.
    The workload says whether they are about the forward pass, the backward pass or a training step.

    With a tolerance, what holds for exact attention binds exact algorithms only and is no longer absolute; ``degree``
    is that of the polynomial that the tolerance takes, where one is known. A backward pass with ``probabilities_saved``
    reads those of the forward pass, and need not make scores.

    >>> [bound.theorem for bound in bounds_for(Workload(n=1024, d=64), 8192)]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['compulsory', 'score-epochs', 'output-epochs', 'whole-epochs', 'row-sums', 'single-stays', 'short-periods',
     'fused-epochs', 'recomputed-scores', 'fast-products', 'one-shot', 'row-passes', 'operator-by-operator', 'saha-ye']
    >>> [bound.theorem for bound in bounds_for(Workload(n=1024, d=64, direction="backward"), 8192)]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['compulsory', 'gradient-rows', 'fused-gradient-epochs', 'whole-gradient-epochs', 'passing-sums',
     'short-gradient-periods', 'five-products', 'single-gradient-stays', 'fast-products', 'li-liang', 'nonzeros']
    """
    checked_workload(workload)
    checked_count("fast memory (words)", fast_words, most=2**60)
    checked_count("units", units, most=2**20)
    if workload.tolerance is not None:
        alone = replace(workload, tolerance=None)
        exact = bounds_for(alone, fast_words, units=units, probabilities_saved=probabilities_saved)
        return Listed(approximate_bounds(workload, fast_words, exact, units=units, degree=degree))
    return Listed(_every_bound(workload, fast_words, units, makes_scores=not probabilities_saved))


def _every_bound(workload: Workload, fast_words: int, units: int, *, makes_scores: bool) -> tuple[LowerBound, ...]:
    if workload.has_scales:
        # the proofs of the others take an entry for a word
        outputs = () if workload.values_in_keys else (output_epochs(workload, fast_words, units=units),)
        return (compulsory(workload), score_epochs(workload, fast_words, units=units), *outputs)
    if workload.values_in_keys:
        # the proofs of the others count entries of keys and of values apart
        return (
            compulsory(workload),
            score_epochs(workload, fast_words, units=units),
            fast_products(workload, fast_words, units=units),
            saha_ye(workload, fast_words),
        )
    match workload.direction:
        case Direction.FORWARD:
            return (
                compulsory(workload),
                *_forward_bounds(workload, fast_words, units),
                one_shot(workload, fast_words, units=units),
                *((row_passes(workload, fast_words),) if whole_rows(workload, units) else ()),
                operator_by_operator(workload, fast_words, units=units),
                saha_ye(workload, fast_words),
            )
        case Direction.BACKWARD:
            return (
                compulsory(workload),
                *_gradient_bounds(workload, fast_words, units),
                *(_with_scores_made if makes_scores else _with_scores_saved)(workload, fast_words, units),
                fast_products(workload, fast_words, units=units),
                *growth_of_gradients(workload, fast_words),
            )
        case Direction.TRAINING:
            # A step computes the output as well, so whatever holds for the forward pass holds for it.
            forward = _forward_bounds(workload, fast_words, units)
            return (
                compulsory(workload),
                *forward,
                *_gradient_bounds(workload, fast_words, units),
                five_products(workload, fast_words, units=units),
                *(tiles_at_edges(workload, fast_words, direction=Direction.BACKWARD) if units == 1 else ()),
                _in_order(workload, fast_words, units, forward),
                *growth_of_gradients(workload, fast_words),
            )
        case _:
            assert_never(workload.direction)


def _in_order(workload: Workload, fast_words: int, units: int, forward: tuple[LowerBound, ...]) -> LowerBound:
    """The strongest bounds of both passes of a step, one after the other; the second may find probabilities saved."""
    alone = workload.towards(Direction.BACKWARD)
    first = largest_ordinary((compulsory(workload.towards(Direction.FORWARD)), *forward))
    stays = _with_scores_saved(alone, fast_words, units)
    second = largest_ordinary((compulsory(alone), *_gradient_bounds(alone, fast_words, units), *stays))
    return step_in_order(first, second, fast_words, units=units)


def _gradient_bounds(workload: Workload, fast_words: int, units: int) -> tuple[LowerBound, ...]:
    """The ordinary bounds of a backward pass or a step, whatever was saved; of a pass more on one fast memory."""
    shared = gradient_bounds(workload, fast_words, units=units)
    if units > 1 or workload.direction is not Direction.BACKWARD:
        return shared
    periods = short_periods(workload, fast_words, direction=Direction.BACKWARD)
    return (*shared, passing_sums(workload, fast_words), *mask_edges(workload, fast_words), periods)


def _with_scores_made(workload: Workload, fast_words: int, units: int) -> tuple[LowerBound, ...]:
    """The bounds of a backward pass that finds no probabilities saved."""
    products = five_products(workload, fast_words, units=units)
    if units > 1:
        return (products,)
    edges = tiles_at_edges(workload, fast_words, direction=Direction.BACKWARD)
    return (products, *edges, single_stays(workload, fast_words, direction=Direction.BACKWARD))


def _with_scores_saved(workload: Workload, fast_words: int, units: int) -> tuple[LowerBound, ...]:
    """The bounds of a backward pass that looks at stays and may find probabilities saved."""
    if units > 1:
        return ()
    edges = tiles_at_edges(workload, fast_words, direction=Direction.BACKWARD, saved=True)
    return (*edges, single_stays(workload, fast_words, direction=Direction.BACKWARD, saved=True))


def _forward_bounds(workload: Workload, fast_words: int, units: int) -> tuple[LowerBound, ...]:
    """The bounds of the forward pass that hold for every algorithm with ordinary or fast products, but compulsory."""
    alone = workload.towards(Direction.FORWARD)
    one_memory = (
        whole_epochs(workload, fast_words),
        row_sums(workload, fast_words),
        single_stays(workload, fast_words, direction=Direction.FORWARD),
        short_periods(workload, fast_words, direction=Direction.FORWARD),
        *mask_edges(alone, fast_words),
        *tiles_at_edges(workload, fast_words, direction=Direction.FORWARD),
        *few_words(workload, fast_words),
        *held_scores(workload, fast_words),
    )
    return (
        score_epochs(workload, fast_words, units=units),
        output_epochs(workload, fast_words, units=units),
        *(one_memory if units == 1 else ()),
        fused_epochs(workload, fast_words, units=units),
        recomputed_scores(workload, fast_words, units=units),
        fast_products(workload, fast_words, units=units),
    )


def lower_bounds(
    workload: Workload, machine: Machine | str, *, boundary: Boundary | None = None, degree: int | None = None
) -> Listed[LowerBound]:
    """Every bound on the words that cross a boundary of a machine; the slowest one unless another is given.

    The fast memory granted to the algorithm is everything inside the boundary: the level and all faster ones.

    >>> bounds = lower_bounds(Workload(n=131072, d=64), Machine.with_fast_bytes(512 * 1024))
    >>> largest_ordinary(bounds).words, largest_absolute(bounds).words
    (1082259361, 67108864)
    """
    if boundary is not None:
        checked_kind(boundary, Boundary, "boundary", "one of machine.boundaries")
    chosen = boundary or as_machine(machine).slowest_boundary
    return bounds_for(
        workload, chosen.words_inside(checked_workload(workload).dtype), units=chosen.fast.units, degree=degree
    )


def largest_absolute(bounds: Iterable[LowerBound]) -> LowerBound:
    """The strongest bound that every algorithm obeys, one with fast products too."""
    return _largest(bounds, (Strength.ABSOLUTE,))


def largest_ordinary(bounds: Iterable[LowerBound]) -> LowerBound:
    """The strongest bound for algorithms with ordinary products, as all dataflows here are: absolute or ordinary."""
    return _largest(bounds, (Strength.ABSOLUTE, Strength.ORDINARY))


def _largest(bounds: Iterable[LowerBound], strengths: tuple[Strength, ...]) -> LowerBound:
    eligible = [bound for bound in bounds if bound.strength in strengths]
    if not eligible:
        raise InvalidInput(
            f"none of the bounds given is {strengths[-1].value}; pass all of lower_bounds(workload, machine)"
        )
    return max(eligible, key=lambda bound: bound.words)


def ordinary_words(  # noqa: PLR0913 - a point of a sweep has this many coordinates
    compulsory_words: Floats,
    scores: Floats,
    d: Floats,
    value_dim: Floats,
    fast_words: Floats,
    units: Floats = 1.0,
    *,
    direction: Direction = Direction.FORWARD,
) -> Floats:
    """The largest bound for ordinary products at every point of a sweep, as ``largest_ordinary(bounds_for(...))``.

    All arguments are floats or arrays of floats that broadcast. Whole words come back, as floats. Fast products are
    not asked, as score epochs or gradient rows say as much. Not among them are step-in-order, which
    ``words_in_order`` makes of the bounds of both passes, row-sums, few-words and held-scores, which count rows
    (``row_sum_words``, ``few_word_words``, ``held_score_words``), passing-sums, which count entries
    (``passing_sum_words``), mask-edges, tiles-at-edges and held-scores at edges (``raised_at_edges``,
    ``words_at_edges``, ``held_words_at_edges``), single-stays and short-periods (``words_again_of_band`` and
    ``words_over_periods`` besides the compulsory ones).

    >>> ordinary_words(np.array([1e3, 1e9]), 1e8, 64.0, 64.0, 65536.0).tolist()
    [25065232.0, 1000000000.0]
    """
    words = [compulsory_words]
    if direction is not Direction.BACKWARD:
        words += [
            score_epoch_words(scores, d, fast_words, units),
            output_epoch_words(scores, d, value_dim, fast_words, units),
            whole_epoch_words(scores, d, value_dim, fast_words, units),
            fused_epoch_words(scores, d, value_dim, fast_words, units),
            recomputed_score_words(scores, d, value_dim, fast_words, units),
        ]
    if direction is not Direction.FORWARD:
        step = direction is Direction.TRAINING
        words.append(gradient_words(scores, d, value_dim, fast_words, units, step=step))
        words.append(five_product_words(scores, d, value_dim, fast_words, units))
    return reduce(np.maximum, words)
