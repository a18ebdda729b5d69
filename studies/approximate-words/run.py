"""How do the words of approximate attention grow, and where does it beat exact attention?

    .venv/bin/python studies/approximate-words/run.py

plans n = 4K ... 1M at fixed width, memory, reach of scores and tolerance, runs the short ones on the counted memory,
maps who wins over length, width, memory, reach and tolerance, and writes results.json, figure.svg and answer.md beside
this file. Parts that are done are kept in results.part.json, so that a run that was stopped goes on.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from math import comb, sqrt
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attenio.bounds import bounds_for
from attenio.dataflows import execute, random_inputs
from attenio.elements import ElementType
from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import Plan, best_plan_for
from attenio.planning.approximate.forms import best_approximate_tiles
from attenio.planning.approximating import best_approximate
from attenio.planning.costs import problems_of
from attenio.planning.plan import Dataflow
from attenio.report.line_chart import LineChart, Series
from attenio.workload import Workload

HERE = Path(__file__).parent
LENGTHS = [2**k for k in range(12, 21)]
# Width, words of fast memory, reach of scores, tolerance.
SETTINGS = [
    (16, 2**13, 1.0, 0.1),
    (32, 2**14, 0.5, 0.01),
    (64, 2**16, 0.5, 0.01),
    (64, 2**18, 0.5, 0.01),
    (64, 2**18, 1.0, 0.01),
    (128, 2**18, 0.5, 0.01),
]
COUNTED = (16, 2**13, 1.0, 0.1)
COUNTED_LENGTHS = [2**12, 2**13, 2**14]
EXAMPLE = (64, 2**16, 2**20)
MAP_WIDTHS, MAP_MEMORIES = (16, 32, 64, 128), (2**14, 2**16, 2**18, 2**22)
MAP_REACHES, MAP_TOLERANCES = (0.25, 0.5, 1.0, 2.0, 4.0), (0.1, 0.01, 0.001)
MAP_LENGTHS = [2**k for k in range(8, 25)]


def bounded(n: int, d: int, reach: float, tolerance: float | None, **other: Any) -> Workload:
    """A workload whose entries are as large as scores of this reach allow."""
    return Workload(n=n, d=d, tolerance=tolerance, entry_bound=sqrt(reach / sqrt(d)), **other)


def growth() -> list[dict[str, Any]]:
    """Words of the best plan against n, exact and with a tolerance, and the slope of their logarithms."""
    found = []
    for d, fast_words, reach, tolerance in SETTINGS:
        for mask in ("dense", "causal"):
            plans = {
                "exact": [best_plan_for(bounded(n, d, reach, None, mask=mask), fast_words) for n in LENGTHS],
                "approximate": [approximate(bounded(n, d, reach, tolerance, mask=mask), fast_words) for n in LENGTHS],
            }
            row: dict[str, Any] = {
                "d": d, "fast_words": fast_words, "reach": reach, "tolerance": tolerance, "mask": mask
            }  # fmt: skip
            for kind, each in plans.items():
                words = [plan.moved_words for plan in each]
                row[kind] = words
                row[f"{kind}_dataflows"] = [plan.dataflow.value for plan in each]
                row[f"{kind}_slope"] = float(np.polyfit(np.log(LENGTHS), np.log(np.array(words, dtype=float)), 1)[0])
            row["degrees"] = [plan.tiles["degree"] for plan in plans["approximate"]]
            row["pays_from_n"] = next(
                (n for n, a, e in zip(LENGTHS, row["approximate"], row["exact"], strict=True) if a < e), None
            )
            found.append(row)
    return found


def approximate(workload: Workload, fast_words: int) -> Plan:
    """The best plan that approximates, whether or not it is the best of all."""
    found = best_approximate(workload, fast_words)
    assert found is not None
    return found


def counted() -> list[dict[str, Any]]:
    """Runs on the counted memory beside what was planned."""
    d, fast_words, reach, tolerance = COUNTED
    found = []
    for n, mask in product(COUNTED_LENGTHS, ("dense", "causal")):
        plan = best_plan_for(bounded(n, d, reach, tolerance, mask=mask), fast_words)
        run = execute(plan)
        found.append(
            {
                "n": n,
                "mask": mask,
                "dataflow": plan.dataflow.value,
                "planned_words": plan.moved_words,
                "counted_words": run.moved_words,
                "max_abs_error": run.max_abs_error,
                "guaranteed_error": run.guaranteed_error,
            }
        )
        print(found[-1], flush=True)
    return found


def tightness() -> list[dict[str, Any]]:
    """How much of its guarantee a run uses up: on random entries, and on entries that reach as far as they may."""
    found = []
    for dtype, dataflow, (reach, tolerance), corners in product(
        ElementType,
        Dataflow.approximating("forward"),
        ((0.5, 0.1), (0.5, 0.01), (1.0, 0.1), (1.0, 0.01)),
        (False, True),
    ):
        workload = bounded(256, 8, reach, tolerance, mask="causal", dtype=dtype)
        try:
            plan = best_plan_for(workload, 2**13, dataflow=dataflow)
        except DoesNotFit:
            continue
        run = execute(plan, inputs=at_the_corners(workload)) if corners else execute(plan)
        assert run.guaranteed_error is not None
        found.append(
            {
                "dtype": dtype.value,
                "dataflow": dataflow.value,
                "reach": reach,
                "tolerance": tolerance,
                "data": "corners" if corners else "random",
                "degree": plan.tiles["degree"],
                "max_abs_error": run.max_abs_error,
                "guaranteed_error": run.guaranteed_error,
                "truncation_alone": None if plan.certificate is None else plan.certificate.truncation_error,
            }
        )
    return found


def at_the_corners(workload: Workload) -> list[Any]:
    """Queries and keys all plus or all minus the largest entry: every score is as large as may be, V says its sign."""
    inputs = random_inputs(workload)
    largest = float(np.abs(inputs.k).max())
    draw = np.random.default_rng(0)
    signs = draw.choice([-1.0, 1.0], size=(2, workload.keys))
    queries, keys = (np.broadcast_to(largest * sign[:, None], (workload.keys, workload.d)) for sign in signs)
    values = np.broadcast_to(signs[1][:, None], (workload.keys, workload.value_dim))
    return [x.astype(np.float32)[None, None] for x in (queries, keys, values)]


def example() -> dict[str, Any]:
    """Words in units of n d for one width, memory and length: exact, and by degree whatever the scores are."""
    d, fast_words, n = EXAMPLE
    workload = Workload(n=n, d=d)
    problems, unit = problems_of(workload, Dataflow.FEATURE_STATE), n * d
    degrees = []
    for degree in range(1, 5):
        best = None
        for dataflow in (Dataflow.FEATURE_STATE, Dataflow.VALUE_COLUMNS, Dataflow.FEATURE_BLOCKS):
            tiles = best_approximate_tiles(problems, dataflow, fast_words, degree, 1)  # type: ignore[arg-type]
            if tiles is not None and (best is None or tiles.moved_words < best[0]):
                best = (tiles.moved_words, dataflow.value, str(tiles.tiles))
        assert best is not None
        within = bounds_for(Workload(n=n, d=d, tolerance=1.0, entry_bound=1.0), fast_words, degree=degree)
        floor = next(bound.words for bound in within if bound.theorem == "monomial-epochs")
        degrees.append(
            {
                "degree": degree,
                "features": comb(d + degree, degree),
                "words_over_nd": best[0] / unit,
                "dataflow": best[1],
                "tiles": best[2],
                "class_bound_over_nd": max(floor, workload.compulsory_words) / unit,
            }
        )
    exact = best_plan_for(workload, fast_words)
    return {
        "d": d,
        "fast_words": fast_words,
        "n": n,
        "exact_over_nd": exact.moved_words / unit,
        "exact_dataflow": exact.dataflow.value,
        "degrees": degrees,
    }


def regimes() -> list[dict[str, Any]]:
    """From which length on a tolerance pays, for every width, memory, reach and tolerance, and by how much at 1M."""
    found = []
    for d, fast_words, reach, tolerance in product(MAP_WIDTHS, MAP_MEMORIES, MAP_REACHES, MAP_TOLERANCES):
        first, last, reason, at_most = None, None, "", None
        for n in MAP_LENGTHS:
            plan = best_plan_for(bounded(n, d, reach, tolerance), fast_words)
            if plan.dataflow.is_approximate:
                first, last = first or n, n
                if n == 2**20:
                    exact = best_plan_for(bounded(n, d, reach, None), fast_words)
                    at_most = {
                        "dataflow": plan.dataflow.value,
                        "degree": plan.tiles["degree"],
                        "words_over_nd": plan.moved_words / (n * d),
                        "exact_over": exact.moved_words / plan.moved_words,
                    }
        if at_most is None:
            try:
                plan = best_plan_for(bounded(2**20, d, reach, tolerance), fast_words, dataflow="feature-blocks")
                reason = f"degree {plan.tiles['degree']} moves more than exact attention"
            except DoesNotFit as problem:
                reason = str(problem)
        found.append(
            {
                "d": d,
                "fast_words": fast_words,
                "reach": reach,
                "tolerance": tolerance,
                "pays_from_n": first,
                "pays_to_n": last,
                "at_1m": at_most,
                "reason": reason,
            }
        )
    return found


PARTS: dict[str, Callable[[], Any]] = {
    "growth": growth,
    "counted": counted,
    "tightness": tightness,
    "example": example,
    "regimes": regimes,
}


def main() -> None:
    part = HERE / "results.part.json"
    done: dict[str, Any] = json.loads(part.read_text()) if part.exists() else {}
    for name, make in PARTS.items():
        if name not in done:
            done[name] = make()
            write_atomically(part, json.dumps(done) + "\n")
            print(f"{name}: done", flush=True)
    made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
    results = {"provenance": made_by, "lengths": LENGTHS, **done}
    write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")
    write_atomically(HERE / "figure.svg", figure(results))
    write_atomically(HERE / "answer.md", answer(results))
    part.unlink()


def figure(results: dict[str, Any]) -> str:
    """Exact and approximate words against n for one setting."""
    row = next(r for r in results["growth"] if r["d"] == 64 and r["fast_words"] == 2**18 and r["mask"] == "dense")
    x = results["lengths"]
    lines = [
        Series("exact", x, row["exact"], "#d55e00"),
        Series("with a tolerance", x, row["approximate"], "#00695c"),
        Series("compulsory", x, [4 * n * row["d"] for n in x], "#444", dashed=True),
    ]
    title = f"d = {row['d']}, M = {row['fast_words']:,} words, |score| ≤ {row['reach']}, tolerance {row['tolerance']}"
    return LineChart(title=title, x_title="n", y_title="words moved").svg(lines, marks=[])


def answer(results: dict[str, Any]) -> str:
    """The text beside the numbers, every one of them from the results."""
    rows = [
        f"| {r['d']} | {r['fast_words']:,} | {r['reach']:g} | {r['tolerance']:g} | {r['mask']} |"
        f" {between(r['degrees'])} | {r['approximate_dataflows'][-1]} | {short(r['pays_from_n'])} |"
        f" {r['approximate_slope']:.4f} | {r['exact_slope']:.4f} | {r['exact'][-1] / r['approximate'][-1]:,.1f} |"
        for r in results["growth"]
    ]
    runs = [
        f"| {r['n']:,} | {r['mask']} | {r['dataflow']} | {r['planned_words']:,} | {r['counted_words']:,} |"
        f" {r['max_abs_error']:.2g} | {r['guaranteed_error']:.2g} |"
        for r in results["counted"]
    ]
    one = results["example"]
    example_rows = [
        f"| degree {r['degree']} | {r['features']:,} | {r['words_over_nd']:,.1f} | {r['dataflow']}, {r['tiles']} |"
        f" {r['class_bound_over_nd']:,.1f} |"
        for r in one["degrees"]
    ]
    slopes = [r["approximate_slope"] for r in results["growth"] if len(set(r["degrees"])) == 1]
    ratios = {
        data: [r["max_abs_error"] / r["guaranteed_error"] for r in results["tightness"] if r["data"] == data]
        for data in ("random", "corners")
    }
    return _ANSWER.format(
        growth="\n".join(rows),
        farthest=max(abs(slope - 1) for slope in slopes),
        among=len(slopes),
        of=len(rows),
        exact_low=min(r["exact_slope"] for r in results["growth"]),
        exact_high=max(r["exact_slope"] for r in results["growth"]),
        counted="\n".join(runs),
        exact=f"{one['exact_over_nd']:,.0f}",
        setting=f"d = {one['d']}, M = {one['fast_words']:,} words, n = {one['n']:,}",
        example="\n".join(example_rows),
        runs=len(results["tightness"]),
        worst=max(max(values) for values in ratios.values()),
        random=median(ratios["random"]),
        corners=median(ratios["corners"]),
        regimes="\n\n".join(regime_table(results["regimes"], d) for d in MAP_WIDTHS),
        points=len(results["regimes"]),
        paying=sum(r["pays_from_n"] is not None for r in results["regimes"]),
    )


def regime_table(rows: list[dict[str, Any]], d: int) -> str:
    """One width: memories across, reach and tolerance down; from which n on a tolerance pays, and with which degree."""
    head = "| scores, tolerance | " + " | ".join(f"M = {words:,}" for words in MAP_MEMORIES) + " |"
    lines = [f"d = {d}:\n", head, "|---|" + "---|" * len(MAP_MEMORIES)]
    for reach, tolerance in product(MAP_REACHES, MAP_TOLERANCES):
        cells = []
        for words in MAP_MEMORIES:
            found = next(
                r for r in rows if (r["d"], r["fast_words"], r["reach"], r["tolerance"]) == (d, words, reach, tolerance)
            )
            at_1m = found["at_1m"]
            if found["pays_from_n"] is None:
                cells.append("exact")
            elif at_1m is None:
                ends = short(found["pays_from_n"]), short(found["pays_to_n"])
                cells.append("only at " + ends[0] if ends[0] == ends[1] else " to ".join(ends))
            else:
                kind = _LETTERS[at_1m["dataflow"]]
                cells.append(f"{short(found['pays_from_n'])}, {kind}{at_1m['degree']}, {at_1m['exact_over']:,.1f}×")
        lines.append(f"| ±{reach:g}, {tolerance:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


_LETTERS = {"feature-state": "Z", "value-columns": "C", "feature-blocks": "B", "window-and-features": "W"}


def between(numbers: list[int]) -> str:
    return str(numbers[0]) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def short(n: int) -> str:
    return f"{n >> 20}M" if n >= 2**20 else f"{n >> 10}K" if n >= 2**10 else str(n)


_ANSWER = """# How do the words of approximate attention grow, and where does it win?

