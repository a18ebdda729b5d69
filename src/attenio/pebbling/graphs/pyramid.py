"""The graphs on which pebbling is best understood: the pyramid [Cook 1974] and the complete binary tree.

``v[l,i]`` is vertex i of level l; the inputs are level 0, and the last level has one vertex, the output.

>>> graph = pyramid(2)
>>> graph.names, [graph.names[u] for u in graph.parents[4]]
(('v[0,0]', 'v[0,1]', 'v[0,2]', 'v[1,0]', 'v[1,1]', 'v[2,0]'), ['v[0,1]', 'v[0,2]'])
>>> len(binary_tree(3)), binary_tree(3).names[-1]
(15, 'v[3,0]')
"""

from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Parents
from attenio.quantities import checked_count

# Beyond it the size itself is a number too long to print; any such tree is refused.
_HIGHEST_TREE = 62


def pyramid(height: int) -> ComputationGraph:
    """``height`` + 1 inputs, and above each level one with a vertex less: v[l,i] needs v[l-1,i] and v[l-1,i+1]."""
    checked_count("height", height)
    check_size("pyramid", (height + 1) * (height + 2) // 2)
    return _levels("pyramid", [height + 1 - level for level in range(height + 1)], apart=1)


def binary_tree(height: int) -> ComputationGraph:
    """2**height inputs, and above each level one with half the vertices: v[l,i] needs v[l-1,2i] and v[l-1,2i+1]."""
    checked_count("height", height, most=_HIGHEST_TREE)
    check_size("binary-tree", 2 ** (height + 1) - 1)
    return _levels("binary-tree", [1 << (height - level) for level in range(height + 1)], apart=2)


def _levels(name: str, widths: list[int], *, apart: int) -> ComputationGraph:
    """Levels of two-parent vertices; the first parents of neighbours are ``apart`` from each other."""
    before = [f"v[0,{place}]" for place in range(widths[0])]
    parents: Parents = dict.fromkeys(before, ())
    for level, width in enumerate(widths[1:], 1):
        after = [f"v[{level},{place}]" for place in range(width)]
        for place, vertex in enumerate(after):
            parents[vertex] = (before[apart * place], before[apart * place + 1])
        before = after
    return ComputationGraph.from_parents(parents, name=name, outputs=before)
