"""How near do sparse layouts come to their lower bound, and how much does another order of queries and keys help?

    .venv/bin/python studies/sparse-layouts/run.py

counts exact words of the best plan for seven layouts at n = 65,536 in blocks of 64, in every order, and writes
results.json, answer.md and figure.svg beside this file. The table and every number in the text of answer.md come from
the results; with an argument, answer.md is written anew from the results that are there.
"""

import json
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np

from attenio.bounds import bounds_for, largest_ordinary
from attenio.files import write_atomically
from attenio.masks import BlockSparse, Mask, mask_from_text
from attenio.masks.layouts import BLOCK
from attenio.measurement.provenance import provenance
from attenio.planning import best_plan_for
from attenio.reordering import Method, reorder
from attenio.reordering.best import rows_that_fit
from attenio.workload import Workload

HERE = Path(__file__).parent
N = 65536
BLOCKS = N // BLOCK
SEED = 0
WIDTHS = [64, 128]
FAST_BYTES = [64 * 2**10, 512 * 2**10, 4 * 2**20]
DENSITY = 0.05


def documents(random: np.random.Generator) -> np.ndarray:
    """Documents of 4 to 64 blocks, every query of one seeing all of it, packed in the order they came in."""
    lengths: list[int] = []
    while sum(lengths) < BLOCKS:
        lengths.append(min(int(random.integers(4, 65)), BLOCKS - sum(lengths)))
    document = np.repeat(np.arange(len(lengths)), lengths)
    return document[:, None] == document


def layouts() -> dict[str, Mask]:
    random = np.random.default_rng(SEED)
    blocks = np.arange(BLOCKS)
    window = np.abs(blocks[:, None] - blocks) <= 4
    packed = documents(random)
    scattered = random.random((BLOCKS, BLOCKS)) < DENSITY
    rows, columns = random.permutation(BLOCKS), random.permutation(BLOCKS)
    return {
        "longformer:512:64": mask_from_text("longformer:512:64"),
        "bigbird:192:128:3": mask_from_text("bigbird:192:128:3"),
        "strided:2048": mask_from_text("strided:2048"),
        "documents": BlockSparse.from_array(packed, query_block=BLOCK),
        "documents, shuffled": BlockSparse.from_array(packed[rows][:, rows], query_block=BLOCK),
        "window, shuffled": BlockSparse.from_array(window[rows][:, columns], query_block=BLOCK),
        "random 5 %": BlockSparse.from_array(scattered, query_block=BLOCK),
    }


def cases() -> Iterator[dict[str, object]]:
    for name, mask in layouts().items():
        for d in WIDTHS:
            for fast_bytes in FAST_BYTES:
                workload = Workload(n=N, d=d, mask=mask)
                fast_words = fast_bytes // workload.dtype.bytes
                bound = largest_ordinary(bounds_for(workload, fast_words))
                for method in Method:
                    yield {
                        "layout": name,
                        "density": round(workload.scores / N**2, 4),
                        "d": d,
                        "fast_bytes": fast_bytes,
                        "bound_words": int(bound.words),
                        "compulsory_words": workload.compulsory_words,
                        **in_order(workload, fast_words, method),
                    }


def in_order(workload: Workload, fast_words: int, method: Method) -> dict[str, object]:
    start = time.perf_counter()
    found = reorder(workload, method, rows_per_tile=rows_that_fit(workload, fast_words))
    ordered = time.perf_counter()
    plan = best_plan_for(found.workload, fast_words)
    planned = time.perf_counter()
    return {
        "method": method.value,
        "moved_words": plan.moved_words,
        "dataflow": plan.dataflow.value,
        "tiles": str(plan.tiles),
        "order_ms": round((ordered - start) * 1e3, 1),
        "plan_ms": round((planned - ordered) * 1e3, 1),
    }


Row = dict[str, object]


def gap(row: Row) -> float:
    return row["moved_words"] / row["bound_words"]  # type: ignore[operator]


def grouped(rows: list[Row]) -> dict[tuple[object, object, object], dict[str, Row]]:
    """Rows by layout, width and memory, then by method."""
    groups: dict[tuple[object, object, object], dict[str, Row]] = {}
    for row in rows:
        groups.setdefault((row["layout"], row["d"], row["fast_bytes"]), {})[str(row["method"])] = row
    return groups


def table(rows: list[Row]) -> str:
    names = [method.value for method in Method]
    lines = [
        "| layout | density | d | fast memory | bound, M words | " + " | ".join(names) + " |",
        "|---|---:|---:|---:|---:|" + "---:|" * len(names),
    ]
    for (layout, d, fast_bytes), found in grouped(rows).items():
        least = min(gap(row) for row in found.values())
        natural = found["natural"]
        gaps = [
            f"**{gap(found[name]):.2f}**" if gap(found[name]) == least else f"{gap(found[name]):.2f}" for name in names
        ]
        lines.append(
            f"| {layout} | {100 * natural['density']:.1f} % | {d} | {fast_bytes // 1024:,} KB |"  # type: ignore[operator]
            f" {natural['bound_words'] / 1e6:.1f} | " + " | ".join(gaps) + " |"  # type: ignore[operator]
        )
    return "\n".join(lines)


