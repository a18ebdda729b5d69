"""The graph of a matrix product computes the product."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.product import product, tall_skinny

from ..strategies import QUICK
from .evaluation import entries, evaluate, matrix, sum_of_products

sizes = st.integers(1, 5)
ways = st.sampled_from(Accumulation)


@QUICK
@given(sizes, sizes, sizes, ways)
def test_its_values_are_the_product(rows: int, columns: int, depth: int, how: Accumulation) -> None:
    random = np.random.default_rng(rows * 100 + columns * 10 + depth)
    a, b = random.standard_normal((rows, depth)), random.standard_normal((depth, columns))
    graph = product(rows, columns, depth, how)
    values = evaluate(graph, entries("A", a) | entries("B", b), lambda name, needs: sum_of_products(name, needs, how))
    np.testing.assert_allclose(matrix("C", (rows, columns), values), a @ b, atol=1e-12)
    outputs = {graph.names[vertex] for vertex in graph.outputs}
    assert outputs == {f"C[{i},{j}]" for i in range(rows) for j in range(columns)}


@QUICK
@given(sizes, sizes, sizes, ways)
def test_its_size_follows_a_formula(rows: int, columns: int, depth: int, how: Accumulation) -> None:
    graph = product(rows, columns, depth, how)
    per_entry = {Accumulation.CHAIN: depth, Accumulation.TREE: 2 * depth - 1, Accumulation.WIDE: depth + (depth > 1)}
    assert len(graph) == (rows + columns) * depth + rows * columns * per_entry[how]
    per_sum = {Accumulation.CHAIN: 3 * depth - 1, Accumulation.TREE: 4 * depth - 2, Accumulation.WIDE: 3 * depth}
    assert graph.edges == rows * columns * (per_sum[how] if depth > 1 else 2)
    assert graph.compulsory_words == (rows + columns) * depth + rows * columns


@QUICK
@given(sizes, sizes, ways)
def test_tall_and_skinny_is_a_product_of_two_such_matrices(n: int, d: int, how: Accumulation) -> None:
    skinny, general = tall_skinny(n, d, how), product(n, n, d, how)
    assert skinny.names == general.names
    assert skinny.parents == general.parents
    assert skinny.name == "tall-skinny"


@pytest.mark.parametrize(
    ("how", "vertices"),
    [
        (Accumulation.CHAIN, "1,000,002,000,000,000,000"),
        (Accumulation.TREE, "2,000,001,000,000,000,000"),
        (Accumulation.WIDE, "1,000,003,000,000,000,000"),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_built(how: Accumulation, vertices: str) -> None:
    with pytest.raises(InvalidInput, match=f"product has {vertices} vertices"):
        product(10**6, 10**6, 10**6, how)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, -1, 1), (1, 1, 2.5)])
def test_sizes_are_counts(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidInput, match=r"^(rows|columns|depth) is"):
        product(*sizes)


@pytest.mark.parametrize("sizes", [(0, 1), (1, -1), (1, True)])
def test_sizes_of_a_tall_and_skinny_product_are_counts(sizes: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput, match=r"^[nd] is"):
        tall_skinny(*sizes)
