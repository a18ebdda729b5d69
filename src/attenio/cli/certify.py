"""``attenio certify``: whether the heads in these arrays may be approximated, and how far outputs could move."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.options import AsJson, option_field, taking
from attenio.cli.output import plain_table, print_json, print_tables, progress_bar, prose
from attenio.errors import InvalidInput
from attenio.names import member_named
from attenio.plain_values import plain_fields
from attenio.quantities import show_count, show_shape

if TYPE_CHECKING:
    from attenio.approximation.certificate import Certificate
    from attenio.approximation.certification import HeadCertificate
    from attenio.approximation.data import AttentionData


def _asked(help: str, default: Any) -> Any:
    return option_field(help, panel=None, default=default, show_default=True)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of a certificate, as typed."""

    tolerance: str = _asked("How far an output may move, in units of half the range of a column of V.", "1e-2")
    causal: bool = _asked("Keys after a query are not seen.", False)
    scale: str | None = _asked("Factor on the scores; 1/sqrt(d) unless given.", None)
    kind: str = _asked("Polynomial: minimax or taylor.", "minimax")
    centring: str = _asked("What to subtract from every key: best, none, mean, middle or fitted.", "best")
    most_features: str = _asked("Monomials per row that are still worth it.", "16M")
    fast_bytes: str = _asked("Fast memory that exact attention could use, such as 512KB: is it worth it there?", "0")
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Run the approximation and measure its error.")
    ] = True


@taking(Asked)
def certify(
    asked: Asked,
    files: Annotated[
        list[Path], typer.Argument(help="q.npy k.npy v.npy, or one .npz or .safetensors file with q, k and v.")
    ],
    as_json: AsJson = False,
) -> None:
    """Say for every KV head what degree a polynomial needs in place of the exponential, and what that guarantees.

    Arrays are (rows, width), (heads, rows, width) or (batch, heads, rows, width); keys and values may have fewer heads
    than queries. The tolerance is about what approximating adds: truncation and the rounding of sums in fp32. The
    guarantee counts storing the output in its type as well, as exact attention has to, so it may exceed the tolerance.
    Where more than two features come to a key, exact attention is the answer.

    \b
    Examples:
      attenio certify q.npy k.npy v.npy
      attenio certify heads.npz --tolerance 1e-3 --causal --json
      attenio certify layer.safetensors --centring none --kind taylor
    """
    from attenio.approximation.certificate import Terms
    from attenio.approximation.certification import Diligence
    from attenio.approximation.certification import certify as certify_data
    from attenio.approximation.data import AttentionData
    from attenio.approximation.data_files import read_arrays
    from attenio.approximation.entries import checked_positive
    from attenio.approximation.polynomials import Kind
    from attenio.quantities import parse_bytes, parse_count, words_in

    terms = Terms(
        tolerance=checked_positive("tolerance", asked.tolerance),
        kind=Kind.named(asked.kind),
        most_features=parse_count(asked.most_features, "most features"),
    )
    diligence = Diligence(centring=_centring(asked.centring), measure=asked.measure)
    fast = parse_bytes(asked.fast_bytes, "fast memory")
    data = AttentionData.of(*read_arrays(files), scale=_scale(asked.scale), causal=asked.causal)
    terms = replace(terms, fast_words=words_in(fast, element_bytes=data.dtype.bytes))
    with progress_bar("certifying heads") as progress:
        certificates = certify_data(data, terms, diligence, progress)
    if as_json:
        print_json(
            {"tolerance": terms.tolerance, "kind": terms.kind.value, **_described(data), "heads": _rows(certificates)}
        )
        return
    shape = ", ".join(f"{name} {show_shape(getattr(data, name).shape)}" for name in ("query", "key", "value"))
    mask = "causal" if asked.causal else "dense"
    headline = f"{shape} {data.dtype.value} {mask}, tolerance {terms.tolerance:g} of half the range of V"
    print_tables(prose(headline), "", _table(certificates), "", _summary(certificates))


def _scale(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise InvalidInput(f"scale is {text!r}; give a number such as 0.125") from None


def _centring(name: str) -> Any:
    from attenio.approximation.observation import Centring

    return member_named(Centring, name, "centring")


def _described(data: "AttentionData") -> dict[str, Any]:
    shapes = {f"{name}_shape": list(getattr(data, name).shape) for name in ("query", "key", "value")}
    return {**shapes, "element_type": data.dtype.value, **plain_fields(data, "scale", "causal")}


def _errors(certificate: "Certificate") -> dict[str, float | None]:
    """Nothing is run and nothing guaranteed where exact attention is the answer."""
    names = ("truncation_error", "rounding_error", "added_error", "storage_error", "guaranteed_error")
    return {name: None if certificate.polynomial is None else getattr(certificate, name) for name in names}


def _rows(certificates: "tuple[HeadCertificate, ...]") -> list[dict[str, Any]]:
    return [
        {
            **plain_fields(each, "batch", "kv_head"),
            **plain_fields(each.certificate, "verdict", "reason"),
            "evidence": each.certificate.scores.evidence.value,
            **plain_fields(each, "centring", "radius_without_centring"),
            "radius": each.certificate.scores.radius,
            **plain_fields(each.certificate, "needed_degree", "degree", "features"),
            **_errors(each.certificate),
            "measured_error": each.measured_error,
            "value_unit": each.certificate.scores.value_unit,
        }
        for each in certificates
    ]


def _table(certificates: "tuple[HeadCertificate, ...]") -> Any:
    numbers = ("R before\n(score)", "R\n(score)", "degree", "features", "guaranteed\n(½ range)", "measured\n(½ range)")
    table = plain_table("head", *((name, "right") for name in numbers), "verdict")
    for each in certificates:
        certificate = each.certificate
        chosen = certificate.features is not None
        table.add_row(
            f"{each.batch}.{each.kv_head}",
            f"{each.radius_without_centring:.4g}",
            f"{certificate.scores.radius:.4g}",
            str(certificate.degree) if chosen else "-",
            f"{certificate.features:,}" if chosen else "-",
            f"{certificate.guaranteed_error:.2e}" if chosen else "-",
            "-" if each.measured_error is None else f"{each.measured_error:.2e}",
            certificate.verdict.value if certificate.reason is None else f"use exact: {certificate.reason}",
        )
    return table


def _summary(certificates: "tuple[HeadCertificate, ...]") -> str:
    from attenio.approximation.certificate import Verdict

    certified = sum(each.certificate.verdict is Verdict.APPROXIMATE for each in certificates)
    stored = certificates[0].certificate.terms.dtype.value
    return (
        f"{certified:,} of {show_count(len(certificates), 'head')} may be approximated; errors in units of half"
        " the range of V,\n"
        "R is how far scores, pure numbers, lie from the middle of their range.\n"
        "The tolerance is about what approximating adds: truncation, rounding of sums.\n"
        f"Guaranteed is that and storing outputs in {stored}, as exact attention has to."
    )
