"""Which problems the backward kernels of Hopper take, and their tiles."""

import pytest
import torch

from attenio.kernels.dropout import Dropout
from attenio.kernels.gluon import backward
from attenio.kernels.problem import KernelProblem
from attenio.kernels.visibility import Visibility


def problem_of(d=64, width=64, dtype=torch.bfloat16, dropout=None, scale=1.0, **seen):
    q, k, v = (torch.empty(2, heads, 96, size, dtype=dtype) for heads, size in ((4, d), (2, d), (2, width)))
    return KernelProblem.of_heads(q, k, v, Visibility(group=2, **seen), scale, dropout=dropout)


@pytest.mark.parametrize("d, width", [(64, 64), (192, 128), (8, 256), (96, 96)])
def test_widths_up_to_256_are_taken(d, width):
    assert backward.supports(problem_of(d, width, above=0, below=-10))
    assert backward.backward_form(max(d, width)).d >= max(d, width)


@pytest.mark.parametrize(
    "options",
    [
        {"d": 264}, {"d": 60}, {"dtype": torch.float32}, {"bias": torch.zeros(1, 1, 96, 96)},
        {"first": torch.zeros(1, 96), "stop": torch.ones(1, 96)}, {"query_ids": torch.zeros(1, 96)},
        {"dropout": Dropout(probability=0.5, seed=1)}, {"scale": -1.0}, {"scale": 0.0},
    ],
    ids=str,
)  # fmt: skip
def test_everything_else_is_left_to_triton(options):
    assert not backward.supports(problem_of(**options))


@pytest.mark.parametrize("width", [64, 128, 256])
def test_tiles_fit(width):
    form = backward.backward_form(width)
    gradients = 2 * 64 * form.d // 128 if form.keys == 128 else 64 * form.d // 128
    scores = (2 if form.keys == 128 else 1) * 64 * form.rows // 128
    assert gradients + scores + 16 <= form.registers <= 240
    # Keys and values, two stages of rows (of their gradients one, where rows are wide), shared slopes, staged sums.
    streamed = (3 if form.keys == 64 else 2 * form.stages) * form.rows * form.d * 2
    shared = 2 * form.keys * form.d * 2 + streamed + form.slots * form.keys * form.rows * 2 + 2 * 64 * 64 * 4
    assert shared <= 227 * 2**10
