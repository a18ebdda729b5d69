"""PyTorch's own attention on a CPU, called where it is expected to be done first.

Its fused kernel is the same nest as AttenIO's, compiled, with the exponential inside; it knows no window, no stacked
groups, and on many processors no fast product of 16-bit numbers. Tiles of matrix products skip what nobody sees and
read keys once for all heads of a group, but every operation on them is called from Python. So both times are
estimated, each as the longer of arithmetic and reading on the threads that have work, plus what Python takes:

- ``PRODUCTS_PER_S``, ``WORDS_PER_S``: one core of the processor of ``studies/cpu-attention``, 33 GFLOP/s and 13 GB/s.
  Others are faster in both, and only their ratio decides between kernels.
- A score of tiles takes twice the time of one of the fused kernel, four times where a mask is added: seen on one x86
  processor with AVX512 at n=512, d=64 on one thread, and not measured on ARM.
  A score of PyTorch's unfused way is moved ``UNFUSED_PASSES`` times.
- Without vector instructions for 16-bit numbers (AVX512 has them, for gradients only of bf16) products are scalar.
- What Python takes for tiles is ``HOST_S``, and ``BACKWARD_HOST_S`` more for gradients: assumed, and below what a busy
  machine showed, so that tiles are not left too early.
"""

from dataclasses import dataclass
from functools import cache

import torch

from attenio.kernels.cpu.tiles import cuts

PRODUCTS_PER_S = 16e9
WORDS_PER_S = 3.3e9
SLOW_PRODUCTS_PER_S = {torch.bfloat16: 0.07e9, torch.float16: 1.2e9}
UNFUSED_PASSES = 8
HOST_S, BACKWARD_HOST_S, LIBRARY_HOST_S = 150e-6, 600e-6, 10e-6
# Products of a backward pass over those of a forward pass: five against two, and seven where both passes make scores.
_BACKWARD, _BACKWARD_TILES = 2.5, 3.5


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the two times depend on.

    ``visible_keys`` are those that tiles of a row meet. ``masks``: a mask is added. ``fuses``: PyTorch takes its fused
    kernel. ``fuses_tiles``: so do we, for each thread's rows (``fused.py``). ``hides_late`` keys, top-left causal.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    visible_keys: int
    widths: int
    dtype: torch.dtype
    masks: bool
    causal: bool
    fuses: bool
    fuses_tiles: bool
    differentiates: bool
    threads: int

    @property
    def products(self) -> float:
        """Multiplications of a forward pass over all keys, or those up to the diagonal."""
        seen = 0.5 if self.causal and self.queries > 1 else 1.0
        return self.batch * self.heads * self.queries * self.keys * self.widths * seen


@dataclass(frozen=True, kw_only=True)
class Library:
    """PyTorch's own attention: its fused kernel, or products with a softmax between them."""

    is_fused: bool


def library_first(sizes: Sizes) -> bool:
    """Whether PyTorch's own attention is expected to be done before tiles are."""
    return library_seconds(sizes) <= tiles_seconds(sizes)


def library_tiles(queries: int, keys: int) -> tuple[int, int]:
    """Rows and keys that the fused kernel has at a time."""
    return min(queries, 256 if queries >= 768 else 64 if queries >= 192 else 32), min(keys, 512)


def library_seconds(sizes: Sizes) -> float:
    """The time of PyTorch's own attention: every query head reads its keys; gradients have a thread a head."""
    rows = library_tiles(sizes.queries, sizes.keys)[0]
    pieces = sizes.batch * sizes.heads * len(cuts(sizes.queries, rows))
    words = pieces * sizes.keys * sizes.widths
    if not sizes.fuses:
        words += UNFUSED_PASSES * sizes.batch * sizes.heads * sizes.queries * sizes.keys
    forward = max(sizes.products / _rate(sizes.dtype, backward=False), words / WORDS_PER_S)
    found = LIBRARY_HOST_S + forward / min(sizes.threads, pieces)
    if sizes.differentiates:
        work = max(_BACKWARD * sizes.products / _rate(sizes.dtype, backward=True), 2 * words / WORDS_PER_S)
        found += LIBRARY_HOST_S + work / min(sizes.threads, sizes.batch * sizes.heads)
    return found


def tiles_seconds(sizes: Sizes) -> float:
    """The time of tiles: stacked groups read keys once, and what nobody sees is skipped."""
    share = sizes.visible_keys / max(1, sizes.keys)
    rate = PRODUCTS_PER_S * (1.0 if sizes.fuses_tiles else 0.25 if sizes.masks else 0.5)
    words = sizes.batch * sizes.kv_heads * sizes.visible_keys * sizes.widths
    forward = max(sizes.products * share / rate, words / WORDS_PER_S) / sizes.threads
    if not sizes.differentiates:
        return HOST_S + forward
    factor = _BACKWARD if sizes.fuses_tiles else _BACKWARD_TILES
    return HOST_S + BACKWARD_HOST_S + forward + factor * sizes.products * share / rate / sizes.threads


def _rate(dtype: torch.dtype, *, backward: bool) -> float:
    return PRODUCTS_PER_S if is_fast(dtype, backward=backward) else SLOW_PRODUCTS_PER_S[dtype]


@cache
def is_fast(dtype: torch.dtype, *, backward: bool) -> bool:
    """Whether the fused kernel multiplies numbers of this type by vector instructions here."""
    if dtype not in SLOW_PRODUCTS_PER_S:
        return True
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return wide and not (backward and dtype == torch.float16)