def saved(found: dict[str, Row]) -> float:
    """The part of the words in natural order that the best other order saves."""
    return 1 - min(row["moved_words"] for row in found.values()) / found["natural"]["moved_words"]  # type: ignore


def range_of(values: list[float], form: str) -> str:
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def findings(rows: list[Row]) -> list[str]:
    """One line a layout: gaps in natural order and in the best one, and what the best one saves."""
    lines = []
    groups = grouped(rows)
    for layout in dict.fromkeys(str(row["layout"]) for row in rows):
        own = [found for key, found in groups.items() if key[0] == layout]
        natural = range_of([gap(found["natural"]) for found in own], ".2f")
        best = range_of([min(map(gap, found.values())) for found in own], ".2f")
        least = [min(row["moved_words"] for row in found.values()) for found in own]  # type: ignore[type-var]
        winners = [
            next(name for name, row in found.items() if row["moved_words"] == words)
            for found, words in zip(own, least, strict=True)
        ]
        counts = ", ".join(f"{name} {winners.count(name)}" for name in dict.fromkeys(winners))
        part = range_of([100 * saved(found) for found in own], ".0f")
        lines.append(
            f"- **{layout}**: {natural} times the bound in natural order, {best} in the best, which saves {part} % of"
            f" the words. Best of {len(own)} cases: {counts}."
        )
    return lines


def times(rows: list[Row]) -> str:
    plans = [float(row["plan_ms"]) for row in rows]  # type: ignore[arg-type]
    orders = {
        method.value: [float(row["order_ms"]) for row in rows if row["method"] == method.value]  # type: ignore[arg-type]
        for method in Method
    }
    each = ", ".join(f"{name} {median(values):.0f} ms" for name, values in orders.items())
    return (
        f"A plan over {BLOCKS:,} x {BLOCKS:,} blocks took {median(plans):.0f} ms (median of {len(plans)}, the longest"
        f" {max(plans):.0f} ms); finding an order, making the mask included: {each} (medians)."
    )


def answer(rows: list[Row]) -> str:
    return f"""# How near to the bound do sparse layouts come, and does another order help?

**Prediction.** A tile of queries reads the union of the keys that its rows need. Where neighbours need the same keys
(a window, a document) the natural order is already good. Where the order hides that, reverse Cuthill-McKee should find
it again; where rows a stride apart share keys, greedy packing should gain once a tile holds several blocks; where
blocks are random nothing can gain much.

**Counted** (`results.json`, made by `run.py`; n = {N:,}, blocks of {BLOCK}, one head, one word a value, fp16,
seed {SEED}): words moved by the best plan over the largest bound, in each order of queries and keys. The least
in bold. The greedy orders fill tiles of as many rows as fit the memory.

{table(rows)}

<!-- The guide to sparse attention shows what stands between these two comments. -->

{chr(10).join(findings(rows))}

{times(rows)} Times are of a shared computer.

<!-- So far the guide. -->

The bound knows how many scores are required and not where: it is what a tile would need if all its rows shared all
their keys. That is why random blocks stay far from it in any order, and what remains of the gap elsewhere is not proof
that a better order exists.
"""


def figure(rows: list[Row]) -> str:
    """Bars of the gap in natural order and in the best one, at the first width and the middle memory."""
    groups = grouped(rows)
    chosen = {key[0]: found for key, found in groups.items() if key[1:] == (WIDTHS[0], FAST_BYTES[1])}
    scale = 560 / max(gap(found["natural"]) for found in chosen.values())
    parts = []
    for line, (layout, found) in enumerate(chosen.items()):
        best = min(found.values(), key=gap)
        top = 50 + 50 * line
        for shift, row, colour in ((0, found["natural"], "#9aa5b1"), (18, best, "#1f6feb")):
            parts.append(
                f'<rect x="160" y="{top + shift}" width="{gap(row) * scale:.1f}" height="16" fill="{colour}"/>'
                f'<text x="{166 + gap(row) * scale:.1f}" y="{top + shift + 13}">{gap(row):.2f} {row["method"]}</text>'
            )
        parts.append(f'<text x="152" y="{top + 22}" text-anchor="end">{layout}</text>')
    case = f"n = {N:,}, d = {WIDTHS[0]}, {FAST_BYTES[1] // 1024} KB"
    title = f"Words moved over the bound, {case}: natural and best order"
    height = 60 + 50 * len(chosen)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}" font-family="sans-serif" font-size="13">'
        f'<rect width="860" height="{height}" fill="white"/>'
        f'<text x="20" y="28" font-size="15">{title}</text>{"".join(parts)}</svg>\n'
    )


def main() -> None:
    if len(sys.argv) > 1:
        results = json.loads((HERE / "results.json").read_text())
    else:
        rows = []
        for row in cases():
            rows.append(row)
            print(row, flush=True)
        made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
        results = {"provenance": made_by, "n": N, "block": BLOCK, "seed": SEED, "rows": rows}
        write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")
    write_atomically(HERE / "answer.md", answer(results["rows"]))
    write_atomically(HERE / "figure.svg", figure(results["rows"]))


if __name__ == "__main__":
    main()
