"""Attention's graph has what attention needs: evaluated vertex by vertex from parents alone, it gives attention."""

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention

from ..strategies import QUICK

ANY_FORM = st.sampled_from(Softmax)
ONE_WORD = st.just(1)


@st.composite
def heads(draw, words=ONE_WORD):
    required = draw(arrays(np.bool_, st.tuples(st.integers(1, 4), st.integers(1, 5))))
    required[~required.any(axis=1), -1] = True
    rows, keys = required.shape
    d, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Head(rows=rows, keys=keys, d=d, value_dim=width, required=required, accumulator_words=draw(words))


def cut(draw, items):
    """The items in order, cut into one part or more."""
    ends = sorted({*draw(st.lists(st.integers(1, len(items)))), len(items)})
    return [items[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@st.composite
def ways(draw, head):
    """Runs and splits of every row, some idle keys, and columns that find statistics settled."""
    keys = [head.needed_keys(row) for row in range(head.rows)]
    runs = [cut(draw, row) for row in keys]
    splits = [[len(split) for split in cut(draw, row)] for row in runs]
    hidden = [np.flatnonzero(~row).tolist() for row in head.required]
    idle = [draw(st.lists(st.sampled_from(row), unique=True)) if row else [] for row in hidden]
    settled = draw(st.none() | st.integers(1, head.value_dim))
    return {"runs": runs, "splits": splits, "idle": idle, "settled": settled}


def kind(name):
    return name.partition("[")[0]


def evaluated(graph, inputs, softmax):
    """Every vertex from the values of its parents, by the formula of its kind."""
    values = {}
    for vertex, name in enumerate(graph.names):
        names = [graph.names[u] for u in graph.parents[vertex]]
        needs = [values[each] for each in names]
        kinds = [kind(each) for each in names]
        values[name] = _value(name, kinds, needs, softmax) if needs else inputs[name]
    return values


def _value(name, kinds, needs, softmax):
    match kind(name):
        case "S":
            return sum(needs[:-2]) + needs[-2] * needs[-1]
        case "max":
            return needs[1] + max(needs[0], 0) if kinds[0] == "gap" else max(needs)
        case "gap":
            return needs[0] - needs[1]
        case "rescale":
            return exp(needs[0] - needs[1])
        case "statistics":
            score = needs[-1]
            largest, total = needs[0] if len(needs) > 1 else (score, 0.0)
            raised = max(largest, score)
            return raised, total * exp(largest - raised) + exp(score - raised)
        case "sum" if softmax is Softmax.SCALED:
            return needs[0] * exp(min(needs[1], 0)) + exp(min(-needs[1], 0))
        case "P" | "O" if softmax is Softmax.SCALED and kinds[-1] == "gap":
            return needs[0] * exp(min(needs[1], 0)) if len(needs) > 1 else exp(min(-needs[0], 0))
        case "P" if softmax is Softmax.NORMALISED:
            return exp(needs[0] - needs[1][0]) / needs[1][1] if len(needs) > 1 else 0.0
        case "P":
            return exp(needs[0] - (0 if softmax is Softmax.UNSHIFTED else needs[-1]))
        case "sum" | "O" if "gap" in kinds:
            whole, gap, part = needs
            return whole * exp(min(gap, 0)) + part * exp(min(-gap, 0))
        case "sum":
            return needs[0] * (needs[1] if "rescale" in kinds else 1) + needs[-1]
        case "O" if "V" in kinds:
            before = needs[0] * (needs[1] if "rescale" in kinds else 1) if kinds[0] == "O" else 0
            return before + needs[-2] * needs[-1]
        case "O":
            return needs[0] / needs[1]


@QUICK
@given(heads(), ANY_FORM, st.data())
def test_evaluating_the_graph_gives_attention_whatever_the_form_the_runs_and_the_splits(head, softmax, data):
    graph = attention(head, softmax=softmax, **data.draw(ways(head)))
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(head.rows, head.d)), rng.normal(size=(head.keys, head.d))
    v = rng.normal(size=(head.keys, head.value_dim))
    inputs = {
        f"{name}[{i},{t}]": float(matrix[i, t])
        for name, matrix in (("Q", q), ("K", k), ("V", v))
        for i, t in np.ndindex(matrix.shape)
    }
    values = evaluated(graph, inputs, softmax)
    weights = np.where(head.required, np.exp(q @ k.T), 0)
    expected = weights @ v / weights.sum(axis=1, keepdims=True)
    found = [[values[f"O[{i},{c}]"] for c in range(head.value_dim)] for i in range(head.rows)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@QUICK
@given(heads(), ANY_FORM, st.data())
def test_outputs_need_the_required_scores_and_the_inputs_of_these_and_nothing_else(head, softmax, data):
    graph = attention(head, softmax=softmax, **data.draw(ways(head)))
    useful = [graph.names[vertex] for vertex in np.flatnonzero(graph.useful)]
    scores = {name for name in useful if kind(name) == "S" and ";" not in name}
    assert scores == {f"S[{i},{j}]" for i, j in np.argwhere(head.required)}
    touched = int(head.required.any(axis=0).sum())
    words = head.rows * (head.d + head.value_dim) + touched * (head.d + head.value_dim)
    assert graph.compulsory_words == words


@QUICK
@given(heads(), st.sampled_from([Softmax.UNSHIFTED, Softmax.PLAIN]), st.sampled_from(Accumulation))
def test_every_accumulation_needs_the_same_inputs(head, softmax, accumulation):
    chain, other = (attention(head, softmax=softmax, accumulation=how) for how in (Accumulation.CHAIN, accumulation))
    assert chain.compulsory_words == other.compulsory_words
    assert len(chain.outputs) == len(other.outputs) == head.rows * head.value_dim


@QUICK
@given(heads(words=st.integers(1, 4)), ANY_FORM)
def test_inputs_and_outputs_are_one_word_and_what_is_between_as_wide_as_the_accumulator(head, softmax):
    graph = attention(head, softmax=softmax)
    ends = {*graph.inputs.tolist(), *graph.outputs.tolist()}
    for vertex, name in enumerate(graph.names):
        both = 2 if name.startswith("statistics") else 1
        assert graph.weights[vertex] == (1 if vertex in ends else both * head.accumulator_words)


def test_a_run_is_rescaled_once_and_its_probabilities_wait_for_its_maximum():
    graph = attention(Head(rows=1, keys=4, d=1), runs=[[[0, 1], [2, 3]]])

    def needs(name):
        return [graph.names[u] for u in graph.parents[graph.number(name)]]

    assert needs("rescale[0;2]") == ["max[0;1]", "max[0;3]"]
    assert needs("P[0,2]") == ["S[0,2]", "max[0;3]"]
    assert needs("O[0,0;2]") == ["O[0,0;1]", "rescale[0;2]", "P[0,2]", "V[2,0]"]
    assert needs("O[0,0;3]") == ["O[0,0;2]", "P[0,3]", "V[3,0]"]
    assert not any(name.startswith("rescale") for name in attention(Head(rows=1, keys=2, d=1), runs=[[[0, 1]]]).names)


def test_splits_are_joined_and_the_last_maximum_is_not_asked_for():
    graph = attention(Head(rows=1, keys=3, d=1), splits=[[1, 1, 1]])
    tags = [name for name in graph.names if "split" in name]
    assert tags == [
        *("gap[0;split 1]", "max[0;split 1]", "sum[0;split 1]", "O[0,0;split 1]"),
        *("gap[0;split 2]", "sum[0;split 2]", "O[0,0;split 2]"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulation": Accumulation.WIDE}, "the online softmax rescales what it has summed, key by key"),
        ({"softmax": Softmax.NORMALISED, "accumulation": Accumulation.TREE}, "the normalised softmax updates maximum"),
        ({"runs": [[[0, 1, 2]]]}, "runs are given for 1 rows; the head has 2"),
        ({"runs": [[[0]], [[0, 1, 2]]]}, r"the runs of row 0 are \[\[0\]\]; put each of its keys \[0, 1\] in one run"),
        ({"splits": [[1, 1], [2]]}, r"the splits of row 1 take \[2\] runs; its 3 runs are to be divided"),
        ({"idle": [[1], []]}, "key 1 cannot be idle in row 0; name a key that the mask hides"),
        ({"idle": [[3], []]}, "key 3 cannot be idle in row 0"),
    ],
)
def test_what_does_not_fit_the_head_is_refused(options, message):
    head = Head(rows=2, keys=3, d=1, required=np.array([[1, 1, 0], [1, 1, 1]], dtype=bool))
    with pytest.raises(InvalidInput, match=message):
        attention(head, **options)


def test_a_head_that_makes_no_sense_is_refused():
    with pytest.raises(InvalidInput, match="the mask is 1 x 2; the head has 2 rows and 2 keys"):
        Head(rows=2, keys=2, d=1, required=np.ones((1, 2), dtype=bool))
    with pytest.raises(InvalidInput, match="row 1 needs no key"):
        Head(rows=2, keys=1, d=1, required=np.array([[True], [False]]))
    with pytest.raises(InvalidInput, match="accumulator_words is 0"):
        Head(rows=1, keys=1, d=1, accumulator_words=0)
