import heapq
import random
import signal
import threading
import time
from itertools import combinations

import pytest

from attenio.errors import InvalidInput
from attenio.pebbling import ComputationGraph, Ending, Game, Move, MoveKind, Schedule, Variant, check
from attenio.pebbling.graphs.accumulation import Accumulation, Parents, accumulate
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.solving.cp_sat.bursts import Burst, order_once, why_not_once
from attenio.pebbling.solving.cp_sat.phases import Item, Task
from attenio.pebbling.solving.cp_sat.regression import Change, order_again, why_not_again
from attenio.pebbling.solving.cp_sat.solver import cp_sat
from attenio.pebbling.solving.first_schedule import first_schedule
from attenio.pebbling.solving.search.solver import best_first

from ...strategies import RULES


def least_cost(game):
    """Dijkstra over all positions, move by move, from the rules alone and without any pruning."""
    graph, partial = game.graph, game.variant is Variant.PARTIAL
    inputs, outputs = frozenset(graph.inputs.tolist()), frozenset(graph.outputs.tolist())
    # red, blue, computed once (whole values) or marked (edges)
    start = (frozenset(), inputs, frozenset())
    steps = _partial_steps if partial else _whole_steps
    queue = [(0, 0, start)]
    best = {start: 0}
    pushed = 0
    while queue:
        cost, _, position = heapq.heappop(queue)
        if best[position] < cost:
            continue
        red, blue, done = position
        finished = not partial or all((u, v) in done for v in outputs for u in graph.parents[v])
        if outputs <= blue and finished:
            return cost
        for words, after in steps(game, red, blue, done):
            if sum(int(graph.weights[v]) for v in after[0]) <= game.red and cost + words < best.get(after, 1 << 60):
                best[after] = cost + words
                pushed += 1
                heapq.heappush(queue, (cost + words, pushed, after))
    raise AssertionError("no schedule")


def _whole_steps(game, red, blue, done):
    graph = game.graph
    for v in blue - red:
        yield int(graph.weights[v]), (red | {v}, blue, done)
    for v in red - blue:
        yield int(graph.weights[v]), (red, blue | {v}, done)
    for v in red:
        yield 0, (red - {v}, blue, done)
    for v in range(len(graph)):
        needs = graph.parents[v]
        if needs and red.issuperset(needs) and v not in red and v not in done:
            after = done | {v} if game.variant is Variant.ONE_SHOT else done
            yield 0, (red | {v}, blue, after)
            for u in needs if game.sliding else ():
                yield 0, (red - {u} | {v}, blue, after)


def _partial_steps(game, red, blue, done):
    graph = game.graph
    for v in blue - red:
        yield int(graph.weights[v]), (red | {v}, blue, done)
    for v in red - blue:
        yield int(graph.weights[v]), (red, blue | {v}, done)
    for v in red:
        if v in blue or (v not in graph.outputs and all((v, w) in done for w in graph.children[v] if graph.useful[w])):
            yield 0, (red - {v}, blue, done)
    for v in range(len(graph)):
        begun = any((u, v) in done for u in graph.parents[v])
        for u in graph.parents[v]:
            finished = all((x, u) in done for x in graph.parents[u])
            if u in red and finished and (u, v) not in done and (v in red or not begun):
                yield 0, (red | {v}, blue - {v}, done | {(u, v)})


def random_game(seed, variant, sliding):
    """A small game with few pebbles; every third one has weights, every fourth outputs of its own choice."""
    draw = random.Random(seed)
    size = draw.randint(4, 6 if variant is Variant.PARTIAL else 7)
    names = [f"v{number}" for number in range(size)]
    inputs = draw.randint(1, 3)
    parents = {}
    for number, name in enumerate(names):
        most = min(number, 3)
        parents[name] = () if number < inputs else tuple(draw.sample(names[:number], draw.randint(1, most)))
    weights = {name: draw.randint(1, 3) for name in names} if seed % 3 == 0 else None
    chosen = draw.sample(names[inputs:], draw.randint(1, 2)) if seed % 4 == 0 and size - inputs > 1 else None
    graph = ComputationGraph.from_parents(parents, weights=weights, outputs=chosen)
    fewest = Game(graph=graph, red=1000, variant=variant, sliding=sliding).fewest_red
    return Game(graph=graph, red=fewest + draw.randint(0, 1), variant=variant, sliding=sliding)


def pyramid(height):
    rows = {f"{level},{i}": (f"{level - 1},{i}", f"{level - 1},{i + 1}") if level else ()
            for level in range(height + 1) for i in range(height + 1 - level)}  # fmt: skip
    return ComputationGraph.from_parents(rows, name="pyramid")


def tree(height):
    rows = {f"{level},{i}": (f"{level - 1},{2 * i}", f"{level - 1},{2 * i + 1}") if level else ()
            for level in range(height + 1) for i in range(2 ** (height - level))}  # fmt: skip
    return ComputationGraph.from_parents(rows, name="tree")


