"""Approximate attention on PyTorch tensors, with the calling convention of ``scaled_dot_product_attention``."""

import math
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from attenio.approximation.certificate import Certificate, Evidence
from attenio.approximation.polynomials import Kind
from attenio.approximation.running.formula import Formula
from attenio.approximation.running.loading import Tensor, loaded_torch
from attenio.approximation.running.tensors import (
    Reach,
    ValueRange,
    certificate_of,
    certified,
    reach_of,
    sum_length,
    terms_for,
)
from attenio.approximation.running.verification import (
    check_made_from,
    check_sizes,
    check_tolerance,
    check_type,
    check_values,
    covers,
    refusal_of_scores,
)
from attenio.errors import InvalidInput
from attenio.names import check_keywords, show_value
from attenio.quantities import show_shape

_TYPES = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")


class Options(TypedDict, total=False):
    """What attention computes besides its tensors, and how its polynomial is found."""

    is_causal: bool
    scale: float | None
    enable_gqa: bool
    kind: Kind | None
    centre: bool | Tensor


class TiledOptions(Options, total=False):
    """The same, and the tiles to run with."""

    rows: int | None
    value_columns: int | None


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """The options, those not given as they are by default."""

    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False
    kind: Kind | None = None
    centre: bool | Tensor = True
    rows: int | None = None
    value_columns: int | None = None


def approximate_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    tolerance: float | None = None,
    certificate: Certificate | None = None,
    **options: Unpack[TiledOptions],
) -> Tensor:
    """Attention with a polynomial for the exponential, in time and memory linear in the length, with a proven error.

    Shapes and meaning are those of ``torch.nn.functional.scaled_dot_product_attention``, and so are ``is_causal``,
    ``scale`` and ``enable_gqa``. Give a ``tolerance``, the largest change of an output in units of half the range of a
    column of ``value``, or a ``certificate`` that covers these data, which is checked; with both, it has to keep the
    tolerance. ``InvalidInput`` begins "use exact" where no polynomial certifies. ``kind`` is that of the polynomial
    sought for a tolerance: the best one unless given. ``centre`` subtracts the mean key, or the vector given, from all
    keys; False leaves them. ``rows`` and ``value_columns`` are the tiles: with fewer value columns the state is
    smaller, and features are recomputed.
    """
    check_keywords("approximate_attention()", options, TiledOptions)
    loaded_torch()
    from attenio.approximation.running.function import PolynomialAttention

    chosen = _Chosen(**options)
    causal, centre = chosen.is_causal, chosen.centre
    shapes = _checked(query, key, value, is_causal=causal, enable_gqa=chosen.enable_gqa)
    factor = checked_scale(chosen.scale, query)
    queries, keys, values = stacked(query, key, value)
    if certificate is None:
        reach = _reach(queries, keys, factor, centre=centre)
        if tolerance is None:
            raise InvalidInput("neither tolerance nor certificate is given; give one, such as tolerance=0.01")
        terms = terms_for(tolerance, chosen.kind or Kind.MINIMAX, value.dtype, causal=causal)
        checked = certified(certificate_of(reach, values, terms, d=query.shape[-1]))
    elif chosen.kind is not None:
        raise InvalidInput("kind chooses a polynomial for a tolerance, and the certificate has its own; leave kind out")
    else:
        checked = _promising(certificate, queries, values, tolerance=tolerance, causal=causal)
        reach = _within(checked, queries, keys, factor, centre=centre)
    assert checked.polynomial is not None
    formula = Formula(
        coefficients=checked.polynomial.coefficients,
        d=query.shape[-1],
        scale=factor,
        causal=causal,
        sum_length=sum_length(checked),
        rows=chosen.rows,
        value_columns=chosen.value_columns,
    )
    if certificate is not None and checked.scores.evidence is Evidence.EVERY_SCORE:
        check_made_from(checked, (queries, keys, values), reach.centre, formula)
    middle = centre_as_function(keys, reach.centre) if centre is True and reach.centre is not None else reach.centre
    output = PolynomialAttention.apply(queries, keys, values, middle, reach.balance, formula)
    return output.reshape(shapes)


def certify_tensors(
    query: Tensor, key: Tensor, value: Tensor, *, tolerance: float, **options: Unpack[Options]
) -> Certificate:
    """The certificate that ``approximate_attention`` works by on these tensors; its verdict may be to use exact."""
    check_keywords("certify_tensors()", options, Options)
    loaded_torch()
    chosen = _Chosen(**options)
    _checked(query, key, value, is_causal=chosen.is_causal, enable_gqa=chosen.enable_gqa)
    queries, keys, values = stacked(query, key, value)
    reach = _reach(queries, keys, checked_scale(chosen.scale, query), centre=chosen.centre)
    terms = terms_for(tolerance, chosen.kind or Kind.MINIMAX, value.dtype, causal=chosen.is_causal)
    return certificate_of(reach, values, terms, d=query.shape[-1])


def _reach(queries: Tensor, keys: Tensor, scale: float, *, centre: bool | Tensor) -> Reach:
    return reach_of(queries.flatten(1, 2), keys, scale=scale, centre=centre, dtype=computed_in(queries.dtype))


