from itertools import product

import numpy as np
import pytest

from attenio.errors import InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.masks import Causal, Dense
from attenio.planning import SweepGrid

THREE_LEVELS = Machine(
    name="three levels",
    levels=(
        MemoryLevel(name="L1", capacity_bytes=4096),
        MemoryLevel(name="L2", capacity_bytes=65536, units=4),
        MemoryLevel(name="DRAM"),
    ),
)


def test_points_are_all_combinations_and_the_last_list_changes_fastest() -> None:
    grid = SweepGrid(
        queries=[1, 7], keys=[9, 11, 13], d=[2, 4], heads=[2], kv_heads=[None, 1], masks=["dense", "causal"],
        machines=[THREE_LEVELS], fast_bytes=[1024, 2048],
    )  # fmt: skip
    expected = list(product([1, 7], [9, 11, 13], [2, 4], [2, 1], [Dense(), Causal()], [65536, 1024, 2048]))
    assert len(grid) == len(expected)
    for point, (queries, keys, d, kv_heads, mask, capacity) in enumerate(expected):
        workload = grid.workload(point)
        assert (workload.queries, workload.keys, workload.d, workload.kv_heads) == (queries, keys, d, kv_heads)
        assert workload.mask == mask
        assert grid.boundary(point).fast.capacity_bytes == capacity


def test_lists_may_be_arrays_and_iterators() -> None:
    grid = SweepGrid(n=np.array([8, 16]), d=(width for width in (2, 4)), fast_bytes=range(64, 65))  # type: ignore[arg-type]
    assert grid == SweepGrid(n=[8, 16], d=[2, 4], fast_bytes=[64])


def test_grids_that_differ_have_different_fingerprints() -> None:
    grids = [
        SweepGrid(n=[8], d=[2], fast_bytes=[64]),
        SweepGrid(n=[8], d=[2], fast_bytes=[128]),
        SweepGrid(n=[8], d=[2], fast_bytes=[64], masks=["causal"]),
        SweepGrid(n=[8], d=[2], fast_bytes=[64], value_dim=[2]),
        SweepGrid(n=[8], d=[2], machines=[THREE_LEVELS]),
    ]
    assert len({grid.fingerprint for grid in grids}) == len(grids)
    assert SweepGrid(n=(8,), d=(2,), fast_bytes=(64,)).fingerprint == grids[0].fingerprint


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"d": [2], "fast_bytes": [64]}, "a sweep needs lengths: give n, or queries and keys, and not both"),
        ({"n": [8], "keys": [9], "d": [2], "fast_bytes": [64]}, "give n, or queries and keys, and not both"),
        ({"queries": [8], "d": [2], "fast_bytes": [64]}, "a sweep has no lengths; give at least one"),
        ({"n": [8], "d": [], "fast_bytes": [64]}, "a sweep has no d; give at least one"),
        ({"n": [8], "d": [2]}, "a sweep has no machines; give at least one"),
        ({"n": [8], "d": [2], "masks": ["dense", "causal", "dense"]}, "has dense more than once in its masks; leave"),
        ({"n": [8], "d": [2], "dtypes": ["fp16", "FP16"]}, "has fp16 more than once in its dtypes; leave"),
        ({"n": [8], "d": [2], "machines": ["h100", "h100"]}, "has h100 more than once in its machines; leave"),
        ({"n": [0], "d": [2], "fast_bytes": [64]}, "n is 0; it must be at least 1"),
        ({"n": [10**12], "d": [2], "fast_bytes": [64]}, "n is 1,000,000,000,000; attenio counts exactly up to"),
        ({"n": [8], "d": [None], "fast_bytes": [64]}, "d is None; give a whole number"),
        ({"n": [8], "d": [2], "fast_bytes": [64], "masks": ["triangle"]}, "mask 'triangle' is not known"),
        ({"n": range(1, 40000), "d": range(1, 40000), "fast_bytes": [64]}, "points is too large"),
    ],
)
def test_lists_that_make_no_grid_are_refused(lists: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SweepGrid(**lists)
