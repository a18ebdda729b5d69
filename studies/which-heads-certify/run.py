"""How many heads of a trained model certify for approximate attention, before and after centring, and is it worth it?

    .venv/bin/python studies/which-heads-certify/run.py

trains two small causal transformers on the pages of this repository (no download; a few minutes on two cores), takes
the queries, keys and values of every head on held-out text, and certifies each. Writes results.json, answer.md and
figure.svg beside this file. A model whose heads are in results.json already is not trained again: remove the file to
start afresh.
"""

import json
import os
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median

import torch
from model import Model, Shape, corpus, pieces, train

from attenio.approximation import AttentionData, Centring, Diligence, Terms, certify, feature_count
from attenio.approximation.data import Head
from attenio.approximation.observation import observe, observe_rows
from attenio.elements import ElementType
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.report.line_chart import LineChart, Series

HERE = Path(__file__).parent
SEED = 11
SHAPES = {"16": Shape(heads=8, d=16), "64": Shape(heads=2, d=64)}
SEQUENCES = 1
TOLERANCES = (1e-1, 1e-2, 1e-3)
FAST_WORDS = 2**16
LENGTHS = (2**16, 2**20)
BEFORE, MEAN, BEST = "none", "mean", "best"
CENTRINGS = {BEFORE: Centring.NONE, MEAN: Centring.MEAN, BEST: Centring.BEST}


