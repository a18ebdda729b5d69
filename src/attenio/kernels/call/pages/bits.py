"""Keys and values in 8 bits: entries of a page and head share one factor.

Factors of e4m3 are powers of two: entries that are scaled again when a larger one comes keep their digits. Those of
8-bit integers reach 127 exactly; entries that are scaled again may be off by half a step more.
"""

import torch
from torch import Tensor

from attenio.errors import InvalidInput

LARGEST = {torch.float8_e4m3fn: 448.0, torch.int8: 127.0}


def quantised(pages: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Pages (pages, keys, KV heads, width) in 8 bits, and their factors (pages, KV heads) in single precision."""
    scales = scales_for(pages.abs().amax((1, 3)).float(), dtype)
    return rounded(pages, scales, dtype), scales


def dequantised(pages: Tensor, scales: Tensor) -> Tensor:
    """Pages in single precision."""
    return pages.float() * scales[:, None, :, None]


def scales_for(largest: Tensor, dtype: torch.dtype) -> Tensor:
    """Factors with which entries up to ``largest`` fit; 0 for none, and NaN where an entry is NaN."""
    if dtype not in LARGEST:
        raise InvalidInput(f"pages of {dtype} have no factors; give torch.float8_e4m3fn or torch.int8")
    factors = largest / LARGEST[dtype]
    if dtype == torch.int8:
        return factors
    mantissa, exponent = torch.frexp(factors)
    # The least power of two that is not below: frexp has a mantissa of 0.5 for a power of two itself.
    power = torch.ldexp(torch.ones_like(factors), exponent - (mantissa == 0.5).to(exponent.dtype))
    return torch.where(factors > 0.0, power, factors)


def rounded(pages: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Entries divided by the factors of their pages, to the nearest."""
    wide = pages.float() / torch.where(scales > 0.0, scales, 1.0)[:, None, :, None]
    return wide.round_().clamp_(-127, 127).to(torch.int8) if dtype == torch.int8 else wide.to(dtype)
