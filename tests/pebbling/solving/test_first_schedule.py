"""Laws of the schedule that is made at once."""

import pytest

from attenio.pebbling import Game, Variant, check
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.graphs.product import product
from attenio.pebbling.graphs.pyramid import pyramid
from attenio.pebbling.solving.first_schedule import first_schedule

GRAPHS = [
    attention(Head(rows=3, keys=4, d=2)),
    attention(Head(rows=2, keys=3, d=2), softmax=Softmax.PLAIN, accumulation=Accumulation.WIDE),
    product(3, 2, 3, accumulation=Accumulation.TREE),
    pyramid(5),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
@pytest.mark.parametrize(("variant", "sliding"), [*((v, False) for v in Variant), (Variant.ONE_SHOT, True)])
@pytest.mark.parametrize("more", [0, 2, 1000])
def test_it_is_legal_with_any_number_of_pebbles(graph, variant, sliding, more) -> None:
    fewest = Game(graph=graph, red=1000, variant=variant, sliding=sliding).fewest_red
    game = Game(graph=graph, red=fewest + more, variant=variant, sliding=sliding)
    verdict = check(game, first_schedule(game))
    assert verdict.complaint is None
    if more == 1000:
        assert verdict.cost_words == graph.compulsory_words
