"""At which fast memory do schedules that keep queries overtake those that write scores?

    .venv/bin/python studies/crossover/run.py

counts exact words of both kinds for d = 32 ... 256 and writes results.json and answer.md beside this file; every number
of the answer comes from the results. With an argument, answer.md is written anew from the results that are there.

Fewest words never grow with the memory, and those of the large-cache schedules fall only where one more row or key
fits. Between two such memories they are constant while the small-cache schedules may improve: whoever wins at both
ends of a stretch wins in all of it, so looking at the ends finds every change of sign. The published square tile is not
monotone; for it every memory is tried.
"""

import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from math import inf, sqrt
from pathlib import Path
from textwrap import fill
from typing import Any

from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import Dataflow, best_plan_for, published_plan_for
from attenio.workload import Workload

HERE = Path(__file__).parent
Row = dict[str, Any]
N = 16384
LONGER = 65536
WIDTHS = list(range(32, 257, 16))
LARGE = (Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_1)
# Where the leading terms cross, over d²: keeping queries and outputs with scores of whole rows of queries, which are
# stored, and with the published square tile.
BEST, SQUARE = 1.0, (2 * sqrt(5) - 4) ** 2
SMALL = (Dataflow.RANK_ONE_TILING, Dataflow.SCORE_STATIONARY)


def fewest(workload: Workload, dataflows: tuple[Dataflow, ...], fast_words: int) -> float:
    """Words of the best of some dataflows, each with its best tiles."""
    found = [inf]
    for dataflow in dataflows:
        try:
            plan = best_plan_for(workload, fast_words, dataflow=dataflow)
            if "resident_rows" not in plan.tiles:  # which keep queries and outputs, as large ones do
                found.append(plan.moved_words)
        except DoesNotFit:
            continue
    return min(found)


def square_as_published(workload: Workload, fast_words: int) -> float:
    plan = published_plan_for(workload, fast_words, Dataflow.SQUARE_TILING)
    return inf if plan is None else plan.moved_words


def stretches(d: int, least: int, most: int) -> list[tuple[int, int]]:
    """Memories in stretches over which no more rows fit attenio, nor more keys flash-attention-1."""
    rows = range(d, most + 1, 2 * d + 4)
    keys = range(2 * d + 3, most + 1, 2 * d + 1)
    starts = sorted({least, *(words for words in (*rows, *keys) if words > least)})
    return [(start, stop - 1) for start, stop in pairwise([*starts, most + 1])]


def against_best(workload: Workload, least: int, most: int) -> tuple[int, int]:
    """The first memory with which keeping queries moves no more than the best tiles, and from which on it stays so."""
    wins: dict[int, bool] = {}
    for first, last in stretches(workload.d, least, most):
        large = fewest(workload, LARGE, first)
        wins |= {words: large <= fewest(workload, SMALL, words) for words in (first, last)}
    return _ends(wins)


def against_published(workload: Workload, least: int, most: int) -> tuple[int, int]:
    """The same against square tiling with its published tile."""
    wins: dict[int, bool] = {}
    for first, last in stretches(workload.d, least, most):
        large = fewest(workload, LARGE, first)
        wins |= {words: large <= square_as_published(workload, words) for words in range(first, last + 1)}
    return _ends(wins)


def _ends(wins: dict[int, bool]) -> tuple[int, int]:
    return min(words for words in wins if wins[words]), max(words for words in wins if not wins[words]) + 1


def extra_words(workload: Workload, fast_words: int) -> float:
    """The share of words by which small-cache schedules move more than large-cache ones at this memory, or less."""
    return fewest(workload, SMALL, fast_words) / fewest(workload, LARGE, fast_words) - 1


