"""Schedules of the search: legal, no cheaper than possible, as good as what is known."""

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.pebbling import ComputationGraph, Ending, Game, Variant, check
from attenio.pebbling.graphs.accumulation import Accumulation, accumulate
from attenio.pebbling.graphs.attention import Head, attention
from attenio.pebbling.scheduling import find_schedule
from attenio.pebbling.scheduling.blocks import in_blocks
from attenio.pebbling.scheduling.eviction import schedule_of
from attenio.pebbling.scheduling.improvement import Annealing
from attenio.pebbling.scheduling.orders import depth_first, eager
from attenio.pebbling.scheduling.parts import grouped, parts_of, side_by_side
from attenio.pebbling.scheduling.program import edge_by_edge, program_of, vertex_by_vertex
from attenio.pebbling.scheduling.recomputation import computed_again
from attenio.planning import best_plan_for
from attenio.workload import Workload

from ..strategies import RULES


@st.composite
def graphs(draw, largest=12, heaviest=3):
    size = draw(st.integers(2, largest))
    chosen = {(u, v) for v in range(1, size) for u in draw(st.sets(st.integers(0, v - 1), max_size=3))}
    edges = [(f"v{u}", f"v{v}") for u, v in sorted(chosen)] or [("v0", "v1")]
    names = sorted({name for edge in edges for name in edge})
    outputs = draw(st.none() | st.sets(st.sampled_from(names), min_size=1, max_size=3))
    weights = {name: draw(st.integers(1, heaviest)) for name in names}
    return ComputationGraph.from_edges(edges, outputs=outputs, weights=weights)


def fewest_red(graph, variant, sliding):
    return Game(graph=graph, red=2**20, variant=variant, sliding=sliding).fewest_red


def product(rows, columns, depth, how=Accumulation.CHAIN):
    parents = {f"A[{i},{t}]": () for i in range(rows) for t in range(depth)}
    parents |= {f"B[{t},{j}]": () for t in range(depth) for j in range(columns)}
    for i in range(rows):
        for j in range(columns):
            accumulate(parents, f"C[{i},{j}]", [(f"A[{i},{t}]", f"B[{t},{j}]") for t in range(depth)], how)
    return ComputationGraph.from_parents(parents, name="product")


def stop_after(orders):
    """Progress that interrupts the search when so many orders have been judged: a limit that no clock decides."""

    def progress(done, total):
        if done >= orders:
            raise KeyboardInterrupt

    return progress


def optimum(game):
    """The least cost of the standard or the one-shot game, unit weights, by visiting positions in order of cost."""
    graph, vertices = game.graph, range(len(game.graph))
    needs = [sum(1 << parent for parent in parents) for parents in graph.parents]
    inputs, outputs = sum(1 << v for v in graph.inputs.tolist()), sum(1 << v for v in graph.outputs.tolist())
    queue, seen = [(0, 0, inputs, 0)], set()
    while queue:
        cost, red, blue, done = heapq.heappop(queue)
        if blue & outputs == outputs:
            return cost
        if (red, blue, done) in seen:
            continue
        seen.add((red, blue, done))
        room = red.bit_count() < game.red
        for bit, need in ((1 << v, needs[v]) for v in vertices):
            if red & bit:
                heapq.heappush(queue, (cost, red ^ bit, blue, done))
                if not blue & bit:
                    heapq.heappush(queue, (cost + 1, red, blue | bit, done))
            elif room:
                if blue & bit:
                    heapq.heappush(queue, (cost + 1, red | bit, blue, done))
                if need and red & need == need and not done & bit:
                    once = bit if game.variant is Variant.ONE_SHOT else 0
                    heapq.heappush(queue, (cost, red | bit, blue, done | once))
    raise AssertionError("no way to win")


@settings(max_examples=17, deadline=None, derandomize=True)
@given(graph=graphs(), rules=st.sampled_from(RULES), spare=st.integers(0, 4), seed=st.integers(0, 3))
def test_every_schedule_is_legal_and_costs_what_it_says_and_no_less_than_is_compulsory(graph, rules, spare, seed):
    variant, sliding = rules
    game = Game(graph=graph, red=fewest_red(graph, variant, sliding) + spare, variant=variant, sliding=sliding)
    solution = find_schedule(game, seed=seed, time_limit_s=0.05)
    verdict = check(game, solution.schedule)
    assert verdict.legal, verdict.complaint
    assert verdict.cost_words == solution.cost_words >= solution.lower_bound_words == graph.compulsory_words
    assert (solution.ending is Ending.PROVEN) == solution.optimal


@settings(max_examples=20, deadline=None, derandomize=True)
@given(graph=graphs(), rules=st.sampled_from(RULES), spare=st.integers(0, 3), seed=st.integers(0, 3))
def test_orders_stay_legal_when_stretches_move_and_values_are_computed_again(graph, rules, spare, seed):
    variant, sliding = rules
    game = Game(graph=graph, red=fewest_red(graph, variant, sliding) + spare, variant=variant, sliding=sliding)
    program = program_of(game)
    if len(program.targets) < 2:
        return
    annealing = Annealing(program, eager(program), reluctance=2.0, moves=50, seed=seed)
    before = annealing.cost
    while not annealing.finished:
        annealing.advance()
    schedule = schedule_of(program, annealing.order)
    verdict = check(game, schedule)
    assert verdict.legal, verdict.complaint
    assert verdict.cost_words == annealing.cost <= before
    if variant is Variant.STANDARD:
        again = schedule_of(program, computed_again(program, annealing.order, schedule, share=1.0))
        assert check(game, again).legal, check(game, again).complaint


