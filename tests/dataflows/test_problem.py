import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import problem as module
from attenio.dataflows import random_inputs
from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.problem import Sharing, for_heads, key_runs, separate_problems, stacked_problems, visible
from attenio.memory.indices import as_array
from attenio.reference import attention

from .laws import QUICK, workloads


def sharing(workload):
    inputs = random_inputs(workload)
    shape = (workload.batch, workload.heads, workload.queries, workload.value_dim)
    return Sharing(
        workload=workload,
        inputs=inputs,
        output=np.full(shape, np.nan, dtype=np.float32),
        arithmetic=Arithmetic.of(workload, *inputs),
        advance=lambda units: None,
    )


def solve(problem):
    """The problem's own definition, on its own arrays."""
    pattern = problem.pattern
    required = pattern.required(0, pattern.rows, np.arange(pattern.keys))
    for head in range(problem.group):
        rows = as_array(problem.rows_of(range(head, head + 1), slice(0, pattern.rows)))
        scores = problem.Q.values[rows].astype(float) @ problem.K.values.T.astype(float) * problem.arithmetic.scale
        weights = np.where(required, np.exp(scores), 0.0)
        sums = weights.sum(axis=1, keepdims=True)
        problem.O.values[rows] = weights @ problem.V.values / np.where(sums == 0, 1, sums)


@QUICK
@given(workloads(), st.sampled_from(["heads", "groups", "stacked"]))
def test_solving_every_problem_solves_the_workload(workload, way):
    shared = sharing(workload)
    ways = {
        "heads": lambda: separate_problems(shared, by_group=False),
        "groups": lambda: separate_problems(shared, by_group=True),
        "stacked": lambda: stacked_problems(shared),
    }
    labels = []
    for problem in ways[way]():
        solve(problem)
        labels.append(problem.label)
    assert len(set(labels)) == len(labels)
    exact = attention(*shared.inputs, workload)
    np.testing.assert_allclose(shared.output, exact, rtol=1e-4, atol=1e-4)


@QUICK
@given(workloads(), st.data())
def test_key_runs_cover_the_needed_keys_and_hide_the_rest(workload, data):
    pattern, _ = workload.stacked_patterns[0]
    start = data.draw(st.integers(0, pattern.rows - 1))
    positions = slice(start, data.draw(st.integers(start + 1, pattern.rows)))
    tile = data.draw(st.integers(1, pattern.keys + 1))
    required = pattern.required(positions.start, positions.stop, np.arange(pattern.keys))
    seen = []
    for keys, hidden in key_runs(pattern, positions, tile):
        numbers = as_array(keys)
        shown = visible(hidden)
        assert (required[:, numbers] == (True if shown is None else shown)).all()
        assert len(numbers) <= tile
        seen.extend(numbers.tolist())
    assert seen == np.flatnonzero(required.any(axis=0)).tolist()


def test_long_masks_are_looked_at_in_pieces(monkeypatch):
    from attenio.masks.patterns import Band

    pattern = Band.causal(6, 50)
    whole = [(as_array(keys).tolist(), hidden is None) for keys, hidden in key_runs(pattern, slice(0, 6), 3)]
    monkeypatch.setattr(module, "_MASK_AT_ONCE", 40)
    pieces = [(as_array(keys).tolist(), hidden is None) for keys, hidden in key_runs(pattern, slice(0, 6), 3)]
    assert pieces == whole


@pytest.mark.parametrize("heads", [1, 3])
def test_what_is_hidden_is_hidden_in_every_head(heads):
    hidden = np.array([[True, False]])
    assert for_heads(None, range(heads)) is None
    assert for_heads(hidden, range(heads)).tolist() == hidden.tolist() * heads
