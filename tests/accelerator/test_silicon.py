"""Laws of what MACs and modules are made of, where cycles depend on it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import Hardware, fastest_plan, simulate, simulate_plan
from attenio.accelerator.designs import Designs, attenio_runs
from attenio.accelerator.functional import run_functional
from attenio.accelerator.rtl.small import made_of, small_machine
from attenio.catalogue import machine_named
from attenio.errors import InvalidInput
from attenio.parts import SiliconParts
from attenio.planning import Dataflow, Tiles, plan_with
from attenio.workload import Workload

PUBLISHED = machine_named("attenio-512k")
SILICON = st.builds(
    SiliconParts,
    adder_cycles=st.sampled_from([1, 2, 4]),
    fill_cycles=st.integers(0, 5),
    exp_fill_cycles=st.integers(0, 4),
    multipliers=st.integers(1, 2),
    macs_a_divider=st.integers(1, 3),
)


def test_rounds_of_the_published_machine_by_hand() -> None:
    """64 products, 2 cycles of maxima, 16 + 16 of exponentials, 2 of sums, 64 products: 164 a key."""

    def a_key(**about: int) -> int:
        machine = made_of(PUBLISHED, SiliconParts(**about))
        few, many = (simulate(Workload(queries=1985, keys=keys, d=64), machine).cycles for keys in (1000, 3000))
        return int((many - few) / 2000)

    assert a_key() == 164
    assert a_key(fill_cycles=3) == 164 + 3 * 3  # scores, row sums, outputs
    assert a_key(exp_fill_cycles=4) == 164 + 4
    assert a_key(adder_cycles=2) == 164 + 3 + 1 + 1  # two partial sums meet; a sum and an output come a cycle later
    assert a_key(adder_cycles=4) == 164 + (3 + 2 * 4) + 3 + 3
    assert a_key(multipliers=1) == 164 + 64
    assert a_key(macs_a_divider=32) == 164  # quotients are taken once a tile


@settings(max_examples=20, deadline=None)
@given(
    SILICON, st.sampled_from(["attenio", "flash-attention-2", "flat", "standard"]), st.sampled_from(["dense", "causal"])
)
def test_event_by_event_is_the_same_and_nothing_is_faster_than_published(
    silicon: SiliconParts, dataflow: str, mask: str
) -> None:
    workload, machine = Workload(n=40, d=8, mask=mask), small_machine(lines=3, macs=4, cache_words=900)
    made = made_of(machine, silicon)
    found = simulate(workload, made, dataflow=dataflow)
    assert found.cycles == simulate_plan(found.plan, made, by_events=True).cycles
    assert found.cycles >= simulate(workload, machine, dataflow=dataflow).cycles
    assert found.moved_words == found.plan.moved_words


@settings(max_examples=10, deadline=None)
@given(SILICON, st.integers(1, 3), st.sampled_from([30, 1000, 2**14]))
def test_many_designs_and_bounds_of_tiles_know_it(silicon: SiliconParts, keys: int, n: int) -> None:
    machine, workload = made_of(PUBLISHED, silicon), Workload(n=n, d=16)
    runs = attenio_runs(replace(Designs.product(machine, cache_bytes=[2**15]), key_tile=keys), workload)
    small = replace(machine, levels=(replace(machine.levels[0], capacity_bytes=2**15), machine.levels[1]))
    tiles = Tiles.of(query_tile=int(runs.query_tile[0]), key_tile=keys)
    plan = plan_with(workload, small, Dataflow.ATTENIO, tiles)
    assert simulate_plan(plan, small).cycles * runs.ticks_per_cycle == int(runs.ticks[0])
    assert simulate_plan(fastest_plan(workload, small), small).cycles <= simulate(workload, small).cycles


@settings(max_examples=8, deadline=None)
@given(st.sampled_from([2, 4]), st.integers(1, 20), st.sampled_from(["attenio", "flat", "standard"]))
def test_partial_sums_are_those_of_all_elements(adder_cycles: int, d: int, dataflow: str) -> None:
    """In exact arithmetic nothing depends on how sums are split; in half precision roundings do, by roundings."""
    workload, machine = Workload(n=12, d=d), small_machine(lines=2, macs=2, cache_words=900)
    made = made_of(machine, SiliconParts(adder_cycles=adder_cycles))
    plan = simulate(workload, made, dataflow=dataflow).plan
    one, other = (run_functional(plan, each, inputs=3) for each in (machine, made))
    np.testing.assert_allclose(one.output, other.output, atol=0.02)


def test_silicon_is_read_from_a_machine_file(tmp_path: Path) -> None:
    file = tmp_path / "chip.yaml"
    text = (
        "levels:\n  - {name: cache, capacity_bytes: 1MB}\n  - {name: HBM, bandwidth_bytes_per_s: 256 GB/s}\n"
        "accelerator:\n  pe_lines: 64\n  macs_per_line: 64\n  exp_modules: 256\n  kv_buffer_bytes: 512\n"
        "  silicon: {adder_cycles: CYCLES, multipliers: 1}\n"
    )
    file.write_text(text.replace("CYCLES", "4"))
    assert Hardware.of(machine_named(str(file))).pe.silicon == SiliconParts(adder_cycles=4, multipliers=1)
    file.write_text(text.replace("CYCLES", "3"))
    with pytest.raises(
        InvalidInput, match=r"line 9.*adder_cycles is 3; partial sums meet in pairs: use 1, 2, 4, 8 or 16"
    ):
        machine_named(str(file))
    with pytest.raises(InvalidInput, match="silicon has 33 MACs at a divider, and a line has 32"):
        made_of(PUBLISHED, SiliconParts(macs_a_divider=33))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"adder_cycles": -1}, "adder_cycles is -1; it must be at least 1"),
        ({"adder_cycles": 17}, "adder_cycles is 17; partial sums meet in pairs: use 1, 2, 4, 8 or 16"),
        ({"fill_cycles": 65}, "fill_cycles is 65; pipelines are up to 64 registers deep"),
        ({"exp_fill_cycles": -1}, "exp_fill_cycles is -1; it must be at least 0"),
        ({"multipliers": 3}, "multipliers is 3; a MAC has one or two: use 1 or 2"),
    ],
)
def test_silicon_that_is_not_modelled_is_refused_with_what_is(given: dict[str, int], told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        SiliconParts(**given)
    assert str(refused.value) == told
    (name, value), file = next(iter(given.items())), tmp_path / "machine.yaml"
    file.write_text(
        "name: m\nlevels:\n  - {name: cache, capacity_bytes: 1KB}\n  - {name: HBM, bandwidth_bytes_per_s: 8 GB/s}\n"
        "accelerator:\n  pe_lines: 4\n  macs_per_line: 4\n  exp_modules: 4\n  kv_buffer_bytes: 16\n"
        f"  silicon: {{{name}: {value}}}\n"
    )
    with pytest.raises(InvalidInput) as refused:
        machine_named(str(file))
    assert str(refused.value).endswith(f"line 10: {told}")