def crossovers(n: int, mask: str, widths: list[int]) -> list[Row]:
    rows = []
    for d in widths:
        workload, square = Workload(n=n, d=d, mask=mask), d * d
        first, always = against_best(workload, max(square // 4, 3 * d + 4), 8 * square // 5)
        early, later = against_published(workload, max(square // 12, 3 * d + 4), square // 2)
        rows.append(
            {
                "n": n,
                "mask": mask,
                "d": d,
                "theorem_words": square,
                "first_words": first,
                "always_from_words": always,
                "over_d_squared": [round(words / square, 4) for words in (first, always)],
                "published_square_first_words": early,
                "published_square_always_from_words": later,
                "published_square_over_d_squared": [round(words / square, 4) for words in (early, later)],
                "moved_words_there": fewest(workload, LARGE, always),
                "extra_words_just_below_theorem": round(extra_words(workload, square - 1), 4),
            }
        )
        print(rows[-1], flush=True)
    return rows


def table(rows: list[Row]) -> str:
    lines = [
        "| d | theorem: d² | first … always from | over d² | published square: first … always from | over d² |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [f"{row['d']}", f"{row['theorem_words']:,}"]
        for name in ("", "published_square_"):
            ends = [row[f"{name}first_words"], row[f"{name}always_from_words"]]
            cells += [both(ends, ","), both([words / row["theorem_words"] for words in ends], ".3f")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def both(values: list[Any], form: str) -> str:
    """Two numbers with dots between them; one, if they read the same."""
    return " … ".join(dict.fromkeys(format(value, form) for value in values))


def beside_dense(rows: list[Row], **changed: object) -> str:
    """By how many per cent at most a change moves the two memories, and the widths at which it was tried."""
    dense = {row["d"]: row for row in rows if (row["n"], row["mask"]) == (N, "dense")}
    others = [row for row in rows if all(row[name] == value for name, value in changed.items())]
    most = max(
        abs(row[name] / dense[row["d"]][name] - 1) for row in others for name in ("first_words", "always_from_words")
    )
    *widths, last = (str(row["d"]) for row in others)
    return f"{100 * most:.1f} % at d = {', '.join(widths)} and {last}"


def findings(rows: list[Row]) -> Iterator[str]:
    dense = {row["d"]: row for row in rows if (row["n"], row["mask"]) == (N, "dense")}
    small, large = min(dense), max(dense)
    over = {
        d: [row[name] / d**2 for name in ("first_words", "published_square_first_words")] for d, row in dense.items()
    }
    more = [100 * (found / ideal - 1) for found, ideal in zip(over[small], (BEST, SQUARE), strict=True)]
    extra = {d: 100 * row["extra_words_just_below_theorem"] for d, row in dense.items()}
    wide = [extra[d] for d in dense if d >= 64]
    yield (
        f"The derived constants hold: {over[large][0]:.2f} and {over[large][1]:.2f} at d = {large}, {more[0]:.0f} and"
        f" {more[1]:.0f} % more at d = {small}. The border of the theorem is the real one, then, but for the statistics"
        f" of a row: just below d² keeping queries moves {-max(wide):.0f} to {-min(wide):.0f} % more words than writing"
        f" scores for d from 64 on ({-extra[small]:.0f} % at d = {small}). Scores have to be made of whole rows of"
        " queries for that; from tiles of scores the crossing would be at 0.69 d²."
    )
    yield (
        f"The crossing hardly depends on n ({LONGER:,} moves it by up to {beside_dense(rows, n=LONGER)}) or on a causal"
        f" mask (up to {beside_dense(rows, mask='causal')})."
    )
    kilobytes = [f"{2 * dense[d]['always_from_words'] / 1024:.0f} KB at d = {d}" for d in (64, 128, 256)]
    yield (
        f"What the crossing means in bytes of fp16: {', '.join(kilobytes)}. Only wide heads on small memories are ever"
        " on the small-cache side."
    )


def paragraph(text: str, first: str = "") -> str:
    return fill(text, 120, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)


def answer(rows: list[Row]) -> str:
    prediction = (
        "**Prediction.** The theorem of Saha and Ye puts the change of regime at M = d². With constants: keeping"
        " queries and outputs moves 4n²d²/M words, writing scores made of whole rows of queries n²(d/√M + 1)², which"
        f" cross at M = d² too; against the square tile as published it is at {SQUARE:.2f} d². Both leave out that"
        " a tile holds whole rows and some statistics, which costs small heads more, so the crossing should lie above"
        " these numbers and approach them as d grows."
    )
    counted = (
        f"**Counted** (`results.json`, made by `run.py`; n = {N:,}, dense, one word a value). Large: the better of"
        " attenio and flash-attention-1 with best tiles. Small: the better of rank-one tiling and score-stationary with"
        " best tiles; the last two columns are square tiling with its published tile. Ceilings make the curves uneven,"
        " so there is a first memory at which the large-cache schedule wins, and one from which on it always does."
    )
    parts = [
        "# Where do large-cache schedules overtake small-cache ones?",
        paragraph(prediction),
        paragraph(counted),
        table([row for row in rows if (row["n"], row["mask"]) == (N, "dense")]),
        "\n".join(paragraph(text, "- ") for text in findings(rows)),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    if len(sys.argv) > 1:
        results = json.loads((HERE / "results.json").read_text())
    else:
        rows = crossovers(N, "dense", WIDTHS)
        rows += crossovers(LONGER, "dense", [64, 128, 256])
        rows += crossovers(N, "causal", [64, 128])
        made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
        results = {"provenance": made_by, "rows": rows}
        write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")
    write_atomically(HERE / "answer.md", answer(results["rows"]))


if __name__ == "__main__":
    main()
