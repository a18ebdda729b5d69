"""Best-first search against a search of every position with the bare rules, and against known optima."""

import heapq
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.pebbling import ComputationGraph, Ending, Game, Schedule, Variant, check
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.graphs.product import product
from attenio.pebbling.graphs.pyramid import pyramid
from attenio.pebbling.solving.search.encoding import encode
from attenio.pebbling.solving.search.solver import best_first

State = tuple[int, int, int]  # red, blue, computed vertices or marked edges; all as bits


class BareRules:
    """The game as its rules read, one pebble at a time: nothing is fused, dropped, forced or left out."""

    def __init__(self, game: Game) -> None:
        self.game, self.graph = game, game.graph
        self.weights = game.graph.weights.tolist()
        self.edges = [(u, v) for v, needs in enumerate(game.graph.parents) for u in needs]
        self.outputs = sum(1 << v for v in game.graph.outputs.tolist())
        self.inputs = sum(1 << v for v in game.graph.inputs.tolist())

    def least_cost(self) -> int:
        costs: dict[State, int] = {(0, self.inputs, 0): 0}
        waiting = [(0, (0, self.inputs, 0))]
        while waiting:
            cost, state = heapq.heappop(waiting)
            if cost > costs[state]:
                continue
            if self.won(state):
                return cost
            for then, words in self.moves(*state):
                if cost + words < costs.get(then, 10**9):
                    costs[then] = cost + words
                    heapq.heappush(waiting, (cost + words, then))
        raise AssertionError("every game can be won")

    def won(self, state: State) -> bool:
        return not self.outputs & ~state[1] and all(
            self.finished(v, state[2]) for v in range(len(self.graph)) if self.outputs >> v & 1
        )

    def finished(self, vertex: int, marks: int) -> bool:
        if self.game.variant is not Variant.PARTIAL:
            return True
        return all(marks >> e & 1 for e, (_, v) in enumerate(self.edges) if v == vertex)

    def words(self, red: int) -> int:
        return sum(w for v, w in enumerate(self.weights) if red >> v & 1)

    def moves(self, red: int, blue: int, done: int) -> Iterator[tuple[State, int]]:
        for v, weight in enumerate(self.weights):
            bit = 1 << v
            if red & bit:
                if not blue & bit:
                    yield (red, blue | bit, done), weight
                if self.deletable(v, blue, done):
                    yield (red & ~bit, blue, done), 0
            elif blue & bit and self.words(red | bit) <= self.game.red:
                yield (red | bit, blue, done), weight
        if self.game.variant is Variant.PARTIAL:
            yield from self.accumulations(red, blue, done)
        else:
            yield from self.computations(red, blue, done)

    def deletable(self, vertex: int, blue: int, done: int) -> bool:
        if self.game.variant is not Variant.PARTIAL or blue >> vertex & 1:
            return True
        used = all(done >> e & 1 for e, (u, _) in enumerate(self.edges) if u == vertex)
        return used and not self.outputs >> vertex & 1

    def computations(self, red: int, blue: int, done: int) -> Iterator[tuple[State, int]]:
        once = self.game.variant is Variant.ONE_SHOT
        for v, needs in enumerate(self.graph.parents):
            if not needs or (once and done >> v & 1) or not all(red >> u & 1 for u in needs):
                continue
            then = done | 1 << v if once else 0
            for place in (0, *(1 << u for u in needs if self.game.sliding)):
                after = (red & ~place) | 1 << v
                if self.words(after) <= self.game.red:
                    yield (after, blue, then), 0

    def accumulations(self, red: int, blue: int, done: int) -> Iterator[tuple[State, int]]:
        for e, (u, v) in enumerate(self.edges):
            if done >> e & 1 or not red >> u & 1 or not self.finished(u, done):
                continue
            begun = any(done >> other & 1 for other, (_, w) in enumerate(self.edges) if w == v)
            if (red >> v & 1 or not begun) and self.words(red | 1 << v) <= self.game.red:
                yield (red | 1 << v, blue & ~(1 << v), done | 1 << e), 0


