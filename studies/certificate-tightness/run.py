"""How much larger than the measured error is the guaranteed one, and what does each part of a certificate buy?

    .venv/bin/python studies/certificate-tightness/run.py

writes results.json (resumed where it stopped) and answer.md beside this file.
"""

import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attenio.approximation import (
    AttentionData,
    Centring,
    Diligence,
    Kind,
    Terms,
    Verdict,
    certificate_for,
    certify,
)
from attenio.elements import ElementType
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance

HERE = Path(__file__).parent
SEED = 0
ROWS = (256,)
WIDTHS = (8, 32)
REACHES = (0.5, 1.0, 2.0)  # the largest score before centring
TOLERANCES = (1e-1, 1e-2, 1e-3)
SHAPES = ("uniform", "normal", "shifted keys")
MOST_FEATURES = 60_000

Row = dict[str, Any]


def drawn(shape: str, n: int, d: int, reach: float, draw: np.random.Generator) -> list[np.ndarray]:
    """Queries, keys and values whose largest score is ``reach``."""
    if shape == "uniform":
        query, key = draw.uniform(-1, 1, (2, n, d))
    else:
        query, key = draw.standard_normal((2, n, d))
    if shape == "shifted keys":
        key = key + draw.standard_normal(d)
    query *= reach / (np.abs(query @ key.T).max() * d**-0.5)
    return [query, key, draw.standard_normal((n, d))]


def cases() -> Iterable[tuple[str, int, int, float, str, bool, float]]:
    types = [each.value for each in ElementType]
    return product(SHAPES, ROWS, WIDTHS, REACHES, types, (False, True), TOLERANCES)


def answer_to(case: tuple[str, int, int, float, str, bool, float]) -> Row:
    shape, n, d, reach, dtype, causal, tolerance = case
    draw = np.random.default_rng([SEED, n, d, round(10 * reach)])
    arrays = [ElementType(dtype).rounded(array)[None, None] for array in drawn(shape, n, d, reach, draw)]
    query, key, value = arrays
    data = AttentionData(query=query, key=key, value=value, dtype=ElementType(dtype), scale=d**-0.5, causal=causal)
    terms = Terms(tolerance=tolerance, most_features=MOST_FEATURES)
    (found,) = certify(data, terms)
    certificate = found.certificate
    # the same bounds on scores, without looking at rows; Taylor's polynomial; no centring
    worst = certificate_for(certificate.scores, certificate.terms)
    (series,) = certify(data, Terms(tolerance=tolerance, kind=Kind.TAYLOR, most_features=MOST_FEATURES), NOT_RUN)
    (centred,) = certify(data, terms, Diligence(centring=Centring.NONE, measure=False))
    return {
        "case": list(case),
        "radius_without_centring": found.radius_without_centring,
        "radius": certificate.scores.radius,
        "degree": certificate.degree,
        "degree_of_worst_row": worst.degree,
        "degree_of_taylor": series.certificate.degree,
        "degree_without_centring": centred.certificate.degree,
        "truncation": certificate.truncation_error,
        "rounding": certificate.rounding_error,
        "storage": certificate.storage_error,
        "guaranteed": certificate.guaranteed_error,
        "measured": found.measured_error,
        "reason": certificate.reason if certificate.verdict is Verdict.EXACT else None,
    }


NOT_RUN = Diligence(measure=False)


def ratios(rows: list[Row], wanted: Callable[[Row], bool] = lambda _: True) -> list[float]:
    return sorted(row["guaranteed"] / row["measured"] for row in rows if row["measured"] and wanted(row))


def line(name: str, found: list[float]) -> str:
    low, high = found[0], found[-1]
    return f"| {name} | {len(found)} | {low:.2f} | {median(found):.1f} | {high:.1f} |"


def listed(values: Iterable[float]) -> str:
    return "{" + ", ".join(f"{value:g}" for value in values) + "}"


def certified(rows: list[Row], key: str) -> tuple[int, float]:
    degrees = [row[key] for row in rows if row[key] is not None]
    return len(degrees), sum(degrees) / len(degrees)


def answer(rows: list[Row]) -> str:
    every = ratios(rows)
    tables = ["| data | certificates | least | median | largest |", "|---|---:|---:|---:|---:|", line("all", every)]
    tables += [line(t.value, ratios(rows, lambda r, t=t: r["case"][4] == t.value)) for t in ElementType]
    tables += [line(f"tolerance {t:g}", ratios(rows, lambda r, t=t: r["case"][6] == t)) for t in TOLERANCES]
    tables += [
        line(name, ratios(rows, lambda r, c=c: r["case"][5] is c)) for name, c in (("dense", False), ("causal", True))
    ]
    ways = {
        "best polynomial, best centre, every row looked at": "degree",
        "worst row instead": "degree_of_worst_row",
        "Taylor's polynomial instead": "degree_of_taylor",
        "no centring instead": "degree_without_centring",
    }
    counts = [f"| {name} | {certified(rows, key)[0]} | {certified(rows, key)[1]:.2f} |" for name, key in ways.items()]
    both = [row for row in rows if all(row[key] is not None for key in ways.values())]
    means = {name: sum(row[key] for row in both) / len(both) for name, key in ways.items()}
    exceeded = sum(ratio < 1 for ratio in every)
    return "\n".join(
        [
            "# How tight is a certificate?",
            "",
            f"Guaranteed over measured error, {len(rows)} heads of random data (uniform, normal, and normal with",
            f"shifted keys; n in {listed(ROWS)}, d in {listed(WIDTHS)}, largest score before centring in",
            f"{listed(REACHES)}; every element type), at most {MOST_FEATURES:,} features.",
            "Every number here is written by `run.py` from `results.json`.",
            "",
            *tables,
            "",
            f"The guarantee was exceeded {exceeded} times. The median ratio is {median(every):.1f}.",
            "",
            f"| certificate | heads certified of {len(rows)} | mean degree of those |",
            "|---|---:|---:|",
            *counts,
            "",
            f"On the {len(both)} heads that certify in all four ways the mean degrees are "
            + ", ".join(f"{value:.2f} ({name})" for name, value in means.items())
            + ".",
            "",
        ]
    )


def main() -> None:
    target = HERE / "results.json"
    rows: list[Row] = json.loads(target.read_text())["rows"] if target.exists() else []
    wanted = {json.dumps(list(case)) for case in cases()}
    rows = [row for row in rows if json.dumps(row["case"]) in wanted]
    done = {json.dumps(row["case"]) for row in rows}
    made_by = {
        **asdict(provenance()),
        "seed": SEED,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
    }
    for number, case in enumerate(cases()):
        if json.dumps(list(case)) not in done:
            rows.append(answer_to(case))
            if number % 16 == 0:
                save(target, made_by, rows)
    save(target, made_by, rows)
    write_atomically(HERE / "answer.md", answer(rows))


def save(target: Path, made_by: dict[str, Any], rows: list[Row]) -> None:
    lines = ",\n".join(json.dumps(row) for row in rows)
    write_atomically(target, f'{{\n"provenance": {json.dumps(made_by)},\n"rows": [\n{lines}\n]\n}}\n')


if __name__ == "__main__":
    main()
