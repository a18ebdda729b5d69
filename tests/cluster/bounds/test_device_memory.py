import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.cluster.bounds import cluster_bounds, device_memory
from attenio.errors import InvalidInput
from attenio.workload import Workload

laws = settings(max_examples=20, deadline=None, derandomize=True)


@laws
@given(st.integers(1, 64), st.integers(8, 2**20), st.sampled_from(["forward", "backward", "training"]))
def test_devices_are_units_whose_memories_are_filled_at_first_and_may_be_at_last(
    devices: int, memory: int, direction: str
) -> None:
    workload = Workload(n=65_536, d=64, direction=direction)
    units = largest_ordinary(bounds_for(workload, memory, units=devices)).words
    assert device_memory(workload, devices, memory).words <= max(units - 2 * devices * memory, 0)


@laws
@given(st.integers(1, 64), st.integers(8, 2**20))
def test_more_memory_never_asks_for_more_words(devices: int, memory: int) -> None:
    workload = Workload(n=65_536, d=64)
    assert device_memory(workload, devices, memory + 1).words <= device_memory(workload, devices, memory).words


def test_little_memory_asks_for_more_words_than_balance_does() -> None:
    balanced, limited = cluster_bounds(Workload(n=2**20, d=64), 64, memory_words=2**17)
    assert limited.words > balanced.words
    balanced, limited = cluster_bounds(Workload(n=2**20, d=64), 64, memory_words=2**30)
    assert limited.words == 0 < balanced.words
    assert limited.page == "docs/theory/devices_memory.md"


def test_a_device_without_memory_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"device memory \(words\) is 0; it must be at least 1"):
        device_memory(Workload(n=8, d=8), 2, 0)
