"""The answer as text: every number in it is formatted from the results of ``run.py``.

    .venv/bin/python studies/planner-speed/answer.py

writes answer.md anew from the results.json that is there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

from attenio.files import write_atomically

HERE = Path(__file__).parent
Row = dict[str, Any]
# What a row is called in the tables, where the results have a shorter name.
NAMES = {
    "window": "window of 1024",
    "no two points alike": "no two points alike: n, d, mask, 64 KB to 64 MB",
    "small memories, no two points alike": (
        "small memories, 2 KB to 128 KB: the tiled products are searched at most points"
    ),
    "models: heads and batches": "models: heads, KV heads and batches",
    "n queries on 41 keys, causal": "n queries on 41 keys, causal, 4 heads a KV head",
}


def paragraph(text: str, first: str = "") -> str:
    return fill(text, 120, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)


def middle(row: Row) -> float:
    return median(row["samples_us"])


def distinct(rows: list[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def size(fast_bytes: int) -> str:
    for unit, factor in (("MB", 2**20), ("KB", 2**10)):
        if fast_bytes % factor == 0:
            return f"{fast_bytes // factor} {unit}"
    return f"{fast_bytes / 1e9:.1f} GB"


def power(n: int) -> str:
    return f"2^{n.bit_length() - 1}"


def table(heads: list[str], rows: Iterator[list[str]], *, last: str = "---:") -> str:
    rule = ["---", *["---:"] * (len(heads) - 2), last]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, *rows)).replace(
        "\n", "\n|" + "|".join(rule) + "|\n", 1
    )


def plans_table(rows: list[Row]) -> str:
    lengths = distinct(rows, "n")[::2]

    def lines() -> Iterator[list[str]]:
        for name in distinct(rows, "workload"):
            cells = [NAMES.get(name, name)]
            for n in lengths:
                found = [middle(row) for row in rows if (row["workload"], row["n"]) == (name, n)]
                cells.append(f"{median(found):.0f} / {max(found):.0f}")
            yield cells

    return table(["workload", f"n = {power(lengths[0])}", *(power(n) for n in lengths[1:])], lines())


def growing_table(title: str, rows: list[Row]) -> str:
    lengths = sorted(distinct(rows, "n"))

    def lines() -> Iterator[list[str]]:
        for name in distinct(rows, "workload"):
            worst = [[middle(row) for row in rows if (row["workload"], row["n"]) == (name, n)] for n in lengths]
            yield [NAMES.get(name, name), *(f"{max(times) / 1e3:.1f}" if times else "" for times in worst)]

    return table([title, f"n = {power(lengths[0])}", *(power(n) for n in lengths[1:])], lines())


def irregular_table(rows: list[Row]) -> str:
    def lines() -> Iterator[list[str]]:
        for name in distinct(rows, "workload"):
            yield [name, *(f"{middle(row) / 1e3:.1f}" for row in rows if row["workload"] == name)]

    return table(["workload", *(size(fast_bytes) for fast_bytes in distinct(rows, "fast_bytes"))], lines())


def sweeps_table(rows: list[Row]) -> str:
    lines = (
        [NAMES.get(row["grid"], row["grid"]), f"{row['points']:,}", ", ".join(f"{s:.1f}" for s in row["seconds"])]
        for row in rows
    )
    heads = ["sweep of a million points, one core", "points", f"seconds ({len(rows[0]['seconds'])} runs)"]
    return table(heads, lines, last="---")


PREDICTION = (
    "**Prediction.** The number of tile sizes that the search looks at depends on the fast memory, on the mask and on"
    " how close two dataflows are, not on n: a tile never has more rows than the memory holds, and counts of a tiling"
    " are closed forms. So the time of a plan should be flat in n from a thousand to a billion, well under a"
    " millisecond where one dataflow wins clearly, and longest where large- and small-cache schedules nearly tie (d ="
    " 256 in 64 KB: M/d² = 0.5, see [crossover](../crossover/answer.md)), because there both have to be counted. A"
    " sweep does the same arithmetic on arrays: we expected 5 to 20 µs a point, and less where heads and batches"
    " repeat a case."
)
WHY = (
    "A tile has no more rows than fit, so what can be tried is bounded by the memory, whatever n is. The time may still"
    " rise until the sequence no longer fits, and where rows of the tables rise that is why.",
    "Among f rows that need no key the best tile is the one that leaves the least remainder r of them. Not every tile"
    " is tried but every r: f - r is taken apart into primes up to its root or the rows that fit, whichever is less,"
    " and about every second number has a divisor in a range from x to 2x, so that few numbers are taken apart.",
    "A tile of stacked requests competes with simple fractions of a request. These are walked through with denominators"
    " that grow only as far as tiles near the largest have to be told apart, and few tiles remain to be counted: what"
    " is left grows with the logarithm of the rows that fit.",
    "The window on 892 keys is searched over rows and keys at once. Its time rises until as many rows without a key as"
    " fit can share a tile with the others, and stays there.",
)


def answer(results: dict[str, list[Row]]) -> str:
    (made_by,), plans, irregular, growing, sweeps = (
        results[name] for name in ("provenance", "plans", "irregular", "growing", "sweeps")
    )
    medians = [middle(row) for row in plans]
    slow, slowest = sum(value >= 1000 for value in medians), max(plans, key=middle)
    cases = len(distinct(plans, "d")) * len(distinct(plans, "fast_bytes"))
    clock = "; seconds of the processor, whatever else the machine did" if made_by.get("clock") == "processor" else ""
    measured = (
        f"**Measured** (`results.json`, made by `run.py`: {len(plans)} combinations of mask, d, memory and n,"
        f" {len(plans[0]['samples_us'])} plans of each, every plan for a new workload object; {made_by['platform']},"
        f" {made_by['cpus']} cores, one used{clock}):"
    )
    widths, memories = distinct(plans, "d"), [size(value) for value in distinct(plans, "fast_bytes")]
    legend = (
        f"Microseconds a plan: the median over d in {{{', '.join(map(str, widths))}}} and fast memories of"
        f" {', '.join(memories)}, and after the stroke the slowest of these {cases}."
    )
    below = f"All {len(medians)} medians are" if slow == 0 else f"{len(medians) - slow} of {len(medians)} medians are"
    findings = (
        "No growth with n over six orders of magnitude. Short sequences are a little *slower* where dataflows tie: with"
        " few tiles ceilings weigh more, so floors rule out less.",
        f"{below} below a millisecond, the largest {max(medians):.0f} µs ({slowest['workload']}, d = {slowest['d']},"
        f" {size(slowest['fast_bytes'])}, n = {power(slowest['n'])}), the middle one {median(medians):.0f} µs.",
    )
    requests, others = ([row for row in growing if ("requests" in row["workload"]) is asked] for asked in (True, False))
    grown = (
        "**Shared prefixes and shapes that are almost all masked.** For these the time once grew with n. Milliseconds a"
        f" plan now, the slowest of {len(distinct(growing, 'fast_bytes'))} memories"
        f" ({', '.join(size(value) for value in distinct(growing, 'fast_bytes'))}; median of"
        f" {len(growing[0]['samples_us'])} plans each; empty where a workload may not be that large: lengths end at"
        " 2^30 and batches at 2^20, so that n requests of n queries end at 2^40 rows):"
    )
    slow_requests, slow_others = (max(map(middle, rows)) / 1e3 for rows in (requests, others))
    left = (
        f"The slowest takes {slow_requests:.1f} ms in the first table and {slow_others:.1f} ms in the second;"
        f" {sum(middle(row) >= 1000 for row in growing)} of {len(growing)} medians are a millisecond or more. Why there"
        " is no term in n:"
    )
    slower = (
        f"**Where it is slower.** Milliseconds a plan (median of {len(irregular[0]['samples_us'])}) where the"
        " description of the mask is long, and the time grows with it. A different document is a problem of its own; a"
        " block-sparse layout may favour any tile, and all are tried."
    )
    parts = [
        "# How fast is the planner, and does it care about n?",
        paragraph(PREDICTION),
        paragraph(measured),
        plans_table(plans),
        paragraph(legend),
        "\n".join(paragraph(text, "- ") for text in findings),
        sweeps_table(sweeps),
        paragraph(
            "The same plans, tiles and ties as one plan at a time: `tests/planning/sweeping` holds them against each"
            " other."
        ),
        paragraph(grown),
        growing_table("requests behind a shared prefix, 4 heads a KV head, d = 128", requests),
        growing_table("few keys or one query", others),
        paragraph(left),
        "\n".join(paragraph(text, "- ") for text in WHY),
        paragraph(slower),
        irregular_table(irregular),
    ]
    return "\n\n".join(parts) + "\n"


def write_answer(results: Path = HERE / "results.json") -> None:
    write_atomically(results.with_name("answer.md"), answer(json.loads(results.read_text())))


if __name__ == "__main__":
    write_answer()
