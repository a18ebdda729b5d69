"""PyTorch's own attention on a CPU, called where it is expected to be done first.

Its fused kernel is the same nest as AttenIO's, compiled, with the exponential inside; it knows no window, no stacked
groups, and on many processors no fast product of 16-bit numbers. Tiles of matrix products skip what is masked and
read keys once for all heads of a group, but every operation on them is called from Python. So both times are
estimated, each as the longer of arithmetic and reading on the threads that have work, plus what Python takes. A kind of
processor is a ``Host``; all its numbers are of one core, and only ratios decide between kernels.

- ``ARM``: products and words of ``studies/cpu-attention``, 33 GFLOP/s and 13 GB/s; what Python takes is assumed.
- ``X86``: one core at 2.5 GHz with AVX512, processor time of one thread, the least of several calls beside other work.
  PyTorch's kernel has 45e9 products/s (n=512 and more, d=64) and reads 4e9 words/s (one query, 1,024 and more keys).
  Tiles make a quarter of the products where a mask or the edge of a window is added to scores, and half otherwise;
  they read 1.7e9 words/s. Calls of tiles with next to no work take 0.8 ms, and with gradients 5 ms on two threads, for
  operations of all threads are called by one interpreter. Halves of it are assumed for processors without AVX512.
- Without vector instructions for 16-bit numbers (AVX512 has them, for gradients only of bf16) products are scalar, and
  so are those of a single row in bf16 with them: 0.38e9 products/s.
- Calls without groups whose keys have up to ``short_bytes`` go to PyTorch whatever is estimated. It was first in all
  that were measured, in every type that its kernel has vector instructions for: most of a short call of tiles is
  Python.
- A score of PyTorch's unfused way is moved ``UNFUSED_PASSES`` times.
- On x86 an estimate may be off by a quarter: tiles are taken where they are expected to be done earlier by ``margin``.
"""

import platform
from dataclasses import dataclass, replace
from functools import cache

import torch

from attenio.kernels.cpu.tiles import cuts

SLOW_PRODUCTS_PER_S = {torch.bfloat16: 0.07e9, torch.float16: 1.2e9}
ROW_PRODUCTS_PER_S = 0.38e9
UNFUSED_PASSES = 8
LIBRARY_HOST_S = 10e-6
# Products of a backward pass over those of a forward pass: five against two, and seven where both passes make scores.
_BACKWARD, _BACKWARD_TILES = 2.5, 3.5


@dataclass(frozen=True, kw_only=True)
class Host:
    """One core of a kind of processor, and what tiles take there beside their work, forward and backward.

    ``band_rate``: the share of all products that tiles make where windows end in them. ``margin``: how many times as
    long PyTorch's own attention has to be expected to take. ``short_bytes``: keys of so many bytes are
    through before a call of tiles has begun.
    """

    products_per_s: float
    words_per_s: float
    tile_words_per_s: float
    call_s: float
    backward_s: float
    band_rate: float
    margin: float
    short_bytes: int


ARM = Host(
    products_per_s=16e9, words_per_s=3.3e9, tile_words_per_s=3.3e9, call_s=150e-6, backward_s=600e-6, band_rate=0.5,
    margin=1.0, short_bytes=2**17,
)  # fmt: skip
X86 = Host(
    products_per_s=45e9, words_per_s=4e9, tile_words_per_s=1.7e9, call_s=0.8e-3, backward_s=4.2e-3, band_rate=0.25,
    margin=1.25, short_bytes=2**20,
)  # fmt: skip


def this_host() -> Host:
    """The kind of this processor."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ARM
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return X86 if wide else replace(X86, products_per_s=X86.products_per_s / 2)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the two times depend on.

    ``visible_keys`` are those that tiles of a row meet. ``masks``: there is a mask, which ``adds`` to scores or hides
    them. ``fuses``: PyTorch takes its fused kernel. ``fuses_tiles``: so do we, for each thread's rows (``fused.py``).
    ``causal``: top-left. ``short``: up to ``short_bytes``, which decides.
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
    short: bool = False
    adds: bool = False

    @property
    def products(self) -> float:
        """Multiplications of a forward pass over all keys, or those up to the diagonal."""
        seen = 0.5 if self.causal and self.queries > 1 else 1.0
        return self.batch * self.heads * self.queries * self.keys * self.widths * seen


@dataclass(frozen=True, kw_only=True)
class Library:
    """PyTorch's own attention: its fused kernel, or products with a softmax between them."""

    is_fused: bool


