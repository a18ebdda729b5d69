"""Laws of machines."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.machine import Machine, MemoryLevel

laws = settings(deadline=None, derandomize=True, max_examples=20)
capacities = st.lists(st.integers(1, 2**40), min_size=1, max_size=4, unique=True)


def machine_of(sizes: list[int]) -> Machine:
    levels = [MemoryLevel(name=f"level {i}", capacity_bytes=size) for i, size in enumerate(sizes)]
    return Machine(name="m", levels=(*levels, MemoryLevel(name="memory")))


@laws
@given(capacities)
def test_levels_in_order_make_one_boundary_fewer(sizes: list[int]) -> None:
    machine = machine_of(sorted(sizes))
    assert [b.fast.capacity_bytes for b in machine.boundaries] == sorted(sizes)
    assert machine.slowest_boundary.slow.name == "memory"
    assert machine == machine_of(sorted(sizes))
    assert hash(machine) == hash(machine_of(sorted(sizes)))


@laws
@given(capacities)
def test_levels_out_of_order_are_refused(sizes: list[int]) -> None:
    shrinking = [*sorted(sizes), min(sizes)]
    with pytest.raises(InvalidInput, match="fastest and smallest first"):
        machine_of(shrinking)


@laws
@given(st.integers(1, 2**60), st.sampled_from(list(ElementType)))
def test_fast_words_are_the_whole_words_of_one_unit(size: int, dtype: ElementType) -> None:
    boundary = Machine.with_fast_bytes(size).slowest_boundary
    words = boundary.fast_words(dtype)
    assert words * dtype.bytes <= size < (words + 1) * dtype.bytes
    assert boundary.name == "fast-slow"


@pytest.mark.parametrize("size", [0, -1, 2**60 + 1, float("nan"), 1.5, True])
def test_a_fast_memory_of_no_size_is_refused(size: int) -> None:
    with pytest.raises(InvalidInput, match="fast-bytes is"):
        Machine.with_fast_bytes(size)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(InvalidInput, match="bandwidth of HBM"):
        MemoryLevel(name="HBM", bandwidth_bytes_per_s=rate)
    levels = (MemoryLevel(name="fast", capacity_bytes=64), MemoryLevel(name="slow"))
    with pytest.raises(InvalidInput, match="rate of exponentials"):
        Machine(name="m", levels=levels, exponentials_per_s=rate)
    with pytest.raises(InvalidInput, match="on machine m is"):
        Machine(name="m", levels=levels, flops_per_s={ElementType.FP16: rate})


def test_a_machine_has_two_levels_and_only_the_slowest_is_endless() -> None:
    with pytest.raises(InvalidInput, match="at least two"):
        Machine(name="m", levels=(MemoryLevel(name="fast", capacity_bytes=64),))
    with pytest.raises(InvalidInput, match="level fast of machine m has no capacity"):
        Machine(name="m", levels=(MemoryLevel(name="fast"), MemoryLevel(name="slow")))
    with pytest.raises(InvalidInput, match="units of SM is 0"):
        MemoryLevel(name="SM", capacity_bytes=64, units=0)


def test_rates_cannot_be_changed_behind_a_machine_s_back() -> None:
    rates = {ElementType.FP16: 1e12}
    machine = Machine(
        name="m", levels=(MemoryLevel(name="fast", capacity_bytes=64), MemoryLevel(name="slow")), flops_per_s=rates
    )
    rates[ElementType.FP16] = 5.0
    assert machine.flops_per_s[ElementType.FP16] == 1e12


def boundaries_with_units(units: list[int], sizes: list[int]) -> list[int]:
    levels = [
        MemoryLevel(name=f"level {i}", capacity_bytes=size, units=count)
        for i, (size, count) in enumerate(zip(sizes, units, strict=True))
    ]
    machine = Machine(name="m", levels=(*levels, MemoryLevel(name="memory")))
    return [boundary.inside_bytes for boundary in machine.boundaries]


@laws
@given(st.lists(st.integers(1, 12), min_size=3, max_size=3), st.lists(st.integers(1, 2**20), min_size=3, max_size=3))
def test_units_that_divide_share_the_memory_inside_equally(factors: list[int], sizes: list[int]) -> None:
    sizes = sorted({size + step for step, size in enumerate(sorted(sizes))})
    units = [factors[0] * factors[1] * factors[2], factors[1] * factors[2], factors[2]]
    inside = boundaries_with_units(units, sizes)
    for level in range(3):
        total = sum(size * count for size, count in zip(sizes[: level + 1], units, strict=False))
        assert inside[level] * units[level] == total


@laws
@given(st.lists(st.integers(1, 50), min_size=3, max_size=3))
def test_no_unit_has_more_memory_inside_than_a_bound_is_granted(units: list[int]) -> None:
    sizes = [100, 1000, 10_000]
    inside = [100] * units[0]
    for granted, size, count in zip(boundaries_with_units(units, sizes)[1:], sizes[1:], units[1:], strict=True):
        inside = [size + sum(inside[unit::count]) for unit in range(count)]
        assert max(inside) <= granted


def test_two_units_over_three_inner_ones_are_granted_the_memory_of_the_fuller_one() -> None:
    assert boundaries_with_units([3, 2], [64, 1024]) == [64, 1024 + 2 * 64]
    assert boundaries_with_units([5, 3, 2], [64, 1024, 4096]) == [64, 1024 + 2 * 64, 4096 + 2 * (1024 + 2 * 64)]
    assert boundaries_with_units([1, 4], [64, 1024]) == [64, 1024 + 64]
