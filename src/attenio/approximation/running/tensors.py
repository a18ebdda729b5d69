"""What a certificate needs to know of tensors, found in one pass over them: linear in n, no score is computed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

from attenio.approximation.certificate import Certificate, Evidence, Scores, Terms, certificate_for
from attenio.approximation.polynomials import Kind
from attenio.approximation.rounding import Summation
from attenio.approximation.running.formula import SUM_LENGTHS
from attenio.approximation.running.loading import Tensor
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.quantities import show_shape

_ROWS = 16384
# Smaller values would be lost to underflow in sums with features, which the rounding of a certificate does not count.
_LEAST_VALUE = 2.0**-80


@dataclass(frozen=True, kw_only=True)
class TiledSummation(Summation):
    """How the runner adds: ``length`` rows or features in the accumulator, the results in float64, rounded once."""

    length: int = SUM_LENGTHS[0]

    def key_additions(self, keys: int) -> int:
        """Additions in the accumulator on the way of a key's contribution into the state."""
        return min(keys, self.length) + 2

    def feature_additions(self, features: int) -> int:
        """Additions in the accumulator on the way of a feature's contribution into the output."""
        return min(features, self.length) + 2


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How far scores can reach, with the keys' centre, and what balances queries and keys; all per KV head."""

    bound: float  # at least every |scale q . (k - centre)| and every scale * sum of |q_t (k_t - centre_t)|
    evidence: Evidence
    centre: Tensor | None  # (heads, 1, d)
    balance: Tensor  # (heads, 1, 1)


def reach_of(query: Tensor, key: Tensor, *, scale: float, centre: "bool | Tensor", dtype: Any) -> Reach:
    """The least of three bounds over all heads: row norms, row norms after scaling coordinates, and the box of entries.

    Queries are (heads, rows, d), keys (heads, m, d). ``centre`` is the vector to subtract from keys, (..., d), or
    whether to subtract their mean.
    """
    import torch

    with torch.no_grad():
        middle = _centre(key, centre, dtype)
        queries, keys = _Sizes.of(query, None, dtype), _Sizes.of(key, middle, dtype)
        # Queries times c and keys over c, coordinate by coordinate, have the same products.
        c = (keys.square / queries.square.clamp_min(torch.finfo(dtype).tiny)).pow(0.25)
        c = torch.where(torch.isfinite(c) & (c > 0), c, torch.ones_like(c))
        by_norms = queries.norm * keys.norm
        by_scaled = _largest_norm(query, None, c, dtype) * _largest_norm(key, middle, 1 / c, dtype)
        by_box = (queries.largest * keys.largest).sum(-1).flatten()
        # every bound is computed with rounding: d sums of squares, two square roots and a product
        slack = 1 + (query.shape[-1] + 16) * torch.finfo(dtype).eps
        norms = torch.minimum(by_norms, by_scaled)
        reached = float(torch.minimum(norms, by_box).max()) * abs(scale) * slack
        evidence = Evidence.BOX if bool((by_box < norms).all()) else Evidence.ROW_NORMS
        ratio = keys.largest.amax(-1, keepdim=True) / queries.largest.amax(-1, keepdim=True)
        # a power of two, so that balancing rounds nothing
        balance = torch.exp2(torch.round(torch.log2(ratio) / 2))
        balance = torch.where(torch.isfinite(balance) & (balance > 0), balance, torch.ones_like(balance))
    if not reached < float("inf"):
        raise InvalidInput("queries or keys are not finite, or overflow when multiplied; clean or rescale them first")
    return Reach(bound=reached, evidence=evidence, centre=middle, balance=balance)


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    """Sizes of the rows of each head: (heads, 1, d), and the largest norm (heads)."""

    largest: Tensor
    square: Tensor
    norm: Tensor

    @classmethod
    def of(cls, rows: Tensor, centre: Tensor | None, dtype: Any) -> "_Sizes":
        parts = []
        for part in rows.split(_ROWS, dim=1):
            tile = part.to(dtype) if centre is None else part.to(dtype) - centre
            squares = tile * tile
            parts.append((tile.abs().amax(1, keepdim=True), squares.sum(1, keepdim=True), squares.sum(-1).amax(1)))
        largest, square, norm = zip(*parts, strict=True)
        return cls(largest=_largest(largest), square=sum(square), norm=_largest(norm).sqrt())


def _largest_norm(rows: Tensor, centre: Tensor | None, factor: Tensor, dtype: Any) -> Tensor:
    norms = []
    for part in rows.split(_ROWS, dim=1):
        tile = part.to(dtype) if centre is None else part.to(dtype) - centre
        norms.append((tile * factor).square().sum(-1).amax(1))
    return _largest(norms).sqrt()


def _largest(parts: Sequence[Tensor]) -> Tensor:
    return reduce(lambda a, b: a.maximum(b), parts)


