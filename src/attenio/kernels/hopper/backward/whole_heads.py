"""Short heads in ``key_stationary``: a program computes all keys of a head, and writes dQ itself.

Accumulators of dQ that all programs add to are cleared before and converted after: at 256 tokens and 128 columns that
took 98 microseconds beside 149 of the gradients (H200). A program that has all key tiles of a head one after the other
stores the first part of a row's dQ in memory of its own, adds the next ones, and writes the sum with the last. This
memory is the same for every head that it takes, so it stays in L2. Sums are made in one order, and repeat to the bit.
"""

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.backward.chunks import Chunk
from attenio.kernels.hopper.backward.config import BackwardCall, BackwardConfig
from attenio.kernels.hopper.backward.masks import VisibleRows
from attenio.kernels.hopper.backward.preprocess import RowStatistics
from attenio.kernels.hopper.cuda.key_stationary import launch_key_stationary


def whole_heads_gradients(problem: KernelProblem, saved: tuple[Tensor, ...], config: BackwardConfig) -> Gradients:
    """The gradients; ``saved`` are output, largest, total and the gradient of the output, all by KV heads and group."""
    statistics = RowStatistics.of(problem, saved, as_offsets=True)
    heads, tiles = problem.batch * problem.kv_heads, -(-problem.keys // config.keys)
    statistics.between(range(0), range(heads * problem.group), scale=problem.scale)
    if tiles > 1:
        rows = min(heads, processors_of(problem.query.device)) * problem.group * statistics.padded
        sums = torch.empty(rows, config.stored_columns, dtype=torch.float32, device=problem.query.device)
        statistics = statistics._replace(dq_acc=sums)
    call = BackwardCall.of(problem, config, VisibleRows.of(problem), statistics)
    launch_key_stationary(call, Chunk(range(heads), range(tiles), range(statistics.padded)))
    return call.gradients
