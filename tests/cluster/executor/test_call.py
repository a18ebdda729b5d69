"""What a call on many devices refuses, in one line, and which grid it takes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attenio.cluster import Grid, Sharding
from attenio.cluster.executor.attention import check_lengths
from attenio.cluster.executor.call import ClusterCall, best_grid, check_shards, cluster_call
from attenio.cluster.strips import Owners, Strips
from attenio.errors import AttenioError
from attenio.kernels.call.arguments import CallArguments


def mesh(*shape: int, names: tuple[str, ...] | None = None) -> Any:
    size = 1
    for each in shape:
        size *= each
    return SimpleNamespace(shape=shape, size=lambda: size, mesh_dim_names=names)


def call(heads: int, kv_heads: int, where: Any, **options: Any) -> ClusterCall:
    tokens, sharding = options.pop("tokens", 64), options.pop("sharding", Sharding.CONTIGUOUS)
    shapes = tuple((1, each, tokens, 8) for each in (heads, kv_heads, kv_heads))
    return cluster_call(shapes, torch.float32, where, CallArguments(**{"enable_gqa": True, **options}), sharding)


def test_named_dimensions_of_a_mesh_are_the_grid_and_any_other_mesh_gets_the_one_that_sends_least() -> None:
    named = mesh(2, 2, 2, names=("queries", "keys", "heads"))
    assert call(8, 8, named).grid == Grid(heads=2, queries=2, keys=2)
    assert call(8, 8, mesh(4, names=("keys",))).grid == Grid(keys=4)
    assert call(8, 8, mesh(8)).grid == call(8, 8, mesh(2, 4, names=("pods", "chips"))).grid == Grid(heads=8)
    shapes = [(1, 2, 64, 8)] * 3
    assert best_grid(*shapes, torch.float32, 8) == call(2, 2, mesh(8)).grid == Grid(heads=2, queries=2, keys=2)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "where", "options", "line"),
    [
        (
            4,
            2,
            mesh(4),
            {"enable_gqa": False},
            r"query, key and value have .* or set enable_gqa=True for fewer KV heads",
        ),
        (4, 3, mesh(2), {}, r"4 query heads cannot share 3 key and 3 value heads"),
        (8, 2, mesh(4, names=("heads",)), {}, r"a grid of 4 x 1 x 1 cuts 2 KV heads into 4 groups.*divides 2"),
        (8, 2, mesh(2, 2, names=("heads", "keys")), {}, r"the mesh has dimensions \('heads', 'keys'\); give them in"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    heads: int, kv_heads: int, where: Any, options: dict[str, Any], line: str
) -> None:
    with pytest.raises(AttenioError, match=line) as refused:
        call(heads, kv_heads, where, **options)
    assert "\n" not in str(refused.value)


def test_strips_spread_tokens_and_compute_them_under_a_causal_mask_only() -> None:
    strips = Strips(heads=2, counts=(2, 1), owners=Owners.ROWS)
    causal, dense = (call(4, 2, mesh(8), sharding=strips, is_causal=each) for each in (True, False))
    assert causal.layout == strips and dense.layout is None
    for each in (causal, dense):
        check_lengths(each)
        assert each.assignment.queries == tuple(home.spans for home in strips.homes(64))
    assert call(4, 2, mesh(8, names=("queries",)), sharding=strips, is_causal=True).layout is None
    assert (
        str(strips) in causal.form and causal.form != call(4, 2, mesh(8), sharding=Sharding.ZIGZAG, is_causal=True).form
    )
    with pytest.raises(AttenioError, match=r"strips 2 x .* are for 8 ranks; the mesh has 4"):
        call(4, 2, mesh(4), sharding=strips)
    with pytest.raises(AttenioError, match=r"strips of 2 head groups do not cut 3 KV heads evenly"):
        call(3, 3, mesh(8), sharding=strips, is_causal=True)


def test_tensors_that_are_no_dtensors_and_tokens_that_do_not_come_out_zigzag_are_refused() -> None:
    with pytest.raises(AttenioError, match=r"query is a Tensor; give a DTensor, sharded by tokens \(Shard\(2\)\)"):
        check_shards({"query": torch.zeros(1, 1, 4, 4)}, mesh(4))
    with pytest.raises(AttenioError, match=r"query has 62 tokens, which 4 ranks do not hold zigzag .* multiple of 8"):
        check_lengths(call(2, 2, mesh(4), tokens=62, sharding=Sharding.ZIGZAG))
    check_lengths(call(2, 2, mesh(4), tokens=64, sharding=Sharding.ZIGZAG))
