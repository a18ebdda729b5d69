"""Bytes that both forms of the backward pass are predicted to move."""

import pytest
import torch

from attenio.kernels.gluon import backward
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import UNBOUNDED, Visibility
from attenio.planning.shared_cache import Grid, Sweep, traffic

HEADS, N, D = 16, 2048, 128
TENSOR = HEADS * N * D * 2


def problem_of(*, deterministic, above=UNBOUNDED):
    q, k, v = (torch.empty(1, HEADS, N, D, dtype=torch.bfloat16, device="meta") for _ in range(3))
    return KernelProblem.of_heads(q, k, v, Visibility(group=1, above=above), 1.0, deterministic=deterministic)


def test_sums_that_stay_in_the_cache_move_every_tensor_once():
    found = backward.gradient_grids(problem_of(deterministic=False))
    grids, sweeps = ([x for x in found if isinstance(x, kind)] for kind in (Grid, Sweep))
    assert sum(x.units for x in grids) == sum(x.following for x in sweeps) == sum(x.done for x in sweeps) == HEADS
    moved = traffic(*found, cache_bytes=2**40)
    assert moved.read_bytes == pytest.approx(5 * TENSOR, rel=0.04)  # and two numbers of every row


@pytest.mark.parametrize(("above", "share"), [(UNBOUNDED, 1.0), (0, 0.5)])
def test_slopes_go_through_memory_once_each_way(above, share):
    found = backward.gradient_grids(problem_of(deterministic=True, above=above))
    moved = traffic(*found, cache_bytes=2**20)
    slopes = share * HEADS * N * N * 2
    assert moved.read_bytes >= slopes + 5 * TENSOR
    assert moved.written_bytes - 3 * TENSOR == pytest.approx(slopes, rel=0.1)  # tiles reach beyond the diagonal
