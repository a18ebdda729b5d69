"""Many designs at once are each design by itself."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import Hardware, area_of, peak_power_watts, simulate, simulate_plan
from attenio.accelerator.designs import Designs, Runs, Tiling, attenio_runs, machine_of
from attenio.catalogue import machine_named
from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning import Dataflow, Tiles, plan_with, published_plan
from attenio.workload import Workload

BASE = machine_named("attenio-512k")
GRID = Designs.product(
    BASE,
    pe_lines=[1, 7, 64, 200],
    macs_per_line=[1, 32, 50],
    exp_modules=[1, 100, 1000],
    cache_bytes=[700, 2**12, 2**17, 2**22],
    channels=[1, 3, 16, 64],
)
WORKLOADS = st.builds(
    lambda queries, keys, d, dv, heads: Workload(queries=queries, keys=keys, d=d, value_dim=dv, heads=heads),
    st.sampled_from([1, 2, 37, 1000, 2**17]),
    st.sampled_from([1, 2, 3, 41, 2**17]),
    st.sampled_from([1, 48, 64, 128]),
    st.sampled_from([1, 64, 80]),
    st.integers(1, 3),
)


@settings(max_examples=12, deadline=None)
@given(WORKLOADS, st.lists(st.integers(0, len(GRID) - 1), min_size=4, max_size=4), st.integers(1, 3))
def test_cycles_are_those_of_simulating_each_exactly(workload: Workload, sampled: list[int], key_tile: int) -> None:
    keys = min(key_tile, workload.keys)
    grid = replace(GRID, key_tile=keys)
    published, fastest = attenio_runs(grid, workload), attenio_runs(grid, workload, Tiling.FASTEST)
    width = keys * max(workload.d, workload.value_dim)
    assert (fastest.ticks <= published.ticks).all()
    for number in sampled:
        if published.ticks[number] < 0:
            one_key = machine_of(BASE, GRID.sizes(number), width // keys)
            assert keys > 1 or published_plan(workload, one_key, "attenio") is None
            continue
        machine = machine_of(BASE, GRID.sizes(number), width)
        if keys == 1:
            assert simulate(workload, machine).cycles == _cycles(published, number)
        for runs in (published, fastest):
            tiles = Tiles.of(query_tile=int(runs.query_tile[number]), key_tile=keys)
            plan = plan_with(workload, machine, Dataflow.ATTENIO, tiles)
            assert simulate_plan(plan, machine).cycles == _cycles(runs, number)


def _cycles(runs: Runs, number: int) -> Fraction:
    return Fraction(int(runs.ticks[number]), runs.ticks_per_cycle)


def test_the_machine_itself_is_one_of_its_designs() -> None:
    workload = Workload(n=131072, d=128)
    assert simulate(workload, BASE).cycles == _cycles(attenio_runs(Designs.product(BASE), workload), 0)


@pytest.mark.parametrize("number", range(0, len(GRID), 101))
def test_costs_are_those_of_the_hardware(number: int) -> None:
    area, watts = GRID.costs(64)
    hardware = Hardware.of(machine_of(BASE, GRID.sizes(number), 64))
    assert area[number] == pytest.approx(area_of(hardware).total_mm2)
    assert watts[number] == pytest.approx(sum(peak_power_watts(hardware).values()))


def test_a_larger_part_never_takes_longer_unless_it_is_the_cache() -> None:
    """A larger cache changes the tiles, and ragged ones may cost; the other parts only shorten steps."""
    for mask in ("dense", "causal"):
        ticks = attenio_runs(GRID, Workload(n=1000, d=64, mask=mask)).ticks
        cube = ticks.reshape(4, 3, 3, 4, 4)[:, :, :, 1:]
        for axis in (0, 1, 2, 4):
            assert (np.diff(cube, axis=axis) <= 0).all()


def test_other_work_than_dense_and_causal_is_refused() -> None:
    with pytest.raises(InvalidInput, match="where attention is dense, or causal with as many queries as keys"):
        attenio_runs(GRID, Workload(n=64, d=64, mask="window:8"))


@settings(max_examples=9, deadline=None)
@given(
    st.sampled_from([1, 2, 37, 1000, 2**17]),
    st.sampled_from([1, 48, 64, 128]),
    st.integers(1, 3),
    st.lists(st.integers(0, len(GRID) - 1), min_size=5, max_size=5),
)
def test_causal_cycles_are_those_of_simulating_each_exactly(n: int, d: int, heads: int, sampled: list[int]) -> None:
    workload = Workload(n=n, d=d, heads=heads, mask="causal")
    for tiling in Tiling:
        runs = attenio_runs(GRID, workload, tiling)
        for number in sampled:
            if runs.ticks[number] >= 0:
                machine = machine_of(BASE, GRID.sizes(number), d)
                tiles = Tiles.of(query_tile=int(runs.query_tile[number]), key_tile=1)
                plan = plan_with(workload, machine, Dataflow.ATTENIO, tiles)
                assert simulate_plan(plan, machine).cycles == _cycles(runs, number)


def test_caches_without_room_for_a_row_are_refused() -> None:
    with pytest.raises(DoesNotFit, match="no design has a cache for one row"):
        attenio_runs(Designs.product(BASE, cache_bytes=[512]), Workload(n=64, d=128))