def product(rows, inner, columns):
    made: Parents = {}
    for i in range(rows):
        for j in range(columns):
            accumulate(made, f"C[{i},{j}]", [(f"A{i}{t}", f"B{t}{j}") for t in range(inner)], Accumulation.CHAIN)
    return ComputationGraph.from_parents(made, name="product")


def solved(game, **options):
    solution = cp_sat(game, **({"workers": 1, "time_limit_s": 60.0} | options))
    verdict = check(game, solution.schedule)
    assert verdict.legal, verdict.complaint
    assert verdict.cost_words == solution.cost_words >= solution.lower_bound_words
    return solution


@pytest.mark.parametrize(("variant", "sliding"), RULES)
@pytest.mark.parametrize("seed", range(20))
def test_the_least_cost_is_that_of_an_exhaustive_search(seed, variant, sliding):
    game = random_game(seed, variant, sliding)
    solution = solved(game)
    assert solution.ending is Ending.PROVEN
    assert solution.optimal
    assert solution.cost_words == least_cost(game)


@pytest.mark.parametrize(("variant", "sliding"), RULES[1:4])
def test_a_binary_tree_spills_one_value_for_every_subtree_too_deep(variant, sliding):
    # 8 leaves and the root; with the fewest pebbles one subtree of depth 2 has to be stored and loaded again
    graph = tree(3)
    red = Game(graph=graph, red=1000, variant=variant, sliding=sliding).fewest_red
    for pebbles, spilled in ((red, True), (red + 2, False)):
        game = Game(graph=graph, red=pebbles, variant=variant, sliding=sliding)
        assert (solved(game).cost_words > 9) is spilled


def test_a_pyramid_with_a_pebble_for_every_level_and_one_more_needs_only_its_inputs_and_its_top():
    # the black pebble game wins a pyramid of height h with h + 2 pebbles and not with fewer [Cook 1974]
    for height in (1, 2, 3):
        assert solved(Game(graph=pyramid(height), red=height + 2)).cost_words == height + 2
    assert solved(Game(graph=pyramid(3), red=4)).cost_words > 5


def test_a_product_with_five_pebbles_costs_fourteen():
    game = Game(graph=product(2, 2, 2), red=5, variant=Variant.ONE_SHOT)
    assert solved(game).lower_bound_words == 14


def test_attention_of_two_rows_moves_only_what_it_must_when_eight_words_fit_and_more_when_seven_do():
    graph = attention(Head(rows=2, keys=2, d=1), softmax=Softmax.UNSHIFTED)
    assert solved(Game(graph=graph, red=8)).cost_words == graph.compulsory_words == 8
    assert solved(Game(graph=graph, red=7)).cost_words == 9


def test_recomputing_pays_where_one_shot_has_to_spill():
    # x is needed at both ends of a long chain over which nothing else fits; its parent is needed throughout
    edges = [("a", "x"), ("x", "y"), ("a", "y"), ("b", "y"), ("y", "z"), ("a", "z"), ("b", "z"), ("x", "w"), ("z", "w")]
    graph = ComputationGraph.from_edges(edges)
    once, again = (Game(graph=graph, red=4, variant=variant) for variant in (Variant.ONE_SHOT, Variant.STANDARD))
    assert solved(again).cost_words == least_cost(again) == 3
    assert solved(once).cost_words == least_cost(once) == 5


def test_a_useless_child_binds_an_unsaved_value_of_the_partial_game():
    edges = [("a", "x"), ("x", "out"), ("b", "out"), ("x", "idle"), ("b", "idle"), ("idle", "end"), ("out", "end")]
    graph = ComputationGraph.from_edges(edges, outputs=["out"])
    for red in (2, 3, 4):
        game = Game(graph=graph, red=red, variant=Variant.PARTIAL)
        assert solved(game).cost_words == least_cost(game)


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("limit_s", [1e-9, 0.05, 0.3])
def test_out_of_time_the_bound_stays_below_and_the_schedule_above_the_optimum(variant, limit_s):
    accumulation = Accumulation.WIDE if variant is Variant.PARTIAL else Accumulation.CHAIN
    graph = attention(Head(rows=2, keys=2, d=2), softmax=Softmax.UNSHIFTED, accumulation=accumulation)
    game = Game(graph=graph, red=5, variant=variant)
    solution = solved(game, time_limit_s=limit_s)
    assert solution.ending is Ending.TIME
    assert graph.compulsory_words <= solution.lower_bound_words < solution.cost_words
    assert solution.gap > 1


def test_the_same_seed_gives_the_same_schedule():
    game = Game(graph=pyramid(3), red=4)
    assert solved(game, seed=3).schedule == solved(game, seed=3).schedule


