"""Bounds, optima and dataflows in one line: each absolute bound <= the optimum <= what every dataflow moves."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attenio import Workload, execute
from attenio.bounds import Strength, bounds_for
from attenio.errors import DoesNotFit
from attenio.pebbling import Game, Variant, check
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.replay import replay
from attenio.pebbling.solving.search.solver import best_first
from attenio.planning import Dataflow, best_plan_for

# A game that is not solved by then says nothing.
SECONDS = 4.0
FEW = settings(max_examples=9, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SHAPES = [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)]


def proven_words(workload, fast_words):
    return {
        b.theorem: b.words
        for b in bounds_for(workload, fast_words)
        if b.strength in (Strength.ABSOLUTE, Strength.ORDINARY)
    }


@pytest.mark.parametrize("dataflow", Dataflow.towards("forward"))
@FEW
@given(shape=st.sampled_from(SHAPES), spare=st.integers(0, 3), causal=st.booleans())
def test_no_run_of_a_dataflow_moves_less_than_the_optimum_of_its_game(dataflow, shape, spare, causal):
    queries, keys = shape
    mask = "causal" if causal and queries <= keys else "dense"
    workload = Workload(queries=queries, keys=keys, d=1, mask=mask, dtype="fp32")
    least = fewest_words(workload, dataflow)
    if least is None:
        return
    run = execute(best_plan_for(workload, least + spare, dataflow=dataflow), record=True)
    replayed = replay(run)
    optimum = best_first(replayed.game, time_limit_s=SECONDS)
    if not optimum.optimal:
        return
    assert max(proven_words(workload, replayed.game.red).values()) <= optimum.cost_words <= run.moved_words
    verdict = check(replayed.game, optimum.schedule)
    assert verdict.legal
    assert verdict.cost_words == optimum.cost_words


def fewest_words(workload, dataflow):
    for fast_words in range(1, 40):
        try:
            best_plan_for(workload, fast_words, dataflow=dataflow)
        except DoesNotFit:
            continue
        return fast_words
    return None


@FEW
@given(
    shape=st.sampled_from(SHAPES),
    d=st.integers(1, 2),
    form=st.sampled_from(
        [
            (Softmax.UNSHIFTED, Accumulation.CHAIN, Variant.STANDARD, True),
            (Softmax.UNSHIFTED, Accumulation.TREE, Variant.STANDARD, True),
            (Softmax.PLAIN, Accumulation.CHAIN, Variant.ONE_SHOT, True),
            (Softmax.ONLINE, Accumulation.CHAIN, Variant.ONE_SHOT, False),
            (Softmax.UNSHIFTED, Accumulation.WIDE, Variant.PARTIAL, False),
        ]
    ),
    spare=st.integers(0, 4),
    lower=st.booleans(),
)
def test_no_optimum_is_below_an_absolute_bound(shape, d, form, spare, lower):
    rows, keys = shape
    softmax, accumulation, variant, sliding = form
    causal = lower and rows <= keys
    required = np.tri(rows, keys, keys - rows, dtype=bool) if causal else np.ones((rows, keys), dtype=bool)
    head = Head(rows=rows, keys=keys, d=d, required=required)
    graph = attention(head, softmax=softmax, accumulation=accumulation)
    fewest = Game(graph=graph, red=10**6, variant=variant, sliding=sliding).fewest_red
    game = Game(graph=graph, red=fewest + spare, variant=variant, sliding=sliding)
    solution = best_first(game, time_limit_s=SECONDS)
    workload = Workload(queries=rows, keys=keys, d=d, mask="causal" if causal else "dense", dtype="fp32")
    for theorem, words in proven_words(workload, game.red).items():
        assert words <= solution.cost_words, theorem
    if solution.optimal:
        assert solution.lower_bound_words >= workload.compulsory_words


@pytest.mark.parametrize("extra", range(4))
def test_recomputing_partial_sums_and_sliding_never_cost_more(extra):
    head = Head(rows=2, keys=2, d=1)
    graph = attention(head, softmax=Softmax.UNSHIFTED)
    red = Game(graph=graph, red=99).fewest_red + extra
    costs = {}
    for variant in (Variant.STANDARD, Variant.ONE_SHOT):
        for sliding in (True, False):
            game = Game(graph=graph, red=red, variant=variant, sliding=sliding)
            costs[variant, sliding] = best_first(game, time_limit_s=60).cost_words
    for variant in (Variant.STANDARD, Variant.ONE_SHOT):
        assert costs[variant, True] <= costs[variant, False]
    for sliding in (True, False):
        assert costs[Variant.STANDARD, sliding] <= costs[Variant.ONE_SHOT, sliding]
