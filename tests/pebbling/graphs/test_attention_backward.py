"""The graph of attention's gradient computes the gradient, and each part depends on what it must and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head
from attenio.pebbling.graphs.attention_backward import attention_backward, backward_vertices

from ..strategies import QUICK
from .evaluation import ancestors, entries, evaluate, matrix, sum_of_products


@st.composite
def heads(draw: st.DrawFn) -> Head:
    rows, keys, d, width = (draw(st.integers(1, most)) for most in (4, 4, 3, 3))
    required = np.array(draw(st.lists(st.booleans(), min_size=rows * keys, max_size=rows * keys))).reshape(rows, keys)
    required[np.arange(rows), np.arange(rows) % keys] = True
    return Head(rows=rows, keys=keys, d=d, value_dim=width, required=required)


def saved(head: Head, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs of the gradient, from the definition of attention (scores not scaled)."""
    random = np.random.default_rng(seed)
    q, k = random.standard_normal((head.rows, head.d)), random.standard_normal((head.keys, head.d))
    v, d_out = random.standard_normal((head.keys, head.value_dim)), random.standard_normal((head.rows, head.value_dim))
    scores = np.where(head.required, q @ k.T, -np.inf)
    logarithm = np.log(np.exp(scores).sum(axis=1))
    out = np.exp(scores - logarithm[:, None]) @ v
    return {"Q": q, "K": k, "V": v, "O": out, "dO": d_out, "L": logarithm}


def loss(head: Head, arrays: dict[str, np.ndarray]) -> float:
    scores = np.where(head.required, arrays["Q"] @ arrays["K"].T, -np.inf)
    weights = np.exp(scores)
    return float((weights @ arrays["V"] / weights.sum(axis=1, keepdims=True) * arrays["dO"]).sum())


@QUICK
@given(heads(), st.sampled_from(Accumulation), st.integers(0, 1000))
def test_its_values_are_the_derivatives_of_the_output(head: Head, how: Accumulation, seed: int) -> None:
    def rule(name: str, needs: dict[str, complex]) -> complex:
        given = list(needs.values())
        if name.startswith("P["):
            return np.exp(given[0] - given[1])
        if name.startswith("dS["):
            return given[0] * (given[1] - given[2])
        return sum_of_products(name, needs, how)

    arrays = saved(head, seed)
    named = {name: value for each, array in arrays.items() for name, value in entries(each, array).items()}
    values = evaluate(attention_backward(head, accumulation=how), named, rule)
    for each in ("Q", "K", "V"):
        gradient = matrix(f"d{each}", arrays[each].shape, values)
        step = 1e-5
        for at in np.ndindex(arrays[each].shape):
            higher, lower = ({name: array.copy() for name, array in arrays.items()} for _ in range(2))
            higher[each][at] += step
            lower[each][at] -= step
            slope = (loss(head, higher) - loss(head, lower)) / (2 * step)
            assert gradient[at] == pytest.approx(slope, abs=1e-6)


@QUICK
@given(heads(), st.sampled_from(Accumulation))
def test_its_size_and_outputs_follow_from_the_head(head: Head, how: Accumulation) -> None:
    graph = attention_backward(head, accumulation=how)
    assert len(graph) == backward_vertices(head, how)
    needed = [j for j in range(head.keys) if head.required[:, j].any()]
    expected = {f"dQ[{i},{t}]" for i in range(head.rows) for t in range(head.d)}
    expected |= {f"dK[{j},{t}]" for j in needed for t in range(head.d)}
    expected |= {f"dV[{j},{c}]" for j in needed for c in range(head.value_dim)}
    assert {graph.names[vertex] for vertex in graph.outputs} == expected


@QUICK
@given(heads(), st.sampled_from(Accumulation))
def test_every_gradient_depends_on_exactly_the_inputs_in_its_formula(head: Head, how: Accumulation) -> None:
    graph = attention_backward(head, accumulation=how)
    inputs = {graph.names[vertex] for vertex in graph.inputs}

    def row(name: str, i: int, columns: int) -> set[str]:
        return {f"{name}[{i},{t}]" for t in range(columns)}

    def score(i: int, j: int) -> set[str]:
        return row("Q", i, head.d) | row("K", j, head.d) | {f"L[{i}]"}

    def score_gradient(i: int, j: int) -> set[str]:
        width = head.value_dim
        return score(i, j) | row("dO", i, width) | row("V", j, width) | row("O", i, width)

    for i in range(head.rows):
        needs = set().union(*(score_gradient(i, j) for j in head.needed_keys(i)))
        assert ancestors(graph, f"dQ[{i},0]") & inputs == needs
    for j in range(head.keys):
        rows = np.flatnonzero(head.required[:, j]).tolist()
        if rows:
            needs = set().union(*(score_gradient(i, j) for i in rows))
            assert ancestors(graph, f"dK[{j},0]") & inputs == needs
            needs = set().union(*(score(i, j) | {f"dO[{i},0]"} for i in rows))
            assert ancestors(graph, f"dV[{j},0]") & inputs == needs


def test_what_is_too_large_is_refused_before_it_is_built() -> None:
    with pytest.raises(InvalidInput, match=r"attention-backward has .* vertices"):
        attention_backward(Head(rows=400, keys=400, d=8))


def test_what_is_computed_on_the_way_takes_the_words_of_an_accumulator() -> None:
    graph = attention_backward(Head(rows=2, keys=2, d=2, accumulator_words=2))
    ends = set(graph.inputs.tolist()) | set(graph.outputs.tolist())
    assert graph.weights.tolist() == [1 if vertex in ends else 2 for vertex in range(len(graph))]
