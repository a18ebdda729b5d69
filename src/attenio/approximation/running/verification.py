"""Whether a certificate from elsewhere covers what is run under it: its sizes, element type, values and scores."""

from typing import Any

import numpy as np

from attenio.approximation.certificate import Certificate
from attenio.approximation.data import Head
from attenio.approximation.entries import checked_positive
from attenio.approximation.polynomials import outward
from attenio.approximation.rounding import half_spacing_at_zero, storage_error, unit_roundoff
from attenio.approximation.running.formula import Formula
from attenio.approximation.running.loading import Tensor
from attenio.approximation.running.tensors import ValueRange, check_values_fit, stored_as
from attenio.errors import InvalidInput

# sizes and ranges of values are found in float64 here and there
_ROUNDED = 1 + 2.0**-48


def check_sizes(certificate: Certificate, *, d: int, keys: int) -> None:
    """An error if rows are of another width, or keys more, than the certificate counts on."""
    scores = certificate.scores
    if scores.d != d:
        raise InvalidInput(f"the certificate is for d = {scores.d} and rows have d = {d}; certify these data")
    if keys > scores.keys:
        raise InvalidInput(
            f"the certificate is for {scores.keys:,} keys and there are {keys:,}; certify for as many, Scores(keys=...)"
        )


def check_type(certificate: Certificate, dtype: Any) -> None:
    """An error if outputs of this type are rounded further than the certificate says."""
    stored, promised, unit = stored_as(dtype), certificate.terms.dtype, certificate.scores.value_unit
    if stored is promised:
        return
    largest = (certificate.storage_error - half_spacing_at_zero(promised) / unit) / unit_roundoff(promised)
    if storage_error(stored, largest=largest, unit=unit) > certificate.storage_error:
        raise InvalidInput(
            f"the certificate is for {promised.value} and tensors are {stored.value}, which rounds further;"
            f" certify with Terms(dtype=ElementType.{stored.name}), or convert them"
        )


def check_values(certificate: Certificate, values: ValueRange, dtype: Any) -> None:
    """An error if values are larger, or vary more, than the certificate says."""
    scores = certificate.scores
    check_values_fit(scores.value_unit, dtype)
    for measured, promised, what, name in (
        (float(values.bounds.max()), scores.value_bound, "values reach", "value_bound"),
        (float(values.radii.max()), scores.value_unit, "half the range of values is", "value_radius"),
    ):
        if measured > promised * _ROUNDED:
            raise InvalidInput(
                f"{what} {_told_apart(measured, promised)} of the certificate;"
                f" certify these data, or with Scores({name}=...) of them"
            )


def check_tolerance(certificate: Certificate, values: ValueRange, tolerance: float) -> None:
    """An error if the certificate does not keep a tolerance in units of half the range of a column of these values."""
    checked_positive("tolerance", tolerance)
    scores = certificate.scores
    # truncation is a share of whatever range values have, rounding one of their size
    of_size = certificate.rounding_error * scores.value_unit / scores.value_bound if scores.value_bound else 0.0
    added = certificate.truncation_error + of_size * values.offset
    if added > tolerance * _ROUNDED:
        raise InvalidInput(
            f"the certificate allows a change of {_told_apart(added, tolerance)} of tolerance=, in units of half the"
            " range of these values; certify these data, or leave out one of the two"
        )


def covers(certificate: Certificate, reach: float) -> bool:
    """Whether scores up to this size, and sums of sizes of their products, are within what was proven."""
    scores = certificate.scores
    return reach <= outward(scores.radius - abs(scores.centre)) and reach <= outward(scores.largest_product)


def refusal_of_scores(certificate: Certificate, reach: float) -> InvalidInput:
    """What to say where they are not."""
    scores = certificate.scores
    allowed = min(scores.radius - abs(scores.centre), scores.largest_product)
    return InvalidInput(
        f"scores may reach {_told_apart(reach, allowed)} of the certificate;"
        " certify these data (tolerance=...), or use exact"
    )


def check_made_from(
    certificate: Certificate, tensors: tuple[Tensor, Tensor, Tensor], centre: Tensor | None, formula: Formula
) -> None:
    """An error unless every score of exactly these data is what the certificate was made from.

    Tensors are stacked, (heads, group, n, d) and (heads, m, ...); the certificate is of one KV head.
    """
    query, key, value = (tensor.detach() for tensor in tensors)
    made_from = certificate.scores.data
    exactly = all(bool((tensor.float() == tensor).all()) for tensor in (query, key, value))
    if made_from is not None and key.shape[0] == 1 and exactly:
        head = Head(
            batch=0,
            kv_head=0,
            queries=query.flatten(0, 2).float().numpy(),
            keys=key[0].float().numpy(),
            values=value[0].float().numpy(),
            rows=query.shape[2],
            scale=formula.scale,
            causal=formula.causal,
        )
        middle = np.zeros(head.d, np.float32) if centre is None else centre.detach().float().numpy()
        if head.fingerprint(middle) == made_from:
            return
    raise InvalidInput(
        "the certificate is from every score of one KV head of other data, or of these with another centre, scale or"
        " mask; certify these data and give their centre, or use a certificate from entry bounds"
    )


def _told_apart(measured: float, promised: float) -> str:
    """Both numbers, with as many digits as it takes to see which is larger."""
    digits = next((some for some in (4, 8) if f"{measured:.{some}g}" != f"{promised:.{some}g}"), 16)
    return f"{measured:.{digits}g}, over the {promised:.{digits}g}"
