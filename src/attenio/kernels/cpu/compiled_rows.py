"""A few rows against many keys in one pass, compiled for this processor where llvmlite is installed.

The library's product copies its long operand into an order of its own before it multiplies. For many rows that pays;
for eight it was measured to take a third of the time, and more where keys come from memory. The kernel of
``few_rows`` reads keys and values as they lie, once.
"""

import ctypes
import platform
import threading
from functools import cache
from typing import Any

import torch

from attenio.kernels.call.choice import note_launch
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.call.visibility import ProblemTile
from attenio.kernels.cpu.compiling import compiled, has_compiler
from attenio.kernels.cpu.few_rows import MOST_ROWS, MOST_WIDTH, NUMBERS, POINTERS, TILE, few_rows_text
from attenio.kernels.cpu.online_softmax import Sums
from attenio.kernels.cpu.tiles import readable, rows_of

# It is compiled once in a process, in a third of a second.
LEAST_PRODUCTS = 2**20
_making = threading.Lock()
_KINDS = {torch.float32: "float", torch.bfloat16: "bfloat", torch.float16: "half"}


def can_compile(problem: KernelProblem, keys: int, *, at_once: int | None = None) -> bool:
    """Whether the compiled kernel takes these rows over so many keys, if all of them see these, and is worth making.

    It takes ``MOST_ROWS`` at a time: all rows of a head, unless so many come ``at_once``.
    """
    d, width = problem.query.shape[-1], problem.value.shape[-1]
    rows = problem.group * problem.queries
    fits = (at_once or rows) <= MOST_ROWS and all(size % 4 == 0 and size <= MOST_WIDTH for size in (d, width))
    worth = problem.batch * problem.kv_heads * rows * keys * (d + width) >= LEAST_PRODUCTS
    plain = problem.query.dtype in _KINDS and problem.dropout is None and not problem.softcap
    return worth and fits and plain and _is_here()


@cache
def _is_here() -> bool:
    """Processors of another kind keep the library's products, until it has been measured there."""
    return platform.machine() in ("aarch64", "arm64") and has_compiler()


def compiled_rows(problem: KernelProblem, part: ProblemTile) -> Sums:
    """The sums of all rows of a part over one run of keys that all of them see."""
    note_launch("compiled_rows", part=part)
    Q = rows_of(problem, part)
    batch_heads, rows, d = Q.shape
    abreast = 1 if rows == 1 else 2 if rows == 2 else 4
    padded = -(-rows // abreast) * abreast
    if padded > rows:
        Q = torch.cat([Q, Q.new_zeros(batch_heads, padded - rows, d)], 1)
    key, value = (readable(x[part.batch, part.heads, part.keys]) for x in (problem.key, problem.value))
    sums = Sums.empty((batch_heads, padded), value.shape[-1], torch.float32, subtracts=True)
    widens = key.dtype != torch.float32 and padded > abreast
    wide = Q.new_empty(TILE * (d + value.shape[-1]) if widens else 0)
    pointers = (x.data_ptr() for x in (Q, key, value, sums.output, sums.largest, sums.total, wide))
    sizes = (key.shape[0], key.shape[1], padded, key.shape[2], d, value.shape[-1])
    factor = (abs(problem.scale) or 1.0) * LOG2_E
    with _making:
        kernel = _kernel(_KINDS[key.dtype], abreast, widens)
    kernel(*pointers, *sizes, *key.stride()[:3], *value.stride()[:3], factor)
    return Sums(
        output=sums.output[:, :rows], largest=sums.largest[:, :rows], total=sums.total[:, :rows], subtracts=True
    )


@cache
def _kernel(kind: str, abreast: int, widens: bool) -> Any:
    """The kernel as a function that other threads need not wait for."""
    engine = compiled(few_rows_text(kind, abreast, widens=widens))
    types = [ctypes.c_void_p] * len(POINTERS) + [ctypes.c_int64] * len(NUMBERS) + [ctypes.c_float]
    return ctypes.CFUNCTYPE(None, *types)(engine.get_function_address("few_rows"))