def library_first(sizes: Sizes, host: Host | None = None) -> bool:
    """Whether PyTorch's own attention is expected to be done before tiles are, or not much later."""
    host = this_host() if host is None else host
    return sizes.short or library_seconds(sizes, host) <= host.margin * tiles_seconds(sizes, host)


def library_tiles(queries: int, keys: int) -> tuple[int, int]:
    """Rows and keys that the fused kernel has at a time."""
    return min(queries, 256 if queries >= 768 else 64 if queries >= 192 else 32), min(keys, 512)


def library_seconds(sizes: Sizes, host: Host | None = None) -> float:
    """The time of PyTorch's own attention: every query head reads its keys; gradients have a thread a head."""
    host = this_host() if host is None else host
    rows = library_tiles(sizes.queries, sizes.keys)[0]
    pieces = sizes.batch * sizes.heads * len(cuts(sizes.queries, rows))
    words = pieces * sizes.keys * sizes.widths
    if not sizes.fuses:
        words += UNFUSED_PASSES * sizes.batch * sizes.heads * sizes.queries * sizes.keys
    reading = words / host.words_per_s
    seconds = LIBRARY_HOST_S + max(sizes.products / _rate(sizes, host), reading) / min(sizes.threads, pieces)
    if sizes.differentiates:
        work = max(_BACKWARD * sizes.products / _rate(sizes, host, backward=True), 2 * reading)
        seconds += LIBRARY_HOST_S + work / min(sizes.threads, sizes.batch * sizes.heads)
    return seconds


def tiles_seconds(sizes: Sizes, host: Host | None = None) -> float:
    """The time of tiles: stacked groups read keys once, and what is masked is skipped."""
    host = this_host() if host is None else host
    share = sizes.visible_keys / max(1, sizes.keys)
    added = 0.25 if sizes.masks else host.band_rate if share < 1.0 else 0.5
    rate = host.products_per_s * (1.0 if sizes.fuses_tiles else added)
    # Numbers of 16 bits are converted first: written once more.
    passes = 2 if sizes.dtype in SLOW_PRODUCTS_PER_S and host.tile_words_per_s < host.words_per_s else 1
    words = passes * sizes.batch * sizes.kv_heads * sizes.visible_keys * sizes.widths
    forward = max(sizes.products * share / rate, words / host.tile_words_per_s) / sizes.threads
    if not sizes.differentiates:
        return host.call_s + forward
    factor = _BACKWARD if sizes.fuses_tiles else _BACKWARD_TILES
    return host.call_s + host.backward_s + forward + factor * sizes.products * share / rate / sizes.threads


def _rate(sizes: Sizes, host: Host, *, backward: bool = False) -> float:
    """Products a second of PyTorch's own attention."""
    if not is_fast(sizes.dtype, backward=backward):
        return SLOW_PRODUCTS_PER_S[sizes.dtype]
    row = sizes.queries == 1 and sizes.dtype == torch.bfloat16 and not backward
    return ROW_PRODUCTS_PER_S if row else host.products_per_s


def is_any_type_fast() -> bool:
    """Whether forward passes in 16 bits are multiplied by vector instructions here."""
    return all(is_fast(dtype, backward=False) for dtype in SLOW_PRODUCTS_PER_S)


def has_fast_steps(dtype: torch.dtype) -> bool:
    """Whether both passes in this type of 16 bits are multiplied by vector instructions here."""
    return dtype in SLOW_PRODUCTS_PER_S and all(is_fast(dtype, backward=way) for way in (False, True))


@cache
def is_fast(dtype: torch.dtype, *, backward: bool) -> bool:
    """Whether the fused kernel multiplies numbers of this type by vector instructions here."""
    if dtype not in SLOW_PRODUCTS_PER_S:
        return True
    wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return wide and not (backward and dtype == torch.float16)
