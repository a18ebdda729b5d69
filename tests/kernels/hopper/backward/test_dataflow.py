"""Which problems the backward kernels of Hopper take, and their tiles."""

import pytest
import torch

from attenio.kernels.call.dropout import Dropout
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper import backward
from attenio.kernels.hopper.backward.config import backward_config, config_of
from attenio.kernels.hopper.backward.spilled_gradients import carries


def problem_of(d=64, width=64, dtype=torch.bfloat16, dropout=None, scale=1.0, deterministic=False, **seen):
    q, k, v = (torch.empty(2, heads, 96, size, dtype=dtype) for heads, size in ((4, d), (2, d), (2, width)))
    return KernelProblem.of_heads(
        q, k, v, Visibility(group=2, **seen), scale, dropout=dropout, deterministic=deterministic
    )


@pytest.mark.parametrize("d, width", [(64, 64), (192, 128), (8, 256), (96, 96)])
def test_widths_up_to_256_are_taken(d, width):
    assert backward.supports(problem_of(d, width, above=0, below=-10))
    config = config_of(problem_of(d, width))
    assert config.d >= d and config.width >= width


def test_packed_sequences_are_taken():
    at = torch.arange(96)[None]
    assert backward.supports(problem_of(first=at, stop=at + 1))


def test_slopes_are_spilled_of_wide_heads_and_sums_are_integers_where_they_must_repeat():
    assert config_of(problem_of(136, 64)).spills and not config_of(problem_of(128, 128)).spills
    assert config_of(problem_of(128, 64, deterministic=True)).fixed_point
    assert not config_of(problem_of(128, 64)).fixed_point


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


@pytest.mark.parametrize("d, width", [(64, 64), (96, 96), (128, 128), (192, 128), (192, 192), (256, 256)])
def test_tiles_fit(d, width):
    config = backward_config(d, width)
    assert (config.d, config.width) == (d, width)
    gradients, scores = (2 if config.keys == 128 else 1) * 64 * config.d // 128, 2 * 64 * config.rows // 128
    assert gradients + scores + 16 <= config.registers <= 240


def test_nothing_is_told_of_the_bytes_of_gradients_that_are_carried():
    q = torch.empty(1, 1, 2**17, 256, dtype=torch.bfloat16, device="meta")
    problem = KernelProblem.of_heads(q, q, q, Visibility(group=1), 1.0)
    assert carries(problem) and backward.gradient_grids(problem) is None
