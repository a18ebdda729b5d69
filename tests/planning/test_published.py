from math import isqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.machine import Machine, MemoryLevel
from attenio.planning import candidates_for, cost, published_plan, published_plan_for
from attenio.planning.costs import problems_of
from attenio.planning.plan import Dataflow, TileRule, Tiles
from attenio.planning.published import has_published_rule, published_tiles
from attenio.workload import Workload

from .strategies import workloads

LAWS = settings(max_examples=20, deadline=None, derandomize=True)


@LAWS
@given(n=st.integers(1, 5000), d=st.integers(1, 128), fast_words=st.integers(400, 100_000))
def test_published_tiles_are_those_of_the_papers(n: int, d: int, fast_words: int) -> None:
    problems = problems_of(Workload(n=n, d=d), Dataflow.ATTENIO)
    quarter, side = -(-fast_words // (4 * d)), isqrt(fast_words // 4)
    rows = min(quarter, d, n)
    expected = {
        Dataflow.ATTENIO: Tiles.of(query_tile=min(n, (fast_words - d) // (2 * d + 4)), key_tile=1),
        Dataflow.FLASH_ATTENTION_1: Tiles.of(query_tile=rows, key_tile=min(quarter, n)),
        Dataflow.FLASH_ATTENTION_2: Tiles.of(query_tile=rows, key_tile=min(quarter, n)),
        Dataflow.SQUARE_TILING: Tiles.of(query_tile=min(side, n), key_tile=min(side, n), depth_tile=side),
        Dataflow.KEY_STATIONARY: Tiles.of(query_tile=rows, key_tile=min(quarter, n)),
    }
    for dataflow, tiles in expected.items():
        assert published_tiles(problems, dataflow, fast_words) == tiles


@LAWS
@given(workload=workloads(longest=40, widest=9), fast_words=st.integers(3, 900))
def test_published_flat_and_standard_tiles_are_the_largest_that_fit(workload: Workload, fast_words: int) -> None:
    flat = published_plan_for(workload, fast_words, Dataflow.FLAT)
    if flat is not None:
        name = "resident_keys" if "resident_keys" in flat.tiles else "query_tile"
        problems = problems_of(workload, Dataflow.FLAT)
        limit = problems.counts.most_rows if name == "query_tile" else problems.counts.most_keys - 1
        larger = Tiles.of(**{**flat.tiles, name: flat.tiles[name] + 1})
        assert flat.tiles[name] == limit or cost(workload, Dataflow.FLAT, larger).peak_words > fast_words
    standard = published_plan_for(workload, fast_words, Dataflow.STANDARD)
    if standard is not None:
        assert standard.peak_words <= fast_words
        assert standard.tiles["output_columns"] == min(workload.value_dim, isqrt(fast_words + 1) - 1)


def test_published_tiles_that_do_not_fit_are_reported_not_shrunk() -> None:
    workload = Workload(n=4096, d=64, accumulator="fp32")
    found = {(c.dataflow, c.rule): c for c in candidates_for(workload, 16384)}
    candidate = found[Dataflow.FLASH_ATTENTION_2, TileRule.PUBLISHED]
    assert candidate.plan is None
    assert "query_tile=64 key_tile=64 needs 29,056 words of fast memory; the machine has 16,384" in candidate.reason
    assert published_plan_for(workload, 16384, "flash-attention-2") is None


@pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)
def test_derived_dataflows_have_no_published_plan(dataflow: Dataflow) -> None:
    workload = Workload(n=256, d=16, heads=4, kv_heads=2, direction=dataflow.direction)
    plan = published_plan_for(workload, 2**16, dataflow)
    assert (plan is not None) == has_published_rule(dataflow)
    assert plan is None or plan.rule is TileRule.PUBLISHED


def test_flash_decoding_splits_keys_until_every_unit_has_work() -> None:
    levels = (MemoryLevel(name="shared", capacity_bytes=2**18, units=132), MemoryLevel(name="HBM"))
    machine = Machine(name="many units", levels=levels)
    decode = Workload(queries=1, keys=65536, d=64, heads=32, kv_heads=8)
    plan = published_plan(decode, machine, "split-keys")
    assert plan is not None
    assert plan.tiles["keys_per_split"] == -(-65536 // 17)  # ceil(132 / 8 KV heads)
    busy = published_plan(Workload(n=65536, d=64, heads=32, kv_heads=8), machine, "split-keys")
    assert busy is not None
    assert busy.tiles["keys_per_split"] == 65536 // 2


@pytest.mark.parametrize("fast_words", [1, 2, 3, 4, 5])
def test_a_memory_that_sinks_fill_has_no_published_tiles(fast_words: int) -> None:
    workload = Workload(n=13, d=2, value_dim=20, heads=12, kv_heads=3, sinks=True)
    found = [each for each in candidates_for(workload, fast_words) if each.plan is not None]
    assert all(each.plan.peak_words <= fast_words for each in found if each.plan)