def held_out(text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Nine tenths to learn from, and the last tenth."""
    cut = len(text) * 9 // 10
    return text[:cut], text[cut:]


def heads_of(model: Model, text: torch.Tensor) -> list[dict[str, object]]:
    """Every head on every held-out sequence, certified."""
    sequences = pieces(text, SEQUENCES, model.shape.context, torch.Generator().manual_seed(SEED + 1))
    rows = []
    for layer, parts in enumerate(model.heads(sequences)):
        for sequence in range(SEQUENCES):
            for head in range(model.shape.heads):
                query, key, value = (part[sequence, head].contiguous().numpy() for part in parts)
                data = AttentionData.of(query, key, value, causal=True)
                rows.append({"layer": layer, "head": head, "sequence": sequence, **certified(data)})
    return rows


def certified(data: AttentionData) -> dict[str, object]:
    (head,) = data.heads()
    row: dict[str, object] = {"radii": radii(head)}
    for centring, choice in CENTRINGS.items():
        for tolerance in TOLERANCES:
            # features are hardly limited here: what they cost is asked afterwards
            terms = Terms(tolerance=tolerance, dtype=ElementType.FP32, most_features=2**30)
            diligence = Diligence(centring=choice, measure=centring == BEST, most_products=2**27)
            (found,) = certify(data, terms, diligence)
            certificate = found.certificate
            row[f"{centring} {tolerance:g}"] = {
                "degree": certificate.degree,
                "needed_degree": certificate.needed_degree,
                "features": certificate.features,
                "guaranteed": certificate.guaranteed_error if certificate.degree is not None else None,
                "measured": found.measured_error,
                "reason": certificate.reason,
            }
    return row


def radii(head: Head) -> dict[str, float]:
    """How far scores reach: all computed, with each centring, and bounded from norms of rows, also rescaled."""
    found = {centring: observe(head, choice).scores.radius for centring, choice in CENTRINGS.items()}
    found["norms"] = observe_rows(head, Centring.MEAN, rescale=False).scores.radius
    found["norms, rescaled"] = observe_rows(head, Centring.MEAN, rescale=True).scores.radius
    return found


def made_by() -> dict[str, object]:
    return {
        **asdict(provenance()),
        "seed": SEED,
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results.json"
    print(f"seed {SEED}")
    results = json.loads(target.read_text()) if target.exists() else {"provenance": made_by(), "models": {}}
    learn, test = held_out(corpus())
    for name, shape in SHAPES.items():
        if name in results["models"]:
            continue
        start = time.perf_counter()
        print(
            f"{shape.layers} layers of {shape.heads} heads, d = {shape.d}: {shape.steps} steps on {len(learn):,} bytes"
        )
        model, losses = train(
            shape, learn, SEED, lambda step, loss: step % 50 or print(f"  step {step}: {loss:.3f}", flush=True)
        )
        untrained = heads_of(Model(shape), test)
        results["models"][name] = {
            "shape": asdict(shape),
            "bytes": len(learn),
            "losses": [round(loss, 4) for loss in losses],
            "heads": heads_of(model, test),
            "untrained": untrained,
            "seconds": round(time.perf_counter() - start, 1),
        }
        write_atomically(target, json.dumps(results, indent=None, separators=(",", ":")) + "\n")
    write_atomically(target.parent / "answer.md", answer(results))
    write_atomically(target.parent / "figure.svg", figure(results))


def every_head(model: dict, which: str = "heads") -> list[list[dict]]:
    """The rows of each head, one for each sequence: a head certifies if it does on all of them."""
    places = sorted({(row["layer"], row["head"]) for row in model[which]})
    return [[row for row in model[which] if (row["layer"], row["head"]) == place] for place in places]


def certifying(
    heads: list[list[dict]], centring: str, tolerance: float, *, worth_at: int | None = None, d: int = 0
) -> int:
    count = 0
    for rows in heads:
        degrees = [row[f"{centring} {tolerance:g}"]["degree"] for row in rows]
        if None in degrees:
            continue
        count += worth_at is None or break_even(d, max(degrees)) < worth_at
    return count


def break_even(d: int, degree: int) -> float:
    """The length from which on approximate attention moves fewer words than exact attention: r/2 + M/2d."""
    return feature_count(d, degree) / 2 + FAST_WORDS / (2 * d)


def answer(results: dict) -> str:
    made = results["provenance"]
    parts = [
        "# Which heads of a trained model certify?",
        "",
        "**Prediction.** Training sharpens attention: a head that looks at few keys has scores that differ by several"
        " units, and a polynomial for e^x on ±R needs a degree of about R and more. With d = 64 only degrees 1 and 2"
        " are cheap, which reach to R of about 1 at tolerance 0.1. So a few heads of a trained model should certify"
        " cheaply, most should not, and centring should help by a constant factor, not change the answer.",
        "",
        f"**Measured** (`results.json`, made by `run.py`; seed {made['seed']}, PyTorch {made['torch']},"
        f" {made['platform']}; commit {made['commit']}, {made['date']}). Byte-level causal transformers trained on the"
        f" pages of this repository as of that commit, heads taken on {SEQUENCES} held-out sequences. A head certifies"
        " if it does on all of them; every required score was computed, and up to 2^30 features were allowed.",
        "",
    ]
    for name in results["models"]:
        parts += model_lines(results["models"][name])
    parts += ["**What it says.**", "", *conclusions(results), "", "![radii of all heads](figure.svg)", ""]
    return "\n".join(parts)


def model_lines(model: dict) -> list[str]:
    shape, heads = model["shape"], every_head(model)
    d, total = shape["d"], len(heads)
    last = model["losses"][-20:]
    lines = [
        f"## {shape['layers']} layers of {shape['heads']} heads, d = {d}",
        "",
        f"{shape['steps']} steps on {model['bytes']:,} bytes, {shape['context']} a sequence; loss"
        f" {model['losses'][0]:.2f} → {sum(last) / len(last):.2f} nats a byte. {total} heads.",
        "",
        "| scores reach (R) | least | median | largest |",
        "|---|---:|---:|---:|",
    ]
    labels = {
        BEFORE: "as they are",
        MEAN: "keys less their mean",
        BEST: "best centre",
        "norms": "keys less their mean, bound from row norms",
        "norms, rescaled": "the same with coordinates rescaled",
    }
    for key, label in labels.items():
        reached = sorted(max(row["radii"][key] for row in rows) for rows in heads)
        lines.append(f"| {label} | {reached[0]:.2f} | {median(reached):.2f} | {reached[-1]:.2f} |")
    untrained = sorted(max(row["radii"][BEST] for row in rows) for rows in every_head(model, "untrained"))
    lines.append(
        f"| before training, best centre | {untrained[0]:.2f} | {median(untrained):.2f} | {untrained[-1]:.2f} |"
    )
    lines += ["", *tolerance_table(heads, d), ""]
    return lines


def tolerance_table(heads: list[list[dict]], d: int) -> list[str]:
    worth = [f"pays in words at n = {n:,}" for n in LENGTHS]
    lines = [
        "| tolerance | certify as they are | less the mean | best centre | degrees (best centre) | features, median |"
        f" {' | '.join(worth)} | measured / guaranteed, median |",
        "|---:|" + "---:|" * (6 + len(LENGTHS)),
    ]
    for tolerance in TOLERANCES:
        found = [[row[f"{BEST} {tolerance:g}"] for row in rows] for rows in heads]
        degrees = sorted(max(f["degree"] for f in one) for one in found if all(f["degree"] is not None for f in one))
        shares = [f["measured"] / f["guaranteed"] for one in found for f in one if f["measured"]]
        cells = [
            f"{tolerance:g}",
            *(f"{certifying(heads, centring, tolerance)} of {len(heads)}" for centring in CENTRINGS),
            f"{degrees[0]} to {degrees[-1]}" if degrees else "none",
            f"{feature_count(d, int(median(degrees))):,}" if degrees else "",
            *(str(certifying(heads, BEST, tolerance, worth_at=n, d=d)) for n in LENGTHS),
            f"{median(shares):.2f}" if shares else "not run",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def conclusions(results: dict) -> list[str]:
    lines = []
    for model in results["models"].values():
        heads, d = every_head(model), model["shape"]["d"]
        shrunk = [row["radii"][BEST] / row["radii"][BEFORE] for rows in heads for row in rows]
        counts = {t: (certifying(heads, BEFORE, t), certifying(heads, BEST, t)) for t in TOLERANCES}
        pays = {n: certifying(heads, BEST, TOLERANCES[0], worth_at=n, d=d) for n in LENGTHS}
        changes = ", ".join(f"{a} → {b} at {t:g}" for t, (a, b) in counts.items())
        paying = " and ".join(f"{count} at n = {n:,}" for n, count in pays.items())
        lines.append(
            f"- d = {d}: centring shrinks R to {median(shrunk):.2f} of itself in the median, and the heads that certify"
            f" change by it as {changes} (of {len(heads)}). Of those at {TOLERANCES[0]:g}, fewer words than exact"
            f" attention would move for {paying}, with {FAST_WORDS:,} words of fast memory."
        )
    lines.append(
        "- Lengths beyond the context of these models are a thought experiment: scores are taken to reach as far there"
        " as they do here. Small models trained for minutes are no evidence about large ones; `attenio certify` answers"
        " for any arrays."
    )
    return lines


def figure(results: dict) -> str:
    chart = LineChart(title="How far scores of each head reach", x_title="head, by radius", y_title="radius of scores")
    colours = {BEFORE: "#d55e00", BEST: "#0072b2"}
    series = []
    for model in results["models"].values():
        heads = every_head(model)
        for centring, colour in colours.items():
            reached = sorted(max(row["radii"][centring] for row in rows) for rows in heads)
            label = "as they are" if centring == BEFORE else "best centre"
            places = [i + 1 for i in range(len(reached))]
            series.append(
                Series(f"d = {model['shape']['d']}, {label}", places, reached, colour, model["shape"]["d"] != 16)
            )
    return chart.svg(series)


if __name__ == "__main__":
    main()
