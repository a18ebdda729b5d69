"""The gradient of one head as a graph, from the output's gradient and what the forward run saved.

Inputs are ``Q[i,t]``, ``K[j,t]``, ``V[j,c]``, the output ``O[i,c]``, its gradient ``dO[i,c]`` and ``L[i]``, the
logarithm of a row's sum of exponentials. From them, for the scores that the mask requires,

    S = Q K^T,   P = exp(S - L),   D_i = sum_c dO_ic O_ic,   dP = dO V^T,   dS = P (dP - D),
    dQ = dS K,   dK = dS^T Q,   dV = P^T dO

with sums made as ``accumulate`` makes them: ``dQ[i,t;s]`` is the sum of the first s required terms of dQ[i,t]. A key
that no row requires has a gradient of zero, and no vertices for it.

>>> graph = attention_backward(Head(rows=2, keys=2, d=1))
>>> [graph.names[u] for u in graph.parents[graph.number("dS[0,1]")]]
['P[0,1]', 'dP[0,1]', 'D[0]']
>>> [graph.names[u] for u in graph.parents[graph.number("dK[1,0]")]]
['dK[1,0;1]', 'dS[1,1]', 'Q[1,0]']
"""

from attenio.pebbling.graph import ComputationGraph, check_size
from attenio.pebbling.graphs.accumulation import Accumulation, Parents, accumulate, vertices_of_sum
from attenio.pebbling.graphs.attention import Head, weights_of


def backward_vertices(head: Head, accumulation: Accumulation = Accumulation.CHAIN) -> int:
    """How many vertices the graph has, its inputs included."""
    d, width = head.d, head.value_dim
    inputs = head.inputs + head.rows * (2 * width + 1)
    scores = int(head.required.sum())
    per_score = vertices_of_sum(d, accumulation) + vertices_of_sum(width, accumulation) + 2
    by_row = [vertices_of_sum(count, accumulation) for count in head.required.sum(axis=1).tolist()]
    by_key = [vertices_of_sum(count, accumulation) for count in head.required.sum(axis=0).tolist() if count]
    gradients = d * sum(by_row) + (d + width) * sum(by_key)
    return inputs + scores * per_score + head.rows * vertices_of_sum(width, accumulation) + gradients


def attention_backward(head: Head, *, accumulation: Accumulation = Accumulation.CHAIN) -> ComputationGraph:
    """The graph of dQ, dK and dV of one head."""
    check_size("attention-backward", backward_vertices(head, accumulation))
    parents: Parents = {}
    d, width = head.d, head.value_dim
    matrices = (("Q", head.rows, d), ("K", head.keys, d), ("V", head.keys, width), ("O", head.rows, width))
    for matrix, height, columns in (*matrices, ("dO", head.rows, width)):
        parents.update({f"{matrix}[{i},{t}]": () for i in range(height) for t in range(columns)})
    parents.update({f"L[{i}]": () for i in range(head.rows)})
    outputs: list[str] = []
    for i in range(head.rows):
        _score_gradients(parents, head, i, accumulation)
        for t in range(d):
            terms = [(f"dS[{i},{j}]", f"K[{j},{t}]") for j in head.needed_keys(i)]
            outputs.append(f"dQ[{i},{t}]")
            accumulate(parents, outputs[-1], terms, accumulation)
    for j in range(head.keys):
        rows = head.required[:, j].nonzero()[0].tolist()
        if not rows:
            continue
        for gradient, factor, other, columns in (("dK", "dS", "Q", d), ("dV", "P", "dO", width)):
            for c in range(columns):
                outputs.append(f"{gradient}[{j},{c}]")
                terms = [(f"{factor}[{i},{j}]", f"{other}[{i},{c}]") for i in rows]
                accumulate(parents, outputs[-1], terms, accumulation)
    weights = weights_of(parents, outputs, head.accumulator_words)
    return ComputationGraph.from_parents(parents, name="attention-backward", outputs=outputs, weights=weights)


def _score_gradients(parents: Parents, head: Head, i: int, accumulation: Accumulation) -> None:
    """The probabilities of one row and the gradients of its scores."""
    d, width = head.d, head.value_dim
    accumulate(parents, f"D[{i}]", [(f"dO[{i},{c}]", f"O[{i},{c}]") for c in range(width)], accumulation)
    for j in head.needed_keys(i):
        accumulate(parents, f"S[{i},{j}]", [(f"Q[{i},{t}]", f"K[{j},{t}]") for t in range(d)], accumulation)
        parents[f"P[{i},{j}]"] = (f"S[{i},{j}]", f"L[{i}]")
        accumulate(parents, f"dP[{i},{j}]", [(f"dO[{i},{c}]", f"V[{j},{c}]") for c in range(width)], accumulation)
        parents[f"dS[{i},{j}]"] = (f"P[{i},{j}]", f"dP[{i},{j}]", f"D[{i}]")
