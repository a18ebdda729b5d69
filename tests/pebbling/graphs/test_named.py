"""Graphs by name."""

import numpy as np
import pytest

from attenio.errors import InvalidInput
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.graphs.attention_backward import attention_backward
from attenio.pebbling.graphs.named import GRAPHS, named_graph
from attenio.pebbling.graphs.product import product, tall_skinny
from attenio.pebbling.graphs.pyramid import binary_tree
from attenio.pebbling.graphs.stencil import stencil
from attenio.pebbling.graphs.strassen import strassen


@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph_has_defaults_small_enough_to_look_at(name: str) -> None:
    graph = named_graph(name, {})
    assert graph.name == name
    assert 1 < len(graph) < 100
    assert all(parameter.meaning for parameter in GRAPHS[name].parameters)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_parameter_is_read(name: str) -> None:
    for parameter in GRAPHS[name].parameters:
        with pytest.raises(InvalidInput):
            named_graph(name, {parameter.name: "nonsense"})


LOWER = np.tril(np.ones((3, 3), dtype=bool))
SAME = [
    (("product", {"n": 2, "depth": "3", "accumulation": "tree"}), product(2, 2, 3, Accumulation.TREE)),
    (("product", {"rows": 1, "columns": 2, "depth": 3}), product(1, 2, 3)),
    (("tall-skinny", {"n": 3, "d": 1, "accumulation": Accumulation.WIDE}), tall_skinny(3, 1, Accumulation.WIDE)),
    (
        ("attention", {"n": 3, "d": 1, "mask": "causal"}),
        attention(Head(rows=3, keys=3, d=1, required=LOWER), softmax=Softmax.PLAIN),
    ),
    (
        ("attention", {"rows": 1, "keys": 4, "d": 2, "value_dim": 1}),
        attention(Head(rows=1, keys=4, d=2, value_dim=1), softmax=Softmax.PLAIN),
    ),
    (("attention", {"d": 1, "softmax": "online"}), attention(Head(rows=2, keys=2, d=1), softmax=Softmax.ONLINE)),
    (
        ("attention-backward", {"n": 3, "d": 1, "mask": "window:2"}),
        attention_backward(Head(rows=3, keys=3, d=1, required=LOWER & ~np.tril(LOWER, -2))),
    ),
    (
        ("attention-backward", {"n": 3, "d": 1, "mask": "documents:2,1:full"}),
        attention_backward(Head(rows=3, keys=3, d=1, required=np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool))),
    ),
    (("strassen", {"n": 4, "levels": 2}), strassen(4, 2)),
    (("Binary-Tree", {"height": 2}), binary_tree(2)),
    (("stencil", {"points": 3, "dimensions": 2, "steps": None}), stencil(3, 2, 1, 2)),
]


@pytest.mark.parametrize(("asked", "expected"), SAME, ids=[str(asked) for asked, _ in SAME])
def test_a_named_graph_is_what_its_builder_builds(asked, expected) -> None:
    graph = named_graph(*asked)
    assert graph.names == expected.names
    assert graph.parents == expected.parents
    assert graph.outputs.tolist() == expected.outputs.tolist()


@pytest.mark.parametrize(
    ("name", "parameters", "complaint"),
    [
        ("atention", {}, "graph 'atention' is not known; did you mean attention\\? there are product, .*stencil"),
        ("", {}, "graph '' is not known; there are"),
        ("fft", {"point": 4}, "fft takes no 'point'; did you mean points\\? it takes points"),
        ("pyramid", {"n": 4}, "pyramid takes no 'n'; it takes height"),
        ("product", {"n": "two"}, "n is 'two'"),
        ("product", {"n": 2.5}, "n is 2.5"),
        ("product", {"accumulation": "heap"}, "accumulation is 'heap'; use chain, tree, wide"),
        ("attention", {"softmax": "hard"}, "softmax is 'hard'; use unshifted, plain"),
        ("attention", {"softmax": "onlin"}, "softmax is 'onlin'; did you mean online\\? use unshifted, plain"),
        ("product", {"accumulation": "tre"}, "accumulation is 'tre'; did you mean tree\\? use chain, tree, wide"),
        ("attention", {"mask": "moon"}, "mask 'moon' is not known"),
        ("attention", {"n": 2, "mask": "window:9"}, "window 9 is wider"),
        ("attention", {"n": 10**6, "mask": "causal"}, "vertices"),
        ("attention", {"rows": 3, "keys": 1, "mask": "causal"}, "row 0 needs no key"),
    ],
)
def test_what_is_not_known_is_refused_in_one_line(name: str, parameters, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint) as refusal:
        named_graph(name, parameters)
    assert "\n" not in str(refusal.value)
