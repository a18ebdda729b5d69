"""Small random graphs and games, and the plainest legal schedule, for the laws of the pebble game.

Import it as ``from .strategies import games`` (from a folder further down, ``from ..strategies``).
"""

import string

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Move, MoveKind, Schedule

QUICK = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

# Every variant, and whether values slide.
RULES = [
    (Variant.STANDARD, False),
    (Variant.STANDARD, True),
    (Variant.ONE_SHOT, False),
    (Variant.ONE_SHOT, True),
    (Variant.PARTIAL, False),
]

_HEAVIEST = 3
_PLENTY = 2**30


@st.composite
def graphs(
    draw: st.DrawFn,
    max_vertices: int = 7,
    max_parents: int = 3,
    weighted: bool = False,
    min_vertices: int = 1,
    inner_outputs: bool = True,
) -> ComputationGraph:
    """Graphs of vertices a, b, c, ... with edges from earlier to later ones.

    Vertices that nothing needs are outputs; with ``inner_outputs`` some others may be outputs too, inputs among them.
    """
    names = _names(draw(st.integers(min_vertices, max_vertices)))
    parents = {
        name: draw(st.lists(st.sampled_from(names[:place]), max_size=max_parents, unique=True)) if place else []
        for place, name in enumerate(names)
    }
    needed = {each for needs in parents.values() for each in needs}
    outputs = [name for name in names if name not in needed]
    if inner_outputs and needed:
        outputs += draw(st.lists(st.sampled_from(sorted(needed)), max_size=2, unique=True))
    weights = {name: draw(st.integers(1, _HEAVIEST)) for name in names} if weighted else None
    return ComputationGraph.from_parents(parents, name="random", outputs=outputs, weights=weights)


@st.composite
def games(
    draw: st.DrawFn,
    max_vertices: int = 7,
    max_parents: int = 3,
    weighted: bool = False,
    variants: tuple[Variant, ...] = tuple(Variant),
    most_extra_red: int = 3,
) -> Game:
    """Games on such graphs with at most ``most_extra_red`` pebbles beyond the fewest, with and without sliding."""
    graph = draw(graphs(max_vertices, max_parents, weighted))
    variant = draw(st.sampled_from(variants))
    sliding = variant is not Variant.PARTIAL and draw(st.booleans())
    fewest = Game(graph=graph, red=_PLENTY, variant=variant, sliding=sliding).fewest_red
    red = fewest + draw(st.integers(0, most_extra_red))
    return Game(graph=graph, red=red, variant=variant, sliding=sliding)


def spilling_schedule(game: Game) -> Schedule:
    """Every useful value in order, from loaded parents, stored at once and deleted: legal with the fewest pebbles."""
    graph = game.graph
    moves: list[Move] = []
    for vertex in range(len(graph)):
        needs = graph.parents[vertex]
        if not needs or not graph.useful[vertex]:
            continue
        if game.variant is Variant.PARTIAL:
            for parent in needs:
                moves += [Move(MoveKind.LOAD, parent), Move(MoveKind.ACCUMULATE, vertex, parent)]
                moves.append(Move(MoveKind.DELETE, parent))
        else:
            moves += [Move(MoveKind.LOAD, parent) for parent in needs]
            replaced = max(needs, key=lambda parent: graph.weights[parent]) if game.sliding else None
            moves.append(Move(MoveKind.COMPUTE, vertex, replaced))
            moves += [Move(MoveKind.DELETE, parent) for parent in needs if parent != replaced]
        moves += [Move(MoveKind.STORE, vertex), Move(MoveKind.DELETE, vertex)]
    return Schedule.of(moves)


def _names(count: int) -> list[str]:
    letters = string.ascii_lowercase
    return [letters[number % 26] + (str(number // 26) if number >= 26 else "") for number in range(count)]
