"""Groups of query heads in parts: where the key tiles of all KV heads do not fill the SMs, blocks share a group.

The parts of a group count as KV heads that have the same keys, with fewer query heads each. Every part writes its own
gradients of keys and values, in the type of these, and they are summed at the end, in fp32 and always in one order.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from dataclasses import replace

import torch
import triton
import triton.language as tl

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients
from attenio.kernels.gpu.arguments import grouped_heads
from attenio.kernels.hopper.backward.launch_groups import busy_time, launch_time
from attenio.kernels.replay.launches import launch_specialized

# What summing is taken to cost, in tiles of rows (2.3 us each): a launch, and bytes mostly from L2 (2.6 TB/s).
_SUM_LAUNCH, _SUM_BYTES = 1.0, 6e6
# Numbers that a program sums.
_NUMBERS = 2048
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
    parts = int(gradients.query.shape[1]) // problem.kv_heads
    if parts == 1:
        return gradients
    d_key, d_value = (
        torch.empty((problem.batch, problem.kv_heads, *each.shape[2:]), dtype=each.dtype, device=each.device)
        for each in (gradients.key, gradients.value)
    )
    heads, numbers = problem.batch * problem.kv_heads, [problem.keys * int(each.shape[-1]) for each in (d_key, d_value)]
    programs = [heads * -(-each // _NUMBERS) for each in numbers]
    launch_specialized(
        sum_parts_kernel, sum(programs),
        (gradients.key, gradients.value, d_key, d_value, parts, *numbers, programs[0]), (_NUMBERS,),
    )  # fmt: skip
    return gradients._replace(query=gradients.query.view(problem.query.shape), key=d_key, value=d_value)


@triton.jit
def _sum_parts(Parts, Sums, program, parts, numbers, NUMBERS: tl.constexpr):
    programs = (numbers + NUMBERS - 1) // NUMBERS
    head, at = (program // programs).to(tl.int64), program % programs * NUMBERS + tl.arange(0, NUMBERS)
    total = tl.zeros([NUMBERS], tl.float32)
    for part in range(parts):
        total += tl.load(Parts + (head * parts + part) * numbers + at, mask=at < numbers, other=0.0).to(tl.float32)
    tl.store(Sums + head * numbers + at, total.to(Sums.dtype.element_ty), mask=at < numbers)


@triton.jit(do_not_specialize=["parts", "key_numbers", "value_numbers", "key_programs"])
def sum_parts_kernel(
    KeyParts, ValueParts, dK, dV, parts, key_numbers, value_numbers, key_programs, NUMBERS: tl.constexpr
):  # fmt: skip
    """Sums over the parts of a group: programs take NUMBERS of a KV head's dK each, the last ones of its dV."""
    program = tl.program_id(0)
    if program < key_programs:
        _sum_parts(KeyParts, dK, program, parts, key_numbers, NUMBERS)
    else:
        _sum_parts(ValueParts, dV, program - key_programs, parts, value_numbers, NUMBERS)