@settings(max_examples=20, deadline=None, derandomize=True)
@given(graph=graphs(), inflow=st.integers(1, 8), limit=st.integers(1, 6), strip=st.integers(1, 4), whole=st.booleans())
def test_orders_of_every_family_do_each_operation_once_and_after_what_it_needs(graph, inflow, limit, strip, whole):
    for variant in (Variant.ONE_SHOT, Variant.PARTIAL):
        game = Game(graph=graph, red=fewest_red(graph, variant, sliding=False), variant=variant)
        program = program_of(game)
        if not len(program.targets):
            return
        parts = parts_of(program)
        bases = [eager(program), depth_first(program), np.arange(len(program.targets))]
        places = grouped(program, parts, limit=limit, strip=strip, whole=whole)
        orders = [in_blocks(program, base, inflow) for base in bases]
        orders += [side_by_side(program, parts, places, base) for base in bases]
        assert np.bincount(places[0]).max() <= limit
        for order in bases + orders:
            assert sorted(order.tolist()) == list(range(len(program.targets)))
            assert check(game, schedule_of(program, order)).legal


@settings(max_examples=17, deadline=None, derandomize=True)
@given(graph=graphs(heaviest=1), spare=st.integers(0, 3))
def test_an_order_of_vertices_plays_the_partial_game_too(graph, spare):
    game = Game(graph=graph, red=fewest_red(graph, Variant.PARTIAL, sliding=False) + spare, variant=Variant.PARTIAL)
    vertices = vertex_by_vertex(game)
    order = edge_by_edge(vertices, eager(vertices))
    assert check(game, schedule_of(program_of(game), order)).legal


@pytest.mark.parametrize(("variant", "sliding"), RULES)
def test_what_fits_in_fast_memory_costs_what_is_compulsory(variant, sliding):
    graph = product(3, 3, 3)
    solution = find_schedule(Game(graph=graph, red=len(graph), variant=variant, sliding=sliding))
    assert solution.cost_words == graph.compulsory_words == 27
    assert solution.ending is Ending.PROVEN


@pytest.mark.parametrize("variant", [Variant.STANDARD, Variant.ONE_SHOT])
@pytest.mark.parametrize(
    "graph",
    [
        product(2, 2, 1),
        product(1, 2, 2),
        ComputationGraph.from_edges([("a", "c"), ("b", "c"), ("b", "d"), ("c", "e"), ("d", "e"), ("a", "e")]),
        ComputationGraph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("b", "d"), ("a", "e"), ("d", "e")]),
    ],
)
def test_on_tiny_graphs_the_optimum_is_found(graph, variant):
    game = Game(graph=graph, red=fewest_red(graph, variant, sliding=False), variant=variant)
    assert find_schedule(game).cost_words == optimum(game)


@pytest.mark.parametrize("variant", [Variant.STANDARD, Variant.ONE_SHOT])
def test_a_product_is_tiled_as_well_as_by_hand(variant):
    # 6 x 8 tiles: A is read twice, B three times, C stored once.
    by_hand = 2 * 256 + 3 * 256 + 256
    game = Game(graph=product(16, 16, 16), red=64, variant=variant)
    solution = find_schedule(game, progress=stop_after(60))
    assert check(game, solution.schedule).legal
    assert solution.cost_words <= by_hand


def test_the_partial_game_fills_wide_sums_tile_by_tile():
    game = Game(graph=product(8, 8, 8, Accumulation.WIDE), red=24, variant=Variant.PARTIAL)
    solution = find_schedule(game, progress=stop_after(60))
    assert check(game, solution.schedule).legal
    # 4 x 4 tiles: A and B are read twice.
    assert solution.cost_words <= 64 * 2 * 2 + 64


def test_attention_is_scheduled_no_worse_than_by_attenio():
    plan = best_plan_for(Workload(n=8, d=2, dtype="fp32"), 32, dataflow="attenio")
    game = Game(graph=attention(Head(rows=8, keys=8, d=2)), red=32)
    solution = find_schedule(game, progress=stop_after(60))
    assert solution.cost_words <= plan.moved_words


@pytest.mark.parametrize("variant", list(Variant))
def test_equal_seeds_give_equal_schedules(variant):
    game = Game(graph=product(2, 2, 3), red=5, variant=variant)
    first, second = (find_schedule(game, seed=7, time_limit_s=600.0) for _ in range(2))
    assert first.ending is second.ending is not Ending.TIME
    assert first.schedule == second.schedule
    assert first.explored == second.explored


def test_computing_again_saves_words_where_the_rules_allow_it():
    # b is needed at both ends of a row of sums that leave no room for it: from a, which the last sum loads anyway, it
    # can be computed again. Otherwise it is stored and loaded.
    parents = {"b": ("a",), "s0": ("b", "x0")}
    parents |= {f"s{k}": (f"s{k - 1}", f"x{k}", f"y{k}") for k in range(1, 5)}
    parents |= {"end": ("s4", "b", "a")}
    graph = ComputationGraph.from_parents(parents)
    costs = [find_schedule(Game(graph=graph, red=4, variant=variant)).cost_words for variant in list(Variant)[:2]]
    assert costs == [12, 14]


def test_an_interrupted_search_returns_the_best_so_far():
    calls = []

    def interrupt(done, total):
        calls.append((done, total))
        if len(calls) == 5:
            raise KeyboardInterrupt

    game = Game(graph=product(4, 4, 4), red=10)
    solution = find_schedule(game, progress=interrupt)
    assert solution.ending is Ending.INTERRUPTED
    assert solution.explored == len(calls) == 5
    assert check(game, solution.schedule).cost_words == solution.cost_words


def test_out_of_time_there_is_still_a_schedule():
    game = Game(graph=product(4, 4, 4), red=10)
    solution = find_schedule(game, time_limit_s=0.0)
    assert solution.ending is Ending.TIME
    assert check(game, solution.schedule).legal
