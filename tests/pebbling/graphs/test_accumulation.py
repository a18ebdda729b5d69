"""Sums in three forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.accumulation import Accumulation, Parents, accumulate, vertices_of_sum

from ..strategies import QUICK
from .evaluation import ancestors


@QUICK
@given(st.integers(1, 40), st.sampled_from(Accumulation), st.sampled_from([2, 3]))
def test_a_sum_needs_every_factor_once_and_takes_as_many_vertices_as_announced(
    terms: int, how: Accumulation, factors: int
) -> None:
    made: Parents = {}
    accumulate(made, "s[0]", [tuple(f"f[{t},{k}]" for k in range(factors)) for t in range(terms)], how)
    assert len(made) == vertices_of_sum(terms, how)
    assert list(made)[-1] == "s[0]"
    graph = ComputationGraph.from_parents(made)
    inputs = {f"f[{t},{k}]" for t in range(terms) for k in range(factors)}
    assert {name for name in ancestors(graph, "s[0]") if name.startswith("f")} == inputs
    # every value but the sum is used exactly once
    assert all(len(users) == 1 for name, users in zip(graph.names, graph.children, strict=True) if name != "s[0]")


@pytest.mark.parametrize("how", [Accumulation.TREE, Accumulation.WIDE])
def test_terms_of_one_factor_need_no_product(how: Accumulation) -> None:
    made: Parents = {}
    accumulate(made, "s", [("a",), ("b",), ("c",)], how)
    assert not any("*" in name for name in made)


@QUICK
@given(st.integers(2, 200))
def test_a_tree_is_as_low_as_it_can_be(terms: int) -> None:
    made: Parents = {}
    accumulate(made, "s", [(f"a{t}",) for t in range(terms)], Accumulation.TREE)
    height: dict[str, int] = {}
    for name, needs in made.items():
        height[name] = 1 + max(height.get(need, 0) for need in needs)
        assert len(needs) == 2
    assert height["s"] == (terms - 1).bit_length()
