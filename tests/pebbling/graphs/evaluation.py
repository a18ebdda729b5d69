"""The values of a graph's vertices, computed in order from what each kind of vertex does with its parents."""

from collections.abc import Callable, Mapping

import numpy as np

from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.accumulation import Accumulation

# What a vertex is, given its name and the values of its parents by name, in order.
Rule = Callable[[str, dict[str, complex]], complex]


def evaluate(graph: ComputationGraph, inputs: Mapping[str, complex], rule: Rule) -> dict[str, complex]:
    """Every vertex's value; inputs as given, the others by the rule."""
    values: dict[str, complex] = {}
    for vertex, name in enumerate(graph.names):
        needs = {graph.names[parent]: values[graph.names[parent]] for parent in graph.parents[vertex]}
        values[name] = rule(name, needs) if needs else inputs[name]
    return values


def entries(name: str, matrix: np.ndarray) -> dict[str, float]:
    """A matrix as named values."""
    return {f"{name}[{','.join(map(str, at))}]": float(value) for at, value in np.ndenumerate(matrix)}


def matrix(name: str, shape: tuple[int, ...], values: Mapping[str, complex], missing: complex = 0) -> np.ndarray:
    """Named values as a matrix."""
    return np.array([values.get(f"{name}[{','.join(map(str, at))}]", missing) for at in np.ndindex(*shape)]).reshape(
        shape
    )


def sum_of_products(name: str, needs: dict[str, complex], how: Accumulation) -> complex:
    """A vertex that ``accumulate`` made for a sum of products of two factors."""
    first, *rest = needs.values()
    if not rest:
        return first
    if how is Accumulation.CHAIN:
        # two factors, with the sum so far before them from the second stage on
        return first * rest[0] if len(rest) == 1 else first + rest[0] * rest[1]
    partial_sums = all(";*" in need or "-" in need for need in needs)
    return sum(needs.values()) if partial_sums else first * rest[0]


def ancestors(graph: ComputationGraph, name: str) -> set[str]:
    """Every vertex that a vertex depends on."""
    found = {graph.number(name)}
    for vertex in range(graph.number(name), -1, -1):
        if vertex in found:
            found |= set(graph.parents[vertex])
    return {graph.names[vertex] for vertex in found} - {name}