@st.composite
def games(draw: st.DrawFn, *, most: int = 7, variant: Variant | None = None) -> Game:
    count = draw(st.integers(3, most))
    inputs = draw(st.integers(1, max(1, count // 2)))
    chosen = draw(st.sampled_from(Variant)) if variant is None else variant
    parents: dict[str, tuple[str, ...]] = {f"v{v}": () for v in range(inputs)}
    for v in range(inputs, count):
        above = draw(st.lists(st.integers(0, v - 1), min_size=1, max_size=3, unique=True))
        parents[f"v{v}"] = tuple(f"v{u}" for u in above)
    weights = {f"v{v}": draw(st.integers(1, 3)) for v in range(count)} if draw(st.booleans()) else None
    more = draw(st.lists(st.integers(inputs, count - 1), max_size=2))
    needed = {u for needs in parents.values() for u in needs}
    sinks = [v for v in parents if v not in needed and parents[v]]
    outputs = sorted({*sinks, *(f"v{v}" for v in more)}) if draw(st.booleans()) else None
    graph = ComputationGraph.from_parents(parents, outputs=outputs, weights=weights)
    sliding = chosen is not Variant.PARTIAL and draw(st.booleans())
    ample = Game(graph=graph, red=30, variant=chosen, sliding=sliding)
    return Game(graph=graph, red=ample.fewest_red + draw(st.integers(0, 2)), variant=chosen, sliding=sliding)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(games())
def test_it_finds_the_least_cost_that_the_bare_rules_allow(game: Game) -> None:
    solution = best_first(game)
    assert solution.cost_words == solution.lower_bound_words == BareRules(game).least_cost()


@settings(max_examples=26, deadline=None, derandomize=True)
@given(games(most=8, variant=Variant.STANDARD))
def test_computing_again_costs_the_least_that_the_bare_rules_allow(game: Game) -> None:
    tight = Game(graph=game.graph, red=game.fewest_red, sliding=game.sliding)
    solution = best_first(tight)
    assert solution.cost_words == solution.lower_bound_words == BareRules(tight).least_cost()


def test_a_value_may_be_stored_before_another_takes_its_place() -> None:
    edges = ["0 3", "1 3", "2 3", "1 4", "3 4", "1 5", "0 5", "4 5", "3 6", "5 6", "0 7"]
    pairs = [(before, after) for before, after in map(str.split, edges)]
    game = Game(graph=ComputationGraph.from_edges(pairs, outputs=["4", "6", "7"]), red=3, sliding=True)
    solution = best_first(game)
    assert solution.cost_words == solution.lower_bound_words == BareRules(game).least_cost() == 8


def test_chains_before_the_inputs_change_nothing_where_they_can_be_computed_in_place() -> None:
    short = pyramid(4)
    parents = {name: tuple(short.names[u] for u in short.parents[v]) for v, name in enumerate(short.names)}
    for name in [name for name, needs in parents.items() if not needs]:
        chain = [f"{name} before {step}" for step in range(12)]
        parents.update({chain[0]: (), **{after: (before,) for before, after in pairwise(chain)}, name: (chain[-1],)})
    long = ComputationGraph.from_parents(parents)
    assert len(long) > 64
    for red in (3, 4):
        costs = {best_first(Game(graph=graph, red=red, sliding=True)).cost_words for graph in (short, long)}
        assert len(costs) == 1


@settings(max_examples=20, deadline=None, derandomize=True)
@given(games(most=12))
def test_its_schedules_pass_the_referee_at_their_stated_cost(game: Game) -> None:
    solution = best_first(game)
    verdict = check(game, solution.schedule)
    assert verdict.complaint is None
    assert verdict.cost_words == solution.cost_words


@pytest.mark.parametrize("variant", Variant)
def test_symmetries_change_no_optimum(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = attention(Head(rows=2, keys=2, d=1), softmax=Softmax.UNSHIFTED)
    game = Game(graph=graph, red=5, variant=variant)
    with_symmetries = best_first(game)
    monkeypatch.setattr("attenio.pebbling.solving.search.solver.encode", partial(encode, symmetries=1))
    without = best_first(game)
    assert with_symmetries.cost_words == without.cost_words
    assert with_symmetries.explored < without.explored


@pytest.mark.parametrize("sliding", [False, True])
def test_a_pyramid_with_room_for_a_row_and_more_costs_what_is_compulsory(sliding: bool) -> None:
    graph = pyramid(4)
    ample = best_first(Game(graph=graph, red=6, sliding=sliding))
    assert ample.cost_words == graph.compulsory_words
    tight = best_first(Game(graph=graph, red=3, sliding=sliding))
    assert tight.cost_words > graph.compulsory_words


def test_sums_filled_edge_by_edge_never_cost_more_than_sums_made_at_once() -> None:
    graph = product(2, 2, 2, accumulation=Accumulation.WIDE)
    for red in (4, 5, 6):
        whole = best_first(Game(graph=graph, red=red, variant=Variant.ONE_SHOT))
        parts = best_first(Game(graph=graph, red=red, variant=Variant.PARTIAL))
        assert parts.cost_words <= whole.cost_words


def test_at_the_time_limit_the_best_schedule_and_a_lower_bound_remain() -> None:
    game = Game(graph=attention(Head(rows=3, keys=3, d=1)), red=7, variant=Variant.ONE_SHOT)
    solution = best_first(game, time_limit_s=0.05)
    assert solution.ending is Ending.TIME
    assert check(game, solution.schedule).cost_words == solution.cost_words
    assert game.graph.compulsory_words <= solution.lower_bound_words < solution.cost_words


def test_at_the_memory_limit_the_best_schedule_and_a_lower_bound_remain() -> None:
    game = Game(graph=attention(Head(rows=3, keys=3, d=1)), red=7, variant=Variant.ONE_SHOT)
    solution = best_first(game, memory_limit_bytes=2**16)
    assert solution.ending is Ending.MEMORY
    assert check(game, solution.schedule).legal
    assert solution.lower_bound_words < solution.cost_words


def test_an_interrupt_leaves_the_best_so_far() -> None:
    def interrupt(lower_bound: int, best: int) -> None:
        assert game.graph.compulsory_words <= lower_bound <= best
        raise KeyboardInterrupt

    game = Game(graph=attention(Head(rows=3, keys=3, d=1)), red=7, variant=Variant.ONE_SHOT)
    solution = best_first(game, progress=interrupt)
    assert solution.ending is Ending.INTERRUPTED
    assert check(game, solution.schedule).legal


def test_larger_graphs_are_refused_in_one_line() -> None:
    graph = attention(Head(rows=4, keys=4, d=4))
    with pytest.raises(InvalidInput, match=r"has 2\d\d vertices .* takes up to 128") as refusal:
        best_first(Game(graph=graph, red=30))
    assert "\n" not in str(refusal.value)


def test_a_schedule_to_beat_is_returned_when_time_is_up_and_changes_no_optimum() -> None:
    game = Game(graph=attention(Head(rows=2, keys=2, d=1), softmax=Softmax.UNSHIFTED), red=5, sliding=True)
    alone = best_first(game)
    assert best_first(game, upper=alone.schedule).cost_words == alone.cost_words
    hurried = best_first(game, upper=alone.schedule, time_limit_s=1e-9)
    assert hurried.lower_bound_words <= hurried.cost_words == alone.cost_words


def test_an_illegal_schedule_to_beat_is_refused() -> None:
    game = Game(graph=pyramid(2), red=3)
    with pytest.raises(InvalidInput, match="the schedule to beat is illegal"):
        best_first(game, upper=Schedule.of([]))
