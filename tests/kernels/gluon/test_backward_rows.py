"""What is done to single rows before and after the backward kernels, in Triton's interpreter."""

import os
import subprocess
import sys

# In a process of its own, because kernels are interpreted only if that was said before they are imported.
_RUNS = """
import torch
from attenio.kernels.gluon.backward_rows import convert_kernel, prepare_kernel

heads, batch = 2, 2
for n, width, d in ((70, 96, 128), (130, 40, 64)):
    padded = -(-n // 128) * 128
    right = torch.randn(batch * heads, padded, d)
    # Tiles of 64 x 64 as a product holds them: warps, halves of 8 rows, rows, columns by 8, pairs.
    tiles = right.view(-1, 64, d // 64, 64).transpose(1, 2).reshape(-1, 4, 2, 8, 8, 4, 2)
    sums = tiles.permute(0, 4, 1, 3, 5, 2, 6).reshape(-1).contiguous()
    dq = torch.full((batch * heads, n, width), torch.nan)
    convert_kernel[(sums.numel() // 4096,)](sums, None, dq, 0.5, n, padded, WIDTH=width, D=d)
    assert torch.equal(dq, right[:, :n, :width] * 0.5)
    output, gradient = torch.randn(batch, n, heads, width).transpose(1, 2), torch.randn(batch, heads, n, width)
    largest, total = torch.randn(batch * heads, n), torch.rand(batch * heads, n) + 1
    total[0, 3] = 0
    lse, delta = torch.full((2, batch * heads, padded), torch.nan)
    work, programs = torch.full((5000,), torch.nan), padded // 64 * batch * heads
    prepare_kernel[(programs,)](
        output, gradient, largest, total, lse, delta, None, None, work, 5000, -(-5000 // (1024 * programs)) * 1024,
        *output.stride()[:3], *gradient.stride()[:3], heads, 1, n, padded,
        ROWS=64, WIDTH=width, PADDED_WIDTH=max(16, 1 << (width - 1).bit_length()), SHARES=0,
    )
    assert (work == 0).all() and (lse[:, n:] == torch.inf).all() and (delta[:, n:] == 0).all()
    torch.testing.assert_close(lse[:, :n], torch.where(total == 0, torch.inf, largest + total.log2()))
    torch.testing.assert_close(delta[:, :n], (output * gradient).sum(-1).flatten(0, 1), rtol=1e-4, atol=1e-4)
"""


def test_rows_are_prepared_and_converted():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _RUNS],
        capture_output=True, text=True, timeout=600, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
