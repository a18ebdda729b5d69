"""What a game refuses before it begins."""

import pytest
from hypothesis import given

from attenio.errors import InvalidInput
from attenio.pebbling.checking import check
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph

from .strategies import QUICK, games, spilling_schedule

ADDITION = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")], name="addition")
HEAVY = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")], name="addition", weights={"a": 5, "b": 2, "sum": 3})


@QUICK
@given(games(weighted=True, most_extra_red=0))
def test_the_fewest_pebbles_win_by_storing_everything(game: Game) -> None:
    verdict = check(game, spilling_schedule(game))
    assert verdict.complaint is None
    assert verdict.peak_red <= game.fewest_red


@QUICK
@given(games(weighted=True, most_extra_red=0))
def test_one_pebble_less_than_the_fewest_is_refused_with_both_numbers(game: Game) -> None:
    if game.fewest_red == 1:
        return
    with pytest.raises(InvalidInput) as refusal:
        Game(graph=game.graph, red=game.fewest_red - 1, variant=game.variant, sliding=game.sliding)
    assert f"at least {game.fewest_red:,} red pebbles" in str(refusal.value)
    assert f"{game.fewest_red - 1:,} given" in str(refusal.value)


@QUICK
@given(games(weighted=True))
def test_no_legal_schedule_costs_less_than_the_compulsory_words(game: Game) -> None:
    assert check(game, spilling_schedule(game)).cost_words >= game.graph.compulsory_words


@pytest.mark.parametrize(
    ("variant", "sliding", "light", "heavy"),
    [
        (Variant.STANDARD, False, 3, 10),
        (Variant.STANDARD, True, 2, 7),
        (Variant.ONE_SHOT, False, 3, 10),
        (Variant.ONE_SHOT, True, 2, 7),
        (Variant.PARTIAL, False, 2, 8),
    ],
)
def test_fewest_pebbles_of_an_addition(variant: Variant, sliding: bool, light: int, heavy: int) -> None:
    assert Game(graph=ADDITION, red=100, variant=variant, sliding=sliding).fewest_red == light
    assert Game(graph=HEAVY, red=100, variant=variant, sliding=sliding).fewest_red == heavy


def test_sliding_onto_a_lighter_parent_needs_the_room_of_the_result() -> None:
    graph = ComputationGraph.from_edges([("a", "wide"), ("b", "wide")], weights={"wide": 9})
    assert Game(graph=graph, red=100, sliding=True).fewest_red == 10


def test_values_that_no_output_needs_ask_for_no_pebbles() -> None:
    edges = [("a", "out"), *((f"x{i}", "unused") for i in range(9))]
    assert Game(graph=ComputationGraph.from_edges(edges, outputs=["out"]), red=2).fewest_red == 2


def test_a_graph_of_inputs_only_needs_one_pebble() -> None:
    assert Game(graph=ComputationGraph.from_parents({"a": ()}), red=1).fewest_red == 1


@pytest.mark.parametrize("red", [0, -1, 2.5, True, "3", float("nan"), 2**50])
def test_pebbles_are_a_count(red: object) -> None:
    with pytest.raises(InvalidInput, match="red pebbles"):
        Game(graph=ADDITION, red=red)  # type: ignore[arg-type]


def test_the_partial_game_has_no_sliding() -> None:
    with pytest.raises(InvalidInput, match="partial game has no sliding"):
        Game(graph=ADDITION, red=5, variant=Variant.PARTIAL, sliding=True)
