"""Laws of energy and area."""

from fractions import Fraction

import pytest

from attenio.accelerator import Component, Hardware, Work, area_of, energy_of, peak_power_watts, simulate
from attenio.catalogue import machine_named
from attenio.workload import Workload

HARDWARE = Hardware.of(machine_named("attenio-512k"))


def test_full_activity_burns_the_power_of_table_3() -> None:
    cycles = 10**6
    full = Work(macs=2048 * cycles, exponentials=128 * cycles, kv_words=cycles, cache_words=2048 * cycles)
    spent = dict(energy_of(HARDWARE, full, Fraction(cycles)).joules)
    for part, watts in peak_power_watts(HARDWARE).items():
        assert spent[part] == pytest.approx(watts * 1e-3)


def test_time_costs_energy_and_so_do_words() -> None:
    work = Work(macs=10**6)
    less, more = (energy_of(HARDWARE, work, Fraction(cycles)) for cycles in (1000, 2000))
    assert less.total_joules < more.total_joules
    moved = energy_of(HARDWARE, Work(macs=10**6, loaded_words=10), Fraction(1000))
    assert moved.total_joules - less.total_joules == pytest.approx(10 * 16 * 3.9e-12)


def test_area_grows_with_the_cache_alone() -> None:
    small, large = (dict(area_of(Hardware.of(machine_named(f"attenio-{kb}k"))).mm2) for kb in (256, 512))
    assert large[Component.CACHE] == pytest.approx(2 * small[Component.CACHE])
    assert large[Component.PE] == small[Component.PE]


def test_energy_of_a_simulation_is_split_by_component() -> None:
    done = simulate(Workload(n=8192, d=64), machine_named("attenio-512k"))
    assert [part for part, _ in done.energy.joules] == list(Component)
    assert done.energy.chip_joules < done.energy.total_joules
