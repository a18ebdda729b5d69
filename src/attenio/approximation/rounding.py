"""What rounding adds to the error of approximate attention, from the number of roundings a product goes through.

Inputs and outputs have the element type; features, state and sums are kept in the accumulator's type, fp32 unless
another is named. Every product w q^alpha k^alpha v goes through at most N roundings on its way into the output, so the
numerator and the denominator are off by at most gamma_N = N u/(1 - N u) times the sum of the sizes of their terms.
Proof: docs/theory/approximate_certificate.md.
"""

import math
from dataclasses import dataclass

import numpy as np

from attenio.approximation.polynomials import Polynomial, outward
from attenio.elements import ElementType

_SIGNIFICAND_BITS = {ElementType.FP32: 24, ElementType.FP16: 11, ElementType.BF16: 8, ElementType.FP8: 4}
_LEAST_EXPONENT = {ElementType.FP32: -149, ElementType.FP16: -24, ElementType.BF16: -133, ElementType.FP8: -9}
_LARGEST = {ElementType.FP32: 2.0**127, ElementType.FP16: 2.0**15, ElementType.BF16: 2.0**127, ElementType.FP8: 2.0**8}


def unit_roundoff(dtype: ElementType) -> float:
    """The largest relative change of a normal number that is rounded to this type.

    >>> unit_roundoff(ElementType.FP16) == 2**-11
    True
    """
    return 2.0 ** -_SIGNIFICAND_BITS[dtype]


def half_spacing_at_zero(dtype: ElementType) -> float:
    """The largest absolute change of a number too small to be normal."""
    return 2.0 ** (_LEAST_EXPONENT[dtype] - 1)


@dataclass(frozen=True, kw_only=True)
class Summation:
    """How a run adds up: in tiles, whose sums are then added one after the other.

    Sums over n keys or r features then take tile + n/tile additions one after the other, not n. Without a tile it is
    the square root. ``direct`` says that some weights are found as p(q.k) without features, as inside a causal chunk.

    >>> Summation().key_additions(10_000), Summation(key_tile=1).key_additions(10_000)
    (200, 10001)
    """

    key_tile: int | None = None
    feature_tile: int | None = None
    direct: bool = False

    def key_tile_for(self, keys: int) -> int:
        """Keys that are added up before their sum joins the state."""
        return _tile(keys, self.key_tile)

    def feature_tile_for(self, features: int) -> int:
        """Features that are added up before their sum joins the output."""
        return _tile(features, self.feature_tile)

    def key_additions(self, keys: int) -> int:
        """Additions one after the other on the way of a key's contribution into the state."""
        return self.key_tile_for(keys) + -(-keys // self.key_tile_for(keys))

    def feature_additions(self, features: int) -> int:
        """Additions one after the other on the way of a feature's contribution into the output."""
        return self.feature_tile_for(features) + -(-features // self.feature_tile_for(features))

    def roundings(self, *, d: int, degree: int, features: int, keys: int) -> int:
        """The most roundings between the entries and a term of the output."""
        # a key's factor is centred and scaled, a query's scaled; then the products, the weight, v, and both sums,
        # where tiles hold features of one degree, so that each degree may end with a tile that is not full
        by_features = 6 * degree + 4 + self.key_additions(keys) + self.feature_additions(features)
        # p(q.k): each power takes a sum of d products and their errors, then Horner's rule
        directly = degree * (d + 6) + 4 + self.key_additions(keys)
        return max(by_features, directly) + 4 if self.direct else by_features


def _tile(terms: int, tile: int | None) -> int:
    return min(terms, math.isqrt(terms - 1) + 1 if tile is None else tile)


@dataclass(frozen=True, kw_only=True)
class Range:
    """What decides how small and how large the numbers of a run become."""

    d: int
    keys: int
    features: int
    product: float  # at least every scale * |q_t k_t|, required or not


def worst_amplification(polynomial: Polynomial, product: float) -> float:
    """The sum of sizes of terms over the denominator, when all that is known is how far scores reach.

    ``product`` is at least every sum of |q_t k_t|, times the scale: terms are at most the sum of |c_k| product^k, and
    the denominator is at least (1 - eps) scale e^x at the lowest score.
    """
    if polynomial.relative_error >= 1:
        return math.inf
    return float(polynomial.of_sizes(outward(product))) / _least(polynomial)


def _least(polynomial: Polynomial) -> float:
    """At most every value of the polynomial on its interval."""
    least = (
        (1 - polynomial.relative_error) * polynomial.scale * math.exp(polynomial.centre - outward(polynomial.radius))
    )
    return least * (1 - 1e-12)


def underflow(polynomial: Polynomial, of: Range, roundings: int, accumulator: ElementType) -> float:
    """What products too small for the accumulator weigh, over the denominator; inf if sums may be too large for it.

    Entries are scaled, coordinate by coordinate, to sizes of at most 1, and their unit is then at most 4 times the
    largest product: all weights together are at most the sum of |c_k| (4 d product)^k.

    >>> from attenio.approximation.polynomials import minimax
    >>> underflow(minimax(1.0, 3), Range(d=64, keys=65536, features=47905, product=2.0), 1000, ElementType.FP32) < 1e-30
    True
    """
    with np.errstate(over="ignore"):
        weights = float(polynomial.of_sizes(4 * of.d * of.product))
    if not 2 * of.keys * (weights + of.features) < _LARGEST[accumulator] or polynomial.relative_error >= 1:
        return math.inf
    lost = 2 * roundings * half_spacing_at_zero(accumulator) * (weights + of.features)
    return lost / _least(polynomial)


def rounding_error(
    roundings: int, amplification: float, accumulator: ElementType = ElementType.FP32, lost: float = 0.0
) -> float:
    """How far rounding moves an output before it is stored, in units of the largest size of a value; inf if unbounded.

    ``lost`` is what underflow takes from a denominator, as a share of it.

    >>> f"{rounding_error(600, 10.0):.1e}"
    '7.2e-04'
    """
    unit = unit_roundoff(accumulator)
    share = roundings * unit
    if share >= 0.5:
        return math.inf
    moved = share / (1 - share) * amplification + lost
    return 2 * moved / (1 - moved) + 3 * unit if moved < 1 else math.inf


def least_rounding_error(accumulator: ElementType = ElementType.FP32) -> float:
    """What no polynomial of any degree is below: one rounding of terms that do not cancel.

    >>> f"{least_rounding_error():.1g}"
    '3e-07'
    """
    return rounding_error(1, 1.0, accumulator)


def storage_error(dtype: ElementType, *, largest: float, unit: float) -> float:
    """What rounding outputs of at most ``largest`` units to their type adds, in the same units."""
    return unit_roundoff(dtype) * largest + half_spacing_at_zero(dtype) / unit
