"""What is done to single rows between the launches of the backward kernels, in Triton's interpreter."""

import math

import pytest
import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.hopper.backward.preprocess import RowStatistics


@pytest.mark.parametrize(("n", "width", "d"), [(70, 96, 128), (130, 40, 64)])
def test_rows_are_prepared_and_converted(n, width, d):
    heads, batch = 2, 2
    padded = -(-n // 128) * 128
    output, gradient = torch.randn(batch, n, heads, width).transpose(1, 2), torch.randn(batch, heads, n, width)
    largest, total = torch.randn(2, batch, heads, 1, n)
    total = total.abs() + 1
    total[0, 0, 0, 3] = 0
    keys = torch.empty(batch, heads, 8, width)
    problem = KernelProblem.of_heads(output, keys, keys, Visibility(group=1), 1.0)
    saved = output[:, :, None], largest, total, gradient[:, :, None]
    statistics = RowStatistics.of(problem, saved, 3, d)  # as many heads as any launch below has
    right = torch.randn(2, padded, d)
    # Tiles of 64 x 64 as a product holds them: warps, halves of 8 rows, rows, columns by 8, pairs.
    tiles = right.view(-1, 64, d // 64, 64).transpose(1, 2).reshape(-1, 4, 2, 8, 8, 4, 2)
    statistics.dq_acc[: 2 * padded] = tiles.permute(0, 4, 1, 3, 5, 2, 6).reshape(-1, d)
    statistics.lse.fill_(torch.nan), statistics.delta.fill_(torch.nan)
    dq = torch.full((batch, heads, 1, n, width), torch.nan)
    statistics.between(range(1, 3), range(3, 4), dq, 0.5)
    assert torch.equal(dq.view(-1, n, width)[1:3], right[:, :n, :width] * 0.5)
    assert dq.view(-1, n, width)[[0, 3]].isnan().all()
    assert (statistics.dq_acc[:padded] == 0).all() and (statistics.dq_acc[padded : 2 * padded] != 0).all()
    assert statistics.lse.view(-1, padded)[:3].isnan().all()
    statistics.between(range(0), range(3), dq, 0.5)
    lse, delta = statistics.lse.view(-1, padded), statistics.delta.view(-1, padded)
    assert (lse[:, n:] == torch.inf).all() and (delta[:, n:] == 0).all()
    expected = torch.where(total == 0, torch.inf, largest + total.log2()).flatten(0, 2)
    torch.testing.assert_close(lse[:, :n], expected)
    torch.testing.assert_close(delta[:, :n], (output * gradient).sum(-1).flatten(0, 1), rtol=1e-4, atol=1e-4)
    alone = RowStatistics.of(problem, saved)
    alone.between(range(0), range(4))
    assert torch.equal(alone.lse, statistics.lse) and torch.equal(alone.delta, statistics.delta)
    offsets = RowStatistics.of(problem, saved, as_offsets=True)
    offsets.between(range(0), range(4), scale=0.5)
    numbers = offsets.offsets.double()
    assert (numbers[:, 6:] == 0).all()
    expected = torch.where(alone.lse == torch.inf, 2.0**120, alone.lse.double() / (0.5 * math.log2(math.e)))
    torch.testing.assert_close(numbers[:, :3].sum(1), expected, rtol=2**-22, atol=0)
    torch.testing.assert_close(numbers[:, 3:6].sum(1), alone.delta.double(), rtol=2**-23, atol=0)
