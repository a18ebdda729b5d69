"""Where elements of a matrix in shared memory are, and which lanes hold which elements in registers."""

from functools import lru_cache

import numpy as np
from tests.kernels.hopper.ptx.shared import Fault

__all__ = ["box_words", "from_fragments", "from_sums", "operand_words", "to_floats", "to_sums"]

_ATOM = 1024
# Bytes of a row by the two highest bits of a descriptor, 16 where nothing is swizzled.
_ROWS = {0: 16, 1: 128, 2: 64, 3: 32}


def _swizzled(address, row_bytes):
    """Of 128, 64 and 32 bytes: three, two, one bits from the fourth on are xored with those from the seventh on."""
    mask = {128: 0x70, 64: 0x30, 32: 0x10, 16: 0}[row_bytes]
    return address ^ ((address >> 3) & mask)


@lru_cache(maxsize=4096)
def _pattern(within, leading, stride, row_bytes, by_columns, first, count):
    """Words of ``count`` rows of 16 columns, from the begin of an atom: by rows (count, 8), else (16, count / 2)."""
    if by_columns:
        width = row_bytes // 2
        k, mn = np.arange(16)[:, None], np.arange(first, first + count, 2)
        at = mn // width * leading + k // 8 * stride + k % 8 * row_bytes + mn % width * 2
    elif row_bytes == 16:
        row, byte = np.arange(first, first + count)[:, None], np.arange(0, 32, 4)
        at = row // 8 * stride + byte // 16 * leading + row % 8 * 16 + byte % 16
    else:
        row, byte = np.arange(first, first + count)[:, None], np.arange(0, 32, 4)
        at = row // 8 * stride + row % 8 * row_bytes + byte
    return (_swizzled(within + at, row_bytes) // 4).astype("i8")


def operand_words(descriptor, by_columns, first, count):
    """Words of rows ``first`` to ``first + count`` of a matrix as wgmma's descriptor says, 16 columns of it."""
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    if descriptor >> 49 & 7:
        raise Fault("the base offset of a descriptor is not 0")
    row_bytes = _ROWS[descriptor >> 62]
    if by_columns and row_bytes == 16:
        raise Fault("matrices by columns without a swizzle are not interpreted")
    return start // _ATOM * (_ATOM // 4) + _pattern(
        start % _ATOM, leading, stride, row_bytes, by_columns, first, count
    )  # fmt: skip


@lru_cache(maxsize=4096)
def box_words(start, rows, row_bytes):
    """Words of a box that TMA writes, (rows, words of a row)."""
    return _swizzled(start + np.arange(rows)[:, None] * row_bytes + np.arange(0, row_bytes, 4), row_bytes) // 4


def to_floats(words, element):
    """Two elements of each word as fp32, the lower half first."""
    halves = np.ascontiguousarray(words).view("u2")
    return halves.view("f2").astype("f4") if element == "f16" else (halves.astype("u4") << np.uint32(16)).view("f4")


def from_sums(registers):
    """Sums (16, n) of a warp's rows from n / 2 registers of 32 lanes."""
    block = np.stack(registers).reshape(-1, 2, 2, 8, 4)  # columns of 8, upper or lower rows, of two columns, row, lane
    return block.transpose(1, 3, 0, 4, 2).reshape(16, -1)


def to_sums(matrix):
    """The registers of such sums."""
    block = matrix.reshape(2, 8, -1, 4, 2).transpose(2, 0, 4, 1, 3)
    return list(np.ascontiguousarray(block).reshape(-1, 32))


def from_fragments(registers, element):
    """A (16, 16) from four registers of two elements."""
    pairs = to_floats(np.stack(registers), element).reshape(2, 2, 8, 4, 2)  # columns of 8, rows of 8, row, lane, pair
    return pairs.transpose(1, 2, 0, 3, 4).reshape(16, 16)
