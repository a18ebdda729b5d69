"""A matrix product as a graph: C = A B, every entry a sum of ``depth`` products.

Vertices are ``A[i,t]``, ``B[t,j]`` and ``C[i,j]``; the stages of a sum are named as ``accumulate`` names them, so
``C[i,j;t]`` is the sum of the first t products in a chain.

>>> graph = product(rows=2, columns=2, depth=2)
>>> len(graph), [graph.names[u] for u in graph.parents[graph.number("C[1,0]")]]
(16, ['C[1,0;1]', 'A[1,1]', 'B[1,0]'])
>>> product(rows=0, columns=2, depth=2)
Traceback (most recent call last):
attenio.errors.InvalidInput: rows is 0; it must be at least 1
"""

from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Accumulation, Parents, accumulate, vertices_of_sum
from attenio.quantities import checked_count


def product(rows: int, columns: int, depth: int, accumulation: Accumulation = Accumulation.CHAIN) -> ComputationGraph:
    """The product of a ``rows`` x ``depth`` and a ``depth`` x ``columns`` matrix."""
    return _product("product", rows, columns, depth, accumulation)


def tall_skinny(n: int, d: int, accumulation: Accumulation = Accumulation.CHAIN) -> ComputationGraph:
    """The product of an n x d and a d x n matrix, as attention's scores are."""
    checked_count("n", n)
    checked_count("d", d)
    return _product("tall-skinny", n, n, d, accumulation)


def _product(name: str, rows: int, columns: int, depth: int, accumulation: Accumulation) -> ComputationGraph:
    for size, value in (("rows", rows), ("columns", columns), ("depth", depth)):
        checked_count(size, value)
    check_size(name, (rows + columns) * depth + rows * columns * vertices_of_sum(depth, accumulation))
    # Every name is made once and shared: a name made again would be hashed again, which doubles the time.
    left = [[f"A[{i},{t}]" for t in range(depth)] for i in range(rows)]
    right = [[f"B[{t},{j}]" for j in range(columns)] for t in range(depth)]
    parents: Parents = {entry: () for line in (*left, *right) for entry in line}
    below = list(zip(*right, strict=True))
    outputs = []
    for i in range(rows):
        for j in range(columns):
            outputs.append(f"C[{i},{j}]")
            accumulate(parents, outputs[-1], list(zip(left[i], below[j], strict=True)), accumulation)
    return ComputationGraph.from_parents(parents, name=name, outputs=outputs)
