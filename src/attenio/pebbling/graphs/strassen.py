"""A square matrix product by Strassen's recursion [Strassen 1969], as a graph.

A level cuts both matrices into quarters, adds quarters ten times, multiplies seven times and adds the products eight
times; the last level multiplies as chains. ``L`` and ``R`` are the left and right factors of a product ``M``, and their
digits say which: ``M3[i,j]`` is an entry of the third product, ``M32[i,j]`` of the second product inside it. A factor
that is a quarter as it stands has no vertices of its own. ``C[i,j;2]`` is the sum of the first two terms of C[i,j].

>>> graph = strassen(2, levels=1)
>>> [graph.names[u] for u in graph.parents[graph.number("M1[0,0]")]]
['L1[0,0]', 'R1[0,0]']
>>> [graph.names[u] for u in graph.parents[graph.number("L1[0,0]")]]
['A[0,0]', 'A[1,1]']
>>> strassen(6, levels=2)
Traceback (most recent call last):
attenio.errors.InvalidInput: n is 6 and cannot be halved 2 times; make it a multiple of 4, or use fewer levels
"""

from attenio.errors import InvalidInput
from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Accumulation, Parents, accumulate, stage
from attenio.quantities import checked_count

Quarter = tuple[int, int]
Combination = tuple[tuple[Quarter, int], ...]
Block = list[list[str]]

_A, _B, _C, _D = (0, 0), (0, 1), (1, 0), (1, 1)
# What each of the seven products multiplies: quarters of the left and of the right matrix, with their signs.
FACTORS: tuple[tuple[Combination, Combination], ...] = (
    (((_A, 1), (_D, 1)), ((_A, 1), (_D, 1))),
    (((_C, 1), (_D, 1)), ((_A, 1),)),
    (((_A, 1),), ((_B, 1), (_D, -1))),
    (((_D, 1),), ((_C, 1), (_A, -1))),
    (((_A, 1), (_B, 1)), ((_D, 1),)),
    (((_C, 1), (_A, -1)), ((_A, 1), (_B, 1))),
    (((_B, 1), (_D, -1)), ((_C, 1), (_D, 1))),
)
# Which products, numbered from 1, each quarter of the result adds up, with their signs.
RESULTS: dict[Quarter, tuple[tuple[int, int], ...]] = {
    _A: ((1, 1), (4, 1), (5, -1), (7, 1)),
    _B: ((3, 1), (5, 1)),
    _C: ((2, 1), (4, 1)),
    _D: ((1, 1), (2, -1), (3, 1), (6, 1)),
}
_ADDITIONS = 18
_MOST_LEVELS = 30


def strassen_vertices(n: int, levels: int) -> int:
    """How many vertices the graph has, its inputs included."""
    products, side, computed = 1, n, 0
    for _ in range(levels):
        side //= 2
        computed += products * _ADDITIONS * side**2
        products *= len(FACTORS)
    return 2 * n * n + computed + products * side**3


def strassen(n: int, levels: int = 1) -> ComputationGraph:
    """The product of two n x n matrices by ``levels`` levels of Strassen's recursion; level 0 is the plain product."""
    checked_count("n", n)
    checked_count("levels", levels, least=0, most=_MOST_LEVELS)
    if n % 2**levels:
        raise InvalidInput(
            f"n is {n:,} and cannot be halved {levels} {'time' if levels == 1 else 'times'};"
            f" make it a multiple of {2**levels:,}, or use fewer levels"
        )
    check_size("strassen", strassen_vertices(n, levels))
    left, right, result = (_block(matrix, n) for matrix in "ABC")
    parents: Parents = {entry: () for block in (left, right) for line in block for entry in line}
    _multiply(parents, left, right, result, "", levels)
    outputs = [entry for line in result for entry in line]
    return ComputationGraph.from_parents(parents, name="strassen", outputs=outputs)


def _multiply(parents: Parents, left: Block, right: Block, result: Block, path: str, levels: int) -> None:
    if levels == 0:
        columns = list(zip(*right, strict=True))
        for line, names in zip(left, result, strict=True):
            for column, name in zip(columns, names, strict=True):
                accumulate(parents, name, list(zip(line, column, strict=True)), Accumulation.CHAIN)
        return
    half = len(left) // 2
    products = []
    for number, (left_sum, right_sum) in enumerate(FACTORS, 1):
        inner = f"{path}{number}"
        products.append(_block(f"M{inner}", half))
        first = _added(parents, left, left_sum, f"L{inner}")
        second = _added(parents, right, right_sum, f"R{inner}")
        _multiply(parents, first, second, products[-1], inner, levels - 1)
    for quarter, terms in RESULTS.items():
        for i, line in enumerate(_quarter(result, quarter)):
            for j, name in enumerate(line):
                _sum(parents, name, [products[number - 1][i][j] for number, _ in terms])


def _added(parents: Parents, block: Block, terms: Combination, name: str) -> Block:
    """The sum of quarters of a block: one of them as it stands, or vertices of its own."""
    quarters = [_quarter(block, quarter) for quarter, _ in terms]
    if len(quarters) == 1:
        return quarters[0]
    total = _block(name, len(block) // 2)
    for i, line in enumerate(total):
        for j, entry in enumerate(line):
            parents[entry] = tuple(quarter[i][j] for quarter in quarters)
    return total


def _sum(parents: Parents, total: str, terms: list[str]) -> None:
    before = terms[0]
    for number, term in enumerate(terms[1:], 2):
        name = total if number == len(terms) else stage(total, str(number))
        parents[name] = (before, term)
        before = name


def _quarter(block: Block, quarter: Quarter) -> Block:
    half = len(block) // 2
    down, across = quarter[0] * half, quarter[1] * half
    return [line[across : across + half] for line in block[down : down + half]]


def _block(name: str, side: int) -> Block:
    return [[f"{name}[{i},{j}]" for j in range(side)] for i in range(side)]
