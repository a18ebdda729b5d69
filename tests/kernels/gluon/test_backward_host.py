"""Which problems the backward kernels of Hopper take, their tiles, and the programs whose bytes are predicted."""

import pytest
import torch

from attenio.kernels.dropout import Dropout
from attenio.kernels.gluon import backward
from attenio.kernels.gluon.backward_forms import backward_form
from attenio.kernels.gluon.backward_slopes import carries
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import Visibility
from attenio.planning.shared_cache import Grid


def problem_of(d=64, width=64, dtype=torch.bfloat16, dropout=None, scale=1.0, deterministic=False, **seen):
    q, k, v = (torch.empty(2, heads, 96, size, dtype=dtype) for heads, size in ((4, d), (2, d), (2, width)))
    return KernelProblem.of_heads(
        q, k, v, Visibility(group=2, **seen), scale, dropout=dropout, deterministic=deterministic
    )


@pytest.mark.parametrize("d, width", [(64, 64), (192, 128), (8, 256), (96, 96)])
def test_widths_up_to_256_are_taken(d, width):
    assert backward.supports(problem_of(d, width, above=0, below=-10))
    assert backward_form(max(d, width), spills=True).d >= max(d, width)


def test_packed_sequences_are_taken():
    at = torch.arange(96)[None]
    assert backward.supports(problem_of(first=at, stop=at + 1))


def test_slopes_are_spilled_of_wide_heads_and_where_gradients_must_repeat():
    assert backward.spills(problem_of(136, 64)) and backward.spills(problem_of(64, 64, deterministic=True))
    assert not backward.spills(problem_of(128, 128))


@pytest.mark.parametrize(
    "options",
    [
        {"d": 264}, {"d": 60}, {"dtype": torch.float32}, {"bias": torch.zeros(1, 1, 96, 96)},
        {"query_ids": torch.zeros(1, 96)}, {"blocks": torch.ones(1, 1, dtype=torch.bool)},
        {"dropout": Dropout(probability=0.5, seed=1)}, {"scale": -1.0}, {"scale": 0.0},
    ],
    ids=str,
)  # fmt: skip
def test_everything_else_is_left_to_triton(options):
    assert not backward.supports(problem_of(**options))


@pytest.mark.parametrize("width, spills", [(64, False), (64, True), (128, False), (128, True), (256, True)])
def test_tiles_fit(width, spills):
    form = backward_form(width, spills=spills)
    gradients, scores = (2 if form.keys == 128 else 1) * 64 * form.d // 128, 2 * 64 * form.rows // 128
    assert gradients + scores + 16 <= form.registers <= 240


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_programs_move_every_tensor_at_least_once(deterministic):
    problem = problem_of(128, 64, deterministic=deterministic)
    rows, *launches = backward.gradient_grids(problem)
    queries, keys = 2 * 4 * 96, 2 * 2 * 96
    assert rows.following > 0 and rows.done == 0
    of_keys = [grid for grid in launches if isinstance(grid, Grid) and grid.rows * grid.units == keys]
    written = keys * 2 * (128 + 64) * 2
    slopes = 2 * 4 * 96 * 96 * 2 if deterministic else 0
    assert sum(grid.compulsory_bytes for grid in of_keys) >= written + slopes + queries * (128 + 64) * 2
    if deterministic:
        assert launches[-1].compulsory_bytes >= queries * 128 * 2 + slopes + keys * 128 * 2


def test_nothing_is_told_of_the_bytes_of_gradients_that_are_carried():
    q = torch.empty(1, 1, 2**17, 256, dtype=torch.bfloat16, device="meta")
    problem = KernelProblem.of_heads(q, q, q, Visibility(group=1), 1.0)
    assert carries(problem) and backward.gradient_grids(problem) is None
