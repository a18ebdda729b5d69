"""Small games to try bounds on."""

import random
from collections.abc import Iterator

import numpy as np

from attenio.pebbling import ComputationGraph, Game

from ..strategies import RULES


def random_graph(seed: int, most: int = 6) -> ComputationGraph:
    """Mostly unit weights and all sinks for outputs, sometimes neither."""
    draw = random.Random(seed)
    size = draw.randint(4, most)
    inputs = draw.randint(1, size // 2)
    parents: dict[str, tuple[str, ...]] = {str(v): () for v in range(inputs)}
    for v in range(inputs, size):
        count = min(v, draw.choice((1, 2, 2, 2, 3)))
        parents[str(v)] = tuple(str(u) for u in draw.sample(range(v), count))
    weights = {str(v): draw.randint(1, 3) for v in range(size)} if draw.random() < 0.3 else None
    outputs = [str(v) for v in draw.sample(range(size), 2)] if draw.random() < 0.3 else None
    return ComputationGraph.from_parents(parents, name=f"random {seed}", weights=weights, outputs=outputs)


def random_design(seed: int) -> ComputationGraph:
    """Few inputs, and values that need two or three of them each: epochs matter more than dependencies."""
    draw = random.Random(seed)
    inputs = draw.randint(3, 4)
    parents: dict[str, tuple[str, ...]] = {f"x{i}": () for i in range(inputs)}
    for number in range(3):
        chosen = draw.sample(range(inputs), draw.choice((2, 2, 3)))
        chained = (f"y{number - 1}",) if number and draw.random() < 0.4 else ()
        parents[f"y{number}"] = (*chained, *(f"x{i}" for i in chosen))
    outputs = [name for name in parents if name.startswith("y")] if draw.random() < 0.5 else None
    return ComputationGraph.from_parents(parents, name=f"design {seed}", outputs=outputs)


def tight_games(graph: ComputationGraph) -> Iterator[Game]:
    """Every kind of game, with as few red pebbles as can be and a few words more."""
    for number, (variant, sliding) in enumerate(RULES):
        fewest = Game(graph=graph, red=10_000, variant=variant, sliding=sliding).fewest_red
        yield Game(graph=graph, red=fewest + number % 2, variant=variant, sliding=sliding)


def lines_of_a_plane(lines: int) -> ComputationGraph:
    """Values that each need four of thirteen inputs, any two of them sharing one: lines of the plane of order three."""
    edges = [(f"point {(line + step) % 13}", f"line {line}") for line in range(lines) for step in (0, 1, 3, 9)]
    return ComputationGraph.from_edges(edges, name="plane")


def random_order(game: Game, seed: int) -> list[int]:
    """A random order of the useful computed vertices in which each comes after its parents."""
    draw = random.Random(seed)
    graph = game.graph
    waiting = set(np.flatnonzero(graph.useful & (np.diff(graph.parent_starts) > 0)).tolist())
    order = []
    while waiting:
        ready = sorted(v for v in waiting if not any(u in waiting for u in graph.parents[v]))
        order.append(draw.choice(ready))
        waiting.remove(order[-1])
    return order
