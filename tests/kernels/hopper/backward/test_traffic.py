"""Bytes that both forms of the backward pass are predicted to move."""

from dataclasses import asdict

import pytest
import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.hopper import backward
from attenio.planning.shared_cache import Grid, Sweep, kernel_of, traffic

HEADS, N = 16, 2048


def problem_of(d, above=UNBOUNDED, *, deterministic=False):
    q, k, v = (torch.empty(1, HEADS, N, d, dtype=torch.bfloat16, device="meta") for _ in range(3))
    return KernelProblem.of_heads(q, k, v, Visibility(group=1, above=above), 1.0, deterministic=deterministic)


def test_sums_that_stay_in_the_cache_move_every_tensor_once():
    found = backward.gradient_grids(problem_of(128))
    grids, sweeps = ([x for x in found if isinstance(x, kind)] for kind in (Grid, Sweep))
    assert sum(x.units for x in grids) == sum(x.following for x in sweeps) == sum(x.done for x in sweeps) == HEADS
    moved = traffic(*found, cache_bytes=2**40)
    assert moved.read_bytes == pytest.approx(5 * HEADS * N * 128 * 2, rel=0.04)  # and two numbers of every row


def test_extremes_of_all_heads_are_found_before_lanes():
    """Keys and values are read once more where the cache does not hold those of all heads."""
    found, plain = (backward.gradient_grids(problem_of(128, deterministic=whole)) for whole in (True, False))
    assert len(found) == len(plain) + 1 and found[0].following == HEADS
    assert all(each.kept_rows == 0 for each in found[1:] if isinstance(each, Sweep))
    more = [
        traffic(*found, cache_bytes=size).read_bytes - traffic(*plain, cache_bytes=size).read_bytes
        for size in (2**22, 2**40)
    ]
    assert more == [2 * HEADS * N * 128 * 2, 0]
    assert tuple(kernel_of(asdict(each)) for each in found) == found


@pytest.mark.parametrize(("above", "share"), [(UNBOUNDED, 1.0), (0, 0.5)])
def test_slopes_go_through_memory_once_each_way(above, share):
    found = backward.gradient_grids(problem_of(256, above))
    moved = traffic(*found, cache_bytes=2**20)
    ds_bytes, tensor = share * HEADS * N * N * 2, HEADS * N * 256 * 2
    assert moved.read_bytes >= ds_bytes + 5 * tensor
    assert moved.written_bytes - 3 * tensor == pytest.approx(ds_bytes, rel=0.1)  # tiles reach beyond the diagonal
