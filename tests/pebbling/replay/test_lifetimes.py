from hypothesis import given

from attenio.pebbling import Game, Move, MoveKind, Schedule, Variant, check
from attenio.pebbling.replay.replay import with_deletions

from ..strategies import QUICK, games, graphs, spilling_schedule

PLENTY = 10**6


def redone(game, schedule):
    """The same loads, stores and computations with deletions and places of their own."""
    bare = [Move(move.kind, move.vertex) for move in schedule if move.kind is not MoveKind.DELETE]
    return Schedule.of(move for several in with_deletions(game.graph, bare) for move in several)


def keeping_schedule(graph):
    """Every input is loaded once and every value kept."""
    moves = [Move(MoveKind.COMPUTE if graph.parents[v] else MoveKind.LOAD, v) for v in range(len(graph))]
    return Schedule.of([*moves, *(Move(MoveKind.STORE, v) for v in graph.outputs.tolist())])


@QUICK
@given(games(weighted=True, variants=(Variant.STANDARD, Variant.ONE_SHOT)))
def test_deletions_fit_the_fewest_pebbles_and_change_no_cost(game):
    game = Game(graph=game.graph, red=game.fewest_red, variant=game.variant, sliding=game.sliding)
    spilling = spilling_schedule(game)
    sliding = Game(graph=game.graph, red=game.red, variant=game.variant, sliding=True)
    verdict = check(sliding, redone(game, spilling))
    assert verdict.complaint is None
    assert verdict.cost_words == check(game, spilling).cost_words


@QUICK
@given(graphs(weighted=True))
def test_a_value_is_red_from_where_it_is_made_to_where_it_is_needed_last(graph):
    game = Game(graph=graph, red=PLENTY, sliding=True)
    schedule = redone(game, keeping_schedule(graph))
    assert check(game, schedule).complaint is None
    last_use = {v: v for v in range(len(graph))}
    for v in range(len(graph)):
        last_use.update(dict.fromkeys(graph.parents[v], v))
    last_use.update(dict.fromkeys(graph.outputs.tolist(), len(graph)))
    # With values made in the order of their numbers, those red after v are the ones made by then and needed later; a
    # value that nothing needs is red while it is made.
    made, red = -1, set()
    for move in schedule:
        if move.kind in (MoveKind.LOAD, MoveKind.COMPUTE):
            if made >= 0:
                assert red == {u for u in range(made + 1) if last_use[u] > made}
            made = move.vertex
            red.add(move.vertex)
            red.discard(move.parent)
        elif move.kind is MoveKind.DELETE:
            red.remove(move.vertex)
    assert not red
