"""Groups of query heads in parts: where the key tiles of all KV heads do not fill the SMs, blocks share a group.

The parts of a group count as KV heads that have the same keys, with fewer query heads each. Every part writes its own
gradients of keys and values, in the type of these, and they are summed at the end, in fp32 and always in one order.
"""

from dataclasses import replace

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients
from attenio.kernels.gpu.arguments import grouped_heads
from attenio.kernels.hopper.backward.launch_groups import busy_time, launch_time

# What summing costs, in tiles of rows (2.3 us each): a launch, and bytes that mostly come from L2 (measured: 2.5 TB/s).
_SUM_LAUNCH, _SUM_BYTES = 1.0, 6e6
# What a block costs that begins while others run: its keys are read once more. And the time that parts must save.
_BLOCK, _WORTH = 1.0, 0.03


def in_parts(problem: KernelProblem, parts: int) -> KernelProblem:
    """The problem with every group in so many parts, which count as KV heads."""
    if parts == 1:
        return problem
    heads = grouped_heads(problem.query).flatten(1, 2)
    return replace(problem, query=heads.unflatten(1, (problem.kv_heads * parts, problem.group // parts)))


def group_parts_of(problem: KernelProblem) -> int:
    """Parts of a group: so many KV heads have the same keys."""
    return problem.kv_heads // int(problem.key.shape[1])


def best_parts(
    batch_heads: int, group: int, steps: tuple[int, ...], head_bytes: int, gradient_bytes: int, processors: int
) -> int:
    """The parts with the least time, of heads whose key tiles meet ``steps`` tiles of rows with a whole group each.

    Accumulators of a head and gradients of all keys and values have so many bytes.
    """
    best, least = 1, (1 - _WORTH) * launch_time(batch_heads, steps, head_bytes, processors)
    for parts in range(2, group + 1):
        if group % parts == 0 and busy_time(batch_heads, steps, processors) < least:
            shorter = tuple(step // parts for step in steps)
            time = launch_time(batch_heads * parts, shorter, head_bytes // parts, processors)
            time += _SUM_LAUNCH + (parts + 1) * gradient_bytes / _SUM_BYTES
            time += _BLOCK * (parts - 1) * batch_heads * len(steps) / processors
            if time < least:
                best, least = parts, time
    return best


def joined(gradients: Gradients, problem: KernelProblem) -> Gradients:
    """Gradients of the parts as those of the problem whose groups they are."""
    if gradients.query.shape[1] == problem.kv_heads:
        return gradients
    key, value = (_sum_of_parts(each, problem.kv_heads) for each in (gradients.key, gradients.value))
    return gradients._replace(query=gradients.query.view(problem.query.shape), key=key, value=value)


def _sum_of_parts(gradient: Tensor, kv_heads: int) -> Tensor:
    return torch.sum(gradient.unflatten(1, (kv_heads, -1)), 2)
