"""The graph of Strassen's recursion computes the product, with fewer multiplications."""

import numpy as np
import pytest

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.product import product
from attenio.pebbling.graphs.strassen import strassen, strassen_vertices

from .evaluation import entries, evaluate, matrix, sum_of_products

# Signs of the second and later terms of sums, written down from the algorithm and not from the table in the source.
LEFT_SIGN = {1: 1, 2: 1, 5: 1, 6: -1, 7: -1}
RIGHT_SIGN = {1: 1, 3: -1, 4: -1, 6: 1, 7: 1}


def digits(name: str) -> str:
    return name.partition("[")[0][1:]


def strassen_rule(name: str, needs: dict[str, complex]) -> complex:
    names, values = list(needs), list(needs.values())
    if name.startswith(("L", "R")):
        sign = (LEFT_SIGN if name.startswith("L") else RIGHT_SIGN)[int(digits(name)[-1])]
        return values[0] + sign * values[1]
    last = names[-1]
    # A sum of products M one level down; in a plain product the last factor is an entry of a right matrix.
    if last.startswith("M") and len(digits(last)) == len(digits(name)) + 1:
        subtracts = digits(last)[-1] == "5" and ";2]" in names[0]
        subtracts |= digits(last)[-1] == "2"
        return values[0] - values[1] if subtracts else values[0] + values[1]
    return sum_of_products(name, needs, Accumulation.CHAIN)


@pytest.mark.parametrize(("n", "levels"), [(2, 1), (4, 1), (4, 2), (6, 1), (8, 2), (8, 3), (3, 0), (12, 2)])
def test_its_values_are_the_product(n: int, levels: int) -> None:
    random = np.random.default_rng(n)
    a, b = random.standard_normal((n, n)), random.standard_normal((n, n))
    graph = strassen(n, levels)
    values = evaluate(graph, entries("A", a) | entries("B", b), strassen_rule)
    np.testing.assert_allclose(matrix("C", (n, n), values), a @ b, atol=1e-10)
    assert graph.outputs.size == n * n


@pytest.mark.parametrize(("n", "levels"), [(2, 1), (4, 1), (4, 2), (8, 2), (8, 3)])
def test_its_size_follows_the_recursion(n: int, levels: int) -> None:
    def computed(side: int, deep: int) -> int:
        return side**3 if deep == 0 else 18 * (side // 2) ** 2 + 7 * computed(side // 2, deep - 1)

    assert len(strassen(n, levels)) == strassen_vertices(n, levels) == 2 * n * n + computed(n, levels)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_every_level_multiplies_seven_times_where_the_plain_product_multiplies_eight_times(levels: int) -> None:
    n = 2**levels
    graph = strassen(n, levels)
    products = [name for name in graph.names if name.startswith("M") and len(digits(name)) == levels]
    assert len(products) == 7**levels < 8**levels


def test_no_level_is_the_plain_product() -> None:
    plain = product(3, 3, 3)
    graph = strassen(3, 0)
    assert (graph.names, graph.parents) == (plain.names, plain.parents)


@pytest.mark.parametrize(
    ("n", "levels", "complaint"),
    [
        (6, 2, "n is 6 and cannot be halved 2 times; make it a multiple of 4"),
        (3, 1, "n is 3 and cannot be halved 1 time; make it a multiple of 2"),
        (0, 1, "n is 0"),
        (4, -1, "levels is -1"),
        (4, 99, "levels is 99"),
        (2**20, 10, "vertices"),
    ],
)
def test_bad_sizes_are_refused(n: int, levels: int, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        strassen(n, levels)
