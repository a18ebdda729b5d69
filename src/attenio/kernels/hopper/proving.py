"""A kernel is used once it has been right on this device.

What a compiler makes of a kernel depends on its version and on the device, and a matrix product whose registers are
used again too early is a known mistake of some. So the first time that a kernel is needed on a device it computes a
small random problem, which PyTorch's products compute by the definition in float64. If the two differ by more than
rounding, another kernel runs from then on, and a warning says which. The verdict is stored beside the measured tiles,
for each device and version. The definition compiles nothing.
"""

import warnings
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.gpu.tuning import recalled, remember
from attenio.kernels.replay.compiling import compile_side_by_side

# Two computations of one thing differ by so much of its norm at most: four roundings of the type in 16 bits, and in
# fp32, where sums are rounded as well, sixty-four.
_ALLOWED = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9, torch.float32: 2.0**-18}
# Less than any score; a row that sees nothing is compared with it.
_LOWEST = torch.finfo(torch.float64).min


# Results of a kernel and of the definition.
Computed: TypeAlias = Callable[[], tuple[list[Tensor], list[Tensor]]]


def is_right(
    kernel: str, dtype: torch.dtype, device: torch.device, both: Computed | None, *, instead: str = "portable kernels"
) -> bool:
    """Whether the results of a kernel are those of the definition; not known yet while a CUDA graph is captured.

    It is taken to be right where this is not to be tried: without ``both``. A warning says what runs ``instead`` of one
    that is not.
    """
    if device.type != "cuda":
        return True
    name = f"right: {kernel} {dtype}"
    verdict = recalled(name, device)
    if verdict is None and both is None:
        return True
    if verdict is None and both is not None:
        if torch.cuda.is_current_stream_capturing():
            return False
        compile_side_by_side(both)
        off = max(_distance(mine, theirs) for mine, theirs in zip(*both(), strict=True))
        verdict = "yes" if off <= _ALLOWED[dtype] else "no"
        remember(name, verdict, device)
        if verdict == "no":
            where = torch.cuda.get_device_name(device)
            warnings.warn(f"{kernel} in {dtype} is off by {off:.1e} on {where}; {instead} run instead", stacklevel=2)
    return verdict == "yes"


def is_known_right(kernel: str, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether ``is_right`` has found a kernel right before."""
    return device.type != "cuda" or recalled(f"right: {kernel} {dtype}", device) == "yes"


def small_problem(
    lengths: tuple[int, int],
    widths: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
    *,
    masked: bool,
    packed: bool = False,
    deterministic: bool = False,
) -> KernelProblem:
    """Random heads in groups of two, of these widths of keys and values, enough that SMs wait for each other.

    Scores are masked above a diagonal, or between two ``packed`` sequences.
    """
    drawn = torch.Generator(device).manual_seed(0)
    (queries, keys), (d, width) = lengths, widths
    sizes = (24, 2, 2, queries, d), (24, 2, keys, d), (24, 2, keys, width)
    query, key, value = (torch.randn(size, generator=drawn, device=device).to(dtype) for size in sizes)
    seen = Visibility(group=2, above=keys - queries if masked else UNBOUNDED)
    if packed:
        second = (torch.arange(queries, device=device) >= queries // 2).long()[None]
        seen = Visibility(group=2, first=second * (keys // 3), stop=torch.where(second > 0, keys, keys // 3))
    return KernelProblem(
        query=query, key=key, value=value, visible=seen, scale=d**-0.5, deterministic=deterministic
    )  # fmt: skip


def forward_by_definition(problem: KernelProblem) -> tuple[Tensor, Tensor, Tensor]:
    """Output, largest score of each row in units of log2, and the sum of its weights."""
    scores = _scores(problem)
    largest = scores.amax(-1)
    # Of exp2 in float64 PyTorch has no kernel ready: it would compile one.
    weights = torch.exp((scores - largest.clamp(min=_LOWEST)[..., None]) / LOG2_E)
    total = weights.sum(-1)
    output = torch.einsum("bkgqn,bknd->bkgqd", _probabilities(scores), problem.value.double())
    return output.to(problem.query.dtype), largest.float(), total.float()


def gradients_by_definition(problem: KernelProblem, gradient: Tensor) -> list[Tensor]:
    """dQ, dK and dV, given the gradient of the output."""
    query, key, value, d_output = (x.double() for x in (problem.query, problem.key, problem.value, gradient))
    probabilities = _probabilities(_scores(problem))
    d_probabilities = torch.einsum("bkgqd,bknd->bkgqn", d_output, value)
    delta = (probabilities * d_probabilities).sum(-1, keepdim=True)
    d_scores = probabilities * (d_probabilities - delta) * problem.scale
    return [
        torch.einsum("bkgqn,bknd->bkgqd", d_scores, key),
        torch.einsum("bkgqn,bkgqd->bknd", d_scores, query),
        torch.einsum("bkgqn,bkgqd->bknd", probabilities, d_output),
    ]


def _probabilities(scores: Tensor) -> Tensor:
    """Zeros in rows that see nothing."""
    return torch.softmax(scores / LOG2_E, -1).nan_to_num(0.0)


def _scores(problem: KernelProblem) -> Tensor:
    """Of a problem with a band and ranges only, in float64 and in units of log2; -inf where a row may not see a key."""
    seen, device = problem.visible, problem.query.device
    scores = torch.einsum("bkgqd,bknd->bkgqn", problem.query.double(), problem.key.double()) * problem.scale * LOG2_E
    i, j = torch.arange(problem.queries, device=device)[:, None], torch.arange(problem.keys, device=device)
    shown = (j >= i + seen.below) & (j <= i + seen.above)
    if seen.first is not None and seen.stop is not None:
        shown = shown & (j >= seen.first[:, None, None, :, None]) & (j < seen.stop[:, None, None, :, None])
    return scores.masked_fill(~shown, -torch.inf)


def _distance(mine: Tensor, theirs: Tensor) -> float:
    """Relative, by norm; more than anything is allowed where a number is not finite."""
    off = float((mine.double() - theirs.double()).norm() / theirs.double().norm())
    return off if off < float("inf") else float("inf")