@pytest.fixture
def heeded_interrupts():
    """A program that was started in the background may have been told to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
def test_interrupting_returns_what_is_known():
    graph = attention(Head(rows=2, keys=2, d=2), softmax=Softmax.UNSHIFTED)
    begun = []

    def interrupt_soon(lower, upper):
        if not begun:
            threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
        begun.append((lower, upper))

    began = time.monotonic()
    solution = solved(Game(graph=graph, red=4), progress=interrupt_soon, time_limit_s=300.0)
    assert solution.ending is Ending.INTERRUPTED
    assert time.monotonic() - began < 150
    assert begun[-1][0] <= solution.lower_bound_words < solution.cost_words <= begun[0][1]


def test_progress_tells_rising_bounds_and_falling_costs():
    told = []
    solution = solved(Game(graph=pyramid(3), red=4), progress=lambda lower, upper: told.append((lower, upper)))
    assert told == sorted(told, key=lambda pair: (pair[0], -pair[1]))
    assert told[-1] == (solution.lower_bound_words, solution.cost_words)


def test_a_schedule_to_beat_is_used_if_it_is_better_and_refused_if_illegal():
    game = Game(graph=pyramid(3), red=4)
    best = solved(game).schedule
    told = []
    again = solved(game, upper=best, progress=lambda lower, upper: told.append(upper))
    assert set(told) == {best.cost_words(game.graph)}
    assert again.schedule == best
    with pytest.raises(InvalidInput, match="illegal"):
        cp_sat(game, upper=Schedule.of([Move(MoveKind.STORE, 0)]))
    with pytest.raises(InvalidInput, match="time limit"):
        cp_sat(game, time_limit_s=0)


def test_an_output_that_is_an_input_costs_nothing():
    graph = ComputationGraph.from_edges([("a", "b")], outputs=["a"])
    solution = solved(Game(graph=graph, red=1))
    assert (solution.cost_words, len(solution.schedule)) == (0, 0)


@pytest.mark.parametrize(("variant", "sliding"), RULES)
def test_the_first_schedule_is_legal_whatever_the_game(variant, sliding):
    for seed in range(100, 160):
        game = random_game(seed, variant, sliding)
        verdict = check(game, first_schedule(game, shuffled=20, seed=seed))
        assert verdict.legal, verdict.complaint


def _subsets(vertices, most):
    return [frozenset(chosen) for size in range(most + 1) for chosen in combinations(vertices, size)]


@pytest.mark.parametrize("sliding", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_reasons_exclude_only_impossible_bursts_with_recomputation(seed, sliding):
    game = random_game(3 * seed + 1, Variant.STANDARD, sliding)
    task = Task.of(game)
    sets = _subsets(task.vertices, game.red)
    draw = random.Random(seed)
    impossible = [
        change
        for change in (Change.of(draw.choice(sets), draw.choice(sets)) for _ in range(40))
        if order_again(task, change) is None
    ]
    for change in impossible[:6]:
        obstacle = why_not_again(task, change)
        assert obstacle.end <= change.end
        assert not obstacle.start & change.start
        for start in sets:
            if order_again(task, Change.of(start, obstacle.end)) is not None:
                assert start & obstacle.start


@pytest.mark.parametrize("variant", [Variant.ONE_SHOT, Variant.PARTIAL])
@pytest.mark.parametrize("seed", range(10))
def test_a_reason_against_a_burst_is_a_smallest_part_of_it_without_order(seed, variant):
    game = random_game(3 * seed + 2, variant, False)
    task = Task.of(game)
    tight = Task.of(Game(graph=game.graph, red=game.fewest_red, variant=variant))
    burst = Burst.of(task.items, task.needed, task.vertices)
    if order_once(tight, burst) is not None:
        return
    reason = why_not_once(tight, burst)
    assert order_once(tight, reason) is None
    assert set(reason.items) <= set(burst.items)
    assert all(order_once(tight, smaller) is not None for smaller in reason.without_one())


def test_a_task_of_the_partial_game_has_an_item_for_every_edge():
    graph = ComputationGraph.from_edges([("a", "x"), ("b", "x"), ("x", "y")])
    items = Task.of(Game(graph=graph, red=3, variant=Variant.PARTIAL)).items
    assert items == (Item(2, (0,)), Item(2, (1,)), Item(3, (2,)))


def test_both_engines_agree_where_a_value_is_of_no_use():
    parents = {"b": ["a"], "c": ["b"], "e": ["c"], "u": ["b"]}
    graph = ComputationGraph.from_parents(parents, outputs=["e"], weights={"u": 3})
    game = Game(graph=graph, red=2, variant=Variant.PARTIAL)
    for solution in (best_first(game), cp_sat(game)):
        assert (solution.cost_words, solution.optimal) == (2, True)
        assert check(game, solution.schedule).legal