def _centre(key: Tensor, centre: "bool | Tensor", dtype: Any) -> Tensor | None:
    import torch

    if not isinstance(centre, bool):
        heads, _, d = key.shape
        if centre.shape[-1] != d or centre.numel() not in (d, heads * d):
            raise InvalidInput(
                f"the centre has shape {show_shape(centre.shape)}; it takes d = {d} numbers, or {heads} x {d}"
            )
        return centre.to(dtype).reshape(-1, 1, d).expand(heads, 1, d)
    if not centre:
        return None
    # in float64 the mean of keys that are all equal is their value
    total = key.sum(1, keepdim=True, dtype=torch.float64)
    return (total / key.shape[1]).to(dtype)


@dataclass(frozen=True, kw_only=True)
class ValueRange:
    """The least and the largest entry of every column of the values, (heads, value_dim) in float64."""

    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, value: Tensor) -> "ValueRange":
        """Of values (heads, m, value_dim)."""
        import torch

        with torch.no_grad():
            return cls.between(value.amin(1), value.amax(1))

    @classmethod
    def between(cls, low: Tensor, high: Tensor) -> "ValueRange":
        """The range with these ends, if they are finite."""
        import torch

        ranges = cls(low=low.to(torch.float64), high=high.to(torch.float64))
        if not bool(torch.isfinite(ranges.bounds).all()):
            raise InvalidInput("values are not finite; clean them first")
        return ranges

    def joined(self, other: "ValueRange") -> "ValueRange":
        """Of all values of both."""
        return ValueRange(low=self.low.minimum(other.low), high=self.high.maximum(other.high))

    @cached_property
    def bounds(self) -> Tensor:
        """The largest size of an entry, of each head."""
        return self.high.abs().maximum(self.low.abs()).amax(-1)

    @cached_property
    def radii(self) -> Tensor:
        """Half the largest range of a column, of each head."""
        return ((self.high - self.low) / 2).amax(-1)

    @cached_property
    def units(self) -> Tensor:
        """What errors are measured in: half the range, the size where the range is 0, and 1 where that is 0 too."""
        bounds, radii = self.bounds, self.radii
        return radii.where(radii > 0, bounds.where(bounds > 0, bounds.new_ones(())))

    @property
    def offset(self) -> float:
        """How much larger values are than their unit, in the head where rounding, which grows with it, weighs most."""
        return float((self.bounds / self.units).max())


def check_values_fit(unit: float, dtype: Any) -> None:
    """An error where sums of the runner would lose values of this size to underflow."""
    if unit < _LEAST_VALUE and str(dtype) != "torch.float64":
        raise InvalidInput(
            f"use exact: values differ by at most {2 * unit:.2g}, too little for sums in fp32; multiply them by a"
            " power of two, and outputs by its inverse"
        )


def scores_within(reach: Reach, values: ValueRange, value: Tensor, *, d: int) -> Scores:
    """What a certificate is about: one for all heads, so the worst of each thing over them."""
    widest = float(values.units.max())
    check_values_fit(widest, value.dtype)
    # never zero: other data whose keys are nearly equal keep to it as well
    radius = max(reach.bound, 2.0**-20)
    return Scores(
        d=d,
        keys=value.shape[1],
        radius=radius,
        product=radius,
        value_bound=values.offset * widest,
        value_radius=widest,
        evidence=reach.evidence,
    )


def terms_for(tolerance: float, kind: Kind, dtype: Any, *, causal: bool) -> Terms:
    """The terms of a run of the runner on tensors of this type."""
    return Terms(tolerance=tolerance, kind=kind, dtype=stored_as(dtype), summation=TiledSummation(direct=causal))


def stored_as(dtype: Any) -> ElementType:
    """The element type of tensors; float64 keeps to whatever fp32 does."""
    return {"torch.float16": ElementType.FP16, "torch.bfloat16": ElementType.BF16}.get(str(dtype), ElementType.FP32)


def certificate_of(reach: Reach, value: Tensor, terms: Terms, *, d: int) -> Certificate:
    """The certificate for these tensors, with sums as short as the tolerance needs them."""
    scores = scores_within(reach, ValueRange.of(value), value, d=d)
    for length in SUM_LENGTHS:
        summation = TiledSummation(length=length, direct=terms.summation.direct)
        certificate = certificate_for(scores, replace(terms, summation=summation))
        if certificate.polynomial is not None:
            break
    return certificate


def certified(certificate: Certificate) -> Certificate:
    """The certificate, or the reason why there is none as an error."""
    if certificate.polynomial is None:
        raise InvalidInput(f"use exact: {certificate.reason}")
    return certificate


def sum_length(certificate: Certificate) -> int:
    """How long sums of a matrix product may be under this certificate."""
    summation = certificate.terms.summation
    if isinstance(summation, TiledSummation):
        return summation.length
    # any other way of adding: as few additions as it counts on, of which two are ours
    features = summation.feature_additions(certificate.features or 1)
    return max(1, min(summation.key_additions(certificate.scores.keys), features) - 2)
