"""Sizes that people call beside those of models: every width, wider heads, single precision, short sequences."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from cases import OURS, SAME_BYTES, Attend, Case, Inputs, on, pulled
from front_runner import DIRECTIONS, TOKENS, case_of
from torch.nn.functional import scaled_dot_product_attention

from attenio import attention

N = 4096
HIDDEN = 2048
WIDTHS = range(8, 257, 8)
# TMA takes no heads of more than 256 columns: these run in portable Triton.
WIDE = (264, 320, 384, 448, 512)
SHORT = (64, 128, 197, 256, 384, 512)


def widths() -> Iterator[Case]:
    """Every multiple of 8 up to 256, full forward and causal backward: beside FlashAttention-4 and cuDNN."""
    for direction in DIRECTIONS:
        for d in WIDTHS:
            heads = max(1, HIDDEN // d)
            shape = (TOKENS // N, heads, heads, N, N)
            yield case_of("widths", direction, shape, (d, d), direction == "backward", None)


def wide_heads() -> Iterator[Case]:
    """Heads of more than 256 columns, beside whatever PyTorch chooses."""
    for direction in DIRECTIONS:
        for d in WIDE:
            yield beside_sdpa("wide heads", direction, (4, 4, 4, 2048, 2048), d, torch.bfloat16, is_causal=True)


def single_precision() -> Iterator[Case]:
    """fp32, beside whatever PyTorch chooses, with its default precision of products."""
    for direction in DIRECTIONS:
        for d in (32, 64, 128, 256):
            for is_causal in (False, True):
                shape = (4, 1024 // d, 1024 // d, 2048, 2048)
                yield beside_sdpa("single precision", direction, shape, d, torch.float32, is_causal=is_causal)


def short_heads() -> Iterator[Case]:
    """Many heads of 64 to 512 tokens: beside FlashAttention-4 and cuDNN.

    Forward they are near the rate of the memory: beside all, an elementwise kernel reads and writes the same tensors.
    """
    for direction in DIRECTIONS:
        for d in (64, 128):
            for n in SHORT:
                for is_causal in (False, True):
                    shape = (max(1, 2**15 // n), 768 // d, 768 // d, n, n)
                    case = case_of("short heads", direction, shape, (d, d), is_causal, None)
                    if direction == "forward":
                        case.contenders[SAME_BYTES] = on(lambda q, k, v: torch.addcmul(q, k, v))
                    yield case


def beside_sdpa(
    part: str, direction: str, shape: tuple[int, ...], d: int, dtype: torch.dtype, *, is_causal: bool
) -> Case:
    case = case_of(part, direction, shape, (d, d), is_causal, None)
    attends: dict[str, Attend] = {
        OURS: lambda q, k, v: attention(q, k, v, is_causal=is_causal),
        "sdpa": lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=is_causal),
    }

    def inputs() -> Inputs:
        q, k, v = (x.to(dtype) for x in case.inputs())
        return q, k, v

    by = on if direction == "forward" else pulled
    return replace(case, inputs=inputs, contenders={name: by(attend) for name, attend in attends.items()})