def _promising(
    certificate: Certificate, queries: Tensor, values: Tensor, *, tolerance: float | None, causal: bool
) -> Certificate:
    """A certificate from elsewhere, if all but the scores are as it says."""
    checked = certified(certificate)
    if causal and not checked.terms.summation.direct:
        raise InvalidInput("the certificate is not for causal tiles; make it with TiledSummation(direct=True)")
    check_sizes(checked, d=queries.shape[-1], keys=values.shape[1])
    check_type(checked, values.dtype)
    ranges = ValueRange.of(values)
    check_values(checked, ranges, values.dtype)
    if tolerance is not None:
        check_tolerance(checked, ranges, tolerance)
    return checked


def _within(certificate: Certificate, queries: Tensor, keys: Tensor, scale: float, *, centre: bool | Tensor) -> Reach:
    """The reach of data that a certificate from elsewhere covers; an error if it cannot be seen that it does."""
    reach = _reach(queries, keys, scale, centre=centre)
    if certificate.scores.evidence is Evidence.EVERY_SCORE:
        return reach
    # keys within bounds may leave them when their mean is subtracted
    tried = [reach] if centre is not True else [reach, _reach(queries, keys, scale, centre=False)]
    for each in tried:
        if covers(certificate, each.bound) or covers(certificate, _closer(each, queries, keys, scale)):
            return each
    raise refusal_of_scores(certificate, _closer(reach, queries, keys, scale))


def _closer(reach: Reach, queries: Tensor, keys: Tensor, scale: float) -> float:
    """The same reach in float64: data that attain a bound are not beyond it by the rounding of fp32."""
    torch = loaded_torch()
    centre = False if reach.centre is None else reach.centre
    return reach_of(queries.flatten(1, 2), keys, scale=scale, centre=centre, dtype=torch.float64).bound


def centre_as_function(keys: Tensor, centre: Tensor) -> Tensor:
    """The centre as a function of the keys, where someone will ask for their gradient."""
    if not (keys.requires_grad and loaded_torch().is_grad_enabled()):
        return centre
    return keys.mean(1, keepdim=True, dtype=loaded_torch().float64).to(centre.dtype)


def computed_in(dtype: Any) -> Any:
    """The type that features and sums have for inputs of a type."""
    torch = loaded_torch()
    return torch.float64 if dtype == torch.float64 else torch.float32


def checked_scale(scale: float | None, query: Tensor) -> float:
    """The scale as a finite number; 1/sqrt(d) unless given."""
    factor = query.shape[-1] ** -0.5 if scale is None else float(scale)
    if not math.isfinite(factor):
        raise InvalidInput(f"scale is {factor}; give a finite number, or None for 1/sqrt(d)")
    return factor


def stacked(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One KV head after the other, and beside it the group of query heads that share it."""
    *_, m, d = key.shape
    heads = math.prod(key.shape[:-2])
    group = math.prod(query.shape[:-2]) // heads
    return (
        query.reshape(heads, group, query.shape[-2], d),
        key.reshape(heads, m, d),
        value.reshape(heads, m, value.shape[-1]),
    )


def _checked(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool, enable_gqa: bool) -> tuple[int, ...]:
    """The shape of the output, if the shapes and types of the inputs make sense together."""
    named = {"query": query, "key": key, "value": value}
    for name, tensor in named.items():
        if not hasattr(tensor, "device"):
            raise InvalidInput(f"{name} is {show_value(tensor)}; give a tensor of PyTorch")
        if str(tensor.dtype) not in _TYPES or tensor.device.type != "cpu":
            raise InvalidInput(
                f"{name} is {tensor.dtype} on {tensor.device}; this runs fp16, bf16, fp32, fp64 on a CPU"
            )
        if tensor.dim() < 2 or 0 in tensor.shape:
            raise InvalidInput(
                f"{name} has shape {show_shape(tensor.shape)}; it needs rows and columns, at least one of each"
            )
    if len({tensor.dtype for tensor in named.values()}) > 1:
        raise InvalidInput(f"query, key and value are {query.dtype}, {key.dtype}, {value.dtype}; give them one type")
    if query.shape[-1] != key.shape[-1]:
        raise InvalidInput(f"queries have d = {query.shape[-1]} and keys d = {key.shape[-1]}; they must be equal")
    if key.shape[:-1] != value.shape[:-1]:
        raise InvalidInput(
            f"keys {show_shape(key.shape)} and values {show_shape(value.shape)} differ before the last dimension"
        )
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise InvalidInput(
            f"{query.shape[-2]:,} queries on {key.shape[-2]:,} keys with is_causal: they must be as many;"
            " for tokens behind a prefix use DecodeState"
        )
    _check_heads(tuple(query.shape[:-2]), tuple(key.shape[:-2]), enable_gqa=enable_gqa)
    return (*query.shape[:-1], value.shape[-1])


def share_heads(query: tuple[int, ...], key: tuple[int, ...]) -> bool:
    """Whether there are as many query heads as key heads, or a multiple of them."""
    if query == key:
        return True
    return len(query) == len(key) and query[:-1] == key[:-1] and query[-1] % key[-1] == 0


def _check_heads(query: tuple[int, ...], key: tuple[int, ...], *, enable_gqa: bool) -> None:
    if not share_heads(query, key):
        raise InvalidInput(f"query heads {query} do not belong to key heads {key}; give as many, or a multiple of them")
    if query != key and not enable_gqa:
        raise InvalidInput(f"{query[-1]} query heads on {key[-1]} key heads; say enable_gqa=True if they share them")
