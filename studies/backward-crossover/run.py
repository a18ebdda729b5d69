"""At which fast memory do backward schedules that keep rows overtake those that write scores, and by how much?

    .venv/bin/python studies/backward-crossover/run.py

counts exact words for d = 32 ... 256 at n = 16,384 and writes results.json, figure.svg and answer.md beside this file.
Beside both kinds stands FlashAttention's backward schedule, key-stationary, with its best tiles and as published.
"""

import json
import platform
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

from attenio.bounds import bounds_for, largest_ordinary
from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import Dataflow, best_plan_for, published_plan_for
from attenio.report.line_chart import LineChart, Series
from attenio.workload import Workload

HERE = Path(__file__).parent
N = 16384
WIDTHS = (32, 64, 96, 128, 160, 192, 224, 256)
LARGE = (Dataflow.TWO_PASS, Dataflow.KEY_STATIONARY, Dataflow.QUERY_STATIONARY)
SMALL = tuple(dataflow for dataflow in Dataflow.towards("backward") if dataflow not in LARGE)
# Sizes of memory as shares of d².
SHARES = tuple(2 ** (k / 4) for k in range(-20, 13))


def words_of(workload: Workload, dataflow: Dataflow, fast_words: int) -> float:
    try:
        return best_plan_for(workload, fast_words, dataflow=dataflow).moved_words
    except DoesNotFit:
        return inf


def fewest(workload: Workload, dataflows: tuple[Dataflow, ...], fast_words: int) -> tuple[float, str]:
    """Words of the best of some dataflows with its best tiles, and its name."""
    return min((words_of(workload, dataflow, fast_words), dataflow.value) for dataflow in dataflows)


def crossover(workload: Workload) -> tuple[int, int]:
    """The first memory with which keeping rows moves no more, and from which on it stays so; every one is tried."""
    d = workload.d
    wins = {
        words: fewest(workload, LARGE, words)[0] <= fewest(workload, SMALL, words)[0]
        for words in range(d * d // 2, 4 * d * d, max(1, d * d // 256))
    }
    return min(words for words in wins if wins[words]), max((words for words in wins if not wins[words]), default=0)


def row(workload: Workload, fast_words: int) -> dict[str, Any]:
    large, large_name = fewest(workload, LARGE, fast_words)
    small, small_name = fewest(workload, SMALL, fast_words)
    published = published_plan_for(workload, fast_words, Dataflow.KEY_STATIONARY)
    return {
        "d": workload.d,
        "fast_words": fast_words,
        "over_d_squared": round(fast_words / workload.d**2, 4),
        "bound_words": largest_ordinary(bounds_for(workload, fast_words)).words,
        "large_words": _finite(large),
        "large": large_name,
        "small_words": _finite(small),
        "small": small_name,
        "flash_words": _finite(words_of(workload, Dataflow.KEY_STATIONARY, fast_words)),
        "flash_published_words": None if published is None else published.moved_words,
    }


def _finite(words: float) -> int | None:
    return None if words == inf else int(words)


def main() -> None:
    rows, changes = [], []
    for d in WIDTHS:
        workload = Workload(n=N, d=d, direction="backward")
        rows += [row(workload, round(share * d * d)) for share in SHARES]
        first, last = crossover(workload)
        changes.append(
            {
                "d": d,
                "theorem_words": d * d,
                "first_large_words": first,
                "last_small_words": last,
                "step_words": max(1, d * d // 256),
                "over_d_squared": [round(first / d**2, 3), round(last / d**2, 3)],
            }
        )
        print(changes[-1], flush=True)
    made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
    results = {"provenance": made_by, "n": N, "crossovers": changes, "rows": rows}
    write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")
    write_atomically(HERE / "figure.svg", figure(rows))
    write_atomically(HERE / "answer.md", answer(results))


def figure(rows: list[dict[str, Any]], d: int = 128) -> str:
    """Both kinds, FlashAttention's schedule and the bound for one width."""
    shown = [each for each in rows if each["d"] == d]
    x = [each["fast_words"] for each in shown]
    lines = [
        Series("best that keeps rows", x, [each["large_words"] for each in shown], "#0072b2"),
        Series("best that writes scores", x, [each["small_words"] for each in shown], "#d55e00"),
        Series("FlashAttention, best tiles", x, [each["flash_words"] for each in shown], "#009e73"),
        Series("no algorithm below", x, [each["bound_words"] for each in shown], "#444", dashed=True),
    ]
    title = f"Backward pass, n = {N:,}, d = {d}"
    chart = LineChart(title=title, x_title="fast memory (words)", y_title="words moved")
    return chart.svg(lines, marks=[(d * d, "d²")])


def answer(results: dict[str, Any]) -> str:
    """The text beside the numbers, every one of them from the results."""
    table = [
        f"| {c['d']} | {c['theorem_words']:,} | {c['first_large_words']:,} | {c['last_small_words']:,} |"
        f" {c['over_d_squared'][0]} … {c['over_d_squared'][1]} |"
        for c in results["crossovers"]
    ]
    at = {
        share: [r for r in results["rows"] if abs(r["over_d_squared"] / share - 1) < 0.02]
        for share in (1 / 16, 1 / 4, 1)
    }
    gains = []
    for share, found in at.items():
        ratios = [r["flash_words"] / r["small_words"] for r in found if r["flash_words"] and r["small_words"]]
        names = sorted({r["small"] for r in found})
        text = f"{min(ratios):.2f} to {max(ratios):.2f} times" if ratios else "no tile of it fits at any width"
        gains.append(f"| {share:g} d² | {text} | {', '.join(names)} | {len(ratios)} of {len(found)} |")
    gaps = [r["small_words"] / r["bound_words"] for r in at[1 / 4] if r["small_words"]]
    return _ANSWER.format(
        table="\n".join(table), gains="\n".join(gains), n=f"{results['n']:,}", low=min(gaps), high=max(gaps)
    )


_ANSWER = """# Where does the backward pass change its schedule?

**Prediction.** Li, Liang, Shi, Song, Yue and Zhang put the change of regime of the backward pass at Θ(d²). With
the leading terms of our schedules, two passes move 14n²d²/M words and tiled products 10n²d/√M + 3n² or, of
whole rows beside values that stay, 5n²d²/M + 5n², which cross at 1.8 d². Between them stands spilled gradients:
keep keys and values as two passes do, write dS once instead of computing it again, and multiply it by K with all
d columns of a tile of dQ resident: 8n²d²/M + n², then n² + n²d²/M. It should beat tiled products from 4/3 d² on,
and two passes up to 2.5 d².

**Counted** (`results.json`, `figure.svg`, made by `run.py`; n = {n}, dense, one word a value). "Keeps rows":
the best of two-pass, key-stationary and query-stationary with best tiles. "Writes scores": the best of the
others. Ceilings make the curves uneven, so there is a first memory at which keeping rows wins and a last one at
which it does not; memories were tried in steps of about d²/256.

| d | d² | first win of keeping rows (words) | last win of writing scores (words) | over d² |
|---:|---:|---:|---:|---:|
{table}

Below the change, FlashAttention's backward schedule (key-stationary, best tiles) moves so many times the words
of the best small-cache schedule, over the widths at which a tile of it fits:

| fast memory | FlashAttention's words over ours | ours is | widths |
|---|---|---|---|
{gains}

At d²/4 the best small-cache schedule is {low:.2f} to {high:.2f} times the largest bound. That bound
counts about four and a half of the five products, so this is no proof that a better schedule exists.

![words against memory](figure.svg)
"""


if __name__ == "__main__":
    main()
