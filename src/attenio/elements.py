"""Element types: how wide a word is, and what rounding to it does to a number."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from attenio.errors import AttenioError, InvalidInput
from attenio.names import member_named
from attenio.quantities import as_count, checked_count

_MOST_FP8 = np.float32(448)
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
# A scale is a number of 32 bits, whatever a word is.
_SCALE_BITS = 32


class ElementType(Enum):
    """A floating-point format that inputs, outputs or accumulators are kept in (fp8 is E4M3)."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def bytes(self) -> int:
        """Bytes in one word of this type."""
        return _BYTES[self.value]

    @classmethod
    def named(cls, name: "str | ElementType") -> "ElementType":
        """The element type with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "element type")

    def rounded(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """``values`` rounded to this type, returned as float32 (which holds every one of these types exactly)."""
        single = np.asarray(values, dtype=np.float32)
        if self is ElementType.FP32:
            return single
        if self is ElementType.FP16:
            with np.errstate(over="ignore"):
                return single.astype(np.float16).astype(np.float32)
        try:
            import ml_dtypes
        except ImportError:
            raise AttenioError(f"rounding to {self.value} needs the package ml_dtypes: pip install ml_dtypes") from None
        if self is ElementType.BF16:
            return single.astype(ml_dtypes.bfloat16).astype(np.float32)
        # E4M3 has no infinity: what is too large becomes the largest number, as fp8 hardware does, and not NaN
        return np.clip(single, -_MOST_FP8, _MOST_FP8).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


def checked_kv_bits(kv_bits: object, dtype: ElementType, **widths: int) -> int:
    """Bits of an entry of keys and values, if as many as fit share a word of the type and keys are whole words.

    >>> checked_kv_bits(8, ElementType.FP16, d=64)
    8
    """
    bits, word = checked_count("kv_bits", as_count("kv_bits", kv_bits), least=2), 8 * dtype.bytes
    if word % bits:
        raise InvalidInput(f"kv_bits is {bits}; give a divisor of {word}, the bits of a word of {dtype.value}")
    for name, width in widths.items():
        if width % (word // bits):
            raise InvalidInput(
                f"{name} is {width:,}, and {word // bits} entries of {bits} bits share a word; give a multiple of"
                f" {word // bits}"
            )
    return bits


def scale_words(dtype: ElementType) -> int:
    """Words of one scale of entries in fewer bits."""
    return -(-_SCALE_BITS // (8 * dtype.bytes))