**Prediction.** Features of a fixed degree make every pass over the sequence linear, so the logarithm of the words
should have slope 1 against that of n, and exact attention slope 2. Below the length at which r/2 + M/(2d) keys
are there, exact attention should win.

**Planned** (`results.json`, `figure.svg`, made by `run.py`): exact words for n = 4K to 1M at fixed width, memory,
reach of scores and tolerance; the best plan that approximates beside the best exact one, from which n of these it moves
less, and exact over approximate at 1M.

| d | M (words) | scores within ± | tolerance | mask | degree | plan at 1M | pays from | slope | exact slope | saved × |
|---:|---:|---:|---:|---|---:|---|---:|---:|---:|---:|
{growth}

Of the {of} rows, {among} need the same degree at every length; their slopes are within {farthest:.4f} of 1. Exact
attention has slopes between {exact_low:.3f} and {exact_high:.3f}: what is linear in n is still a part of its words
where the memory is large and the sequence short.

![words against n](figure.svg)

**Counted** on the memory that counts every word; errors against float64:

| n | mask | dataflow | planned (words) | counted (words) | error | guaranteed |
|---:|---|---|---:|---:|---:|---:|
{counted}

**How much of the guarantee is used.** Over {runs} runs (every dataflow and element type, n = 256, d = 8), the error was
never above {worst:.3f} of what was guaranteed. The median is {random:.4f} on random entries, whose scores stay far
from ±d times the square of the largest entry, and {corners:.3f} on entries that are all as large as they may be, with
values that tell large scores from small ones.

**One example by degree**, whatever degree the scores need: {setting}, in units of n d. Exact attention moves {exact}.

| | features | words/nd | plan | bound of the class/nd |
|---|---:|---:|---|---:|
{example}

**Who wins where.** Of {points} combinations a tolerance pays in {paying} at some length up to 16M. A cell says from
which n on (powers of two), the plan at 1M (Z feature-state, C value-columns, B feature-blocks, with the degree), and
how many times fewer words that moves than exact attention. A range says that it pays there but not at 1M: the bound on
the rounding of sums in fp32 grows with n, until the tolerance takes a higher degree or none will do. Scores reach as
far as the largest entries let them.

{regimes}
"""


if __name__ == "__main__":
    main()
