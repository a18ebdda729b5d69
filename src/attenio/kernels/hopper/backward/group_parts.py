"""Groups of query heads in parts: where the key tiles of all KV heads do not fill the SMs, blocks share a group.

The parts of a group count as KV heads that have the same keys, with fewer query heads each. Every part writes its own
gradients of keys and values, in the type of these, and they are summed at the end, in fp32 and always in one order.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import Gradients
from attenio.kernels.gpu.arguments import grouped_heads
from attenio.kernels.gpu.band import Band
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper.backward.launch_groups import busy_time, launch_time
from attenio.kernels.hopper.backward.preprocess import PADDING
from attenio.kernels.replay.launches import launch_specialized

if TYPE_CHECKING:
    from attenio.kernels.hopper.backward.config import BackwardConfig

# What summing is taken to cost, in tiles of rows (2.3 us each): a launch, and bytes mostly from L2 (2.6 TB/s).
_SUM_LAUNCH, _SUM_BYTES = 1.0, 6e6
# Numbers that a program sums.
_NUMBERS = 2048
# What a block costs that begins while others run: its keys are read once more. And the time that parts must save.
_BLOCK, _WORTH = 1.0, 0.03


def parts_for(problem: KernelProblem, config: "BackwardConfig") -> int:
    """Parts of a group that fill the SMs; one where accumulators are integers, whose scales are those of a KV head."""
    if problem.group == 1 or config.fixed_point:
        return 1
    size = problem.batch, problem.kv_heads, problem.group, problem.queries, problem.keys
    columns = int(problem.key.shape[-1] + problem.value.shape[-1])
    return _parts(size, columns, Band.of(problem), config, processors_of(problem.query.device))


@lru_cache(maxsize=512)
def _parts(size: tuple[int, ...], columns: int, band: Band, config: "BackwardConfig", processors: int) -> int:
    batch, kv_heads, group, queries, keys = size
    steps, batch_heads = steps_of(band, queries, keys, group, config), batch * kv_heads
    return best_parts(
        batch_heads, group, steps, head_bytes(group, queries, config), batch_heads * keys * columns * 2, processors
    )


def head_bytes(group: int, queries: int, config: "BackwardConfig") -> int:
    """Accumulators of a batch x KV head."""
    return 4 * group * (-(-queries // PADDING) * PADDING) * config.stored_columns


@lru_cache(maxsize=512)
def steps_of(band: Band, queries: int, keys: int, group: int, config: "BackwardConfig") -> tuple[int, ...]:
    """Tiles of rows that each tile of keys meets."""
    rows = config.planned_rows
    return tuple(group * len(span) // rows for span in band.spans(queries, keys, config.keys, rows))


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
