"""The answer as text: every number in it is formatted from the results of ``run.py``.

    .venv/bin/python studies/large-schedules/answer.py

writes answer.md anew from the results.json that is there.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

from attenio.files import write_atomically

HERE = Path(__file__).parent
Row = dict[str, Any]


def paragraph(text: str, first: str = "") -> str:
    return fill(text, 120, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)


def spread(values: list[float], form: str) -> str:
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def by_game(rows: list[Row], variant: str, *, sliding: bool = False) -> dict[tuple[str, int], Row]:
    """Rows of one game, by graph and red pebbles."""
    return {(r["graph"], r["red"]): r for r in rows if (r["variant"], r["sliding"]) == (variant, sliding)}


def against_hand(row: Row, worst: float) -> str:
    if row["by_hand_words"] is None:
        return " | "
    ratio = f"{row['ratio']:.3f}"
    return f"{row['by_hand_words']:,} | " + (f"**{ratio}**" if row["ratio"] == worst else ratio)


def small_table(rows: list[Row]) -> str:
    lines = [
        "| graph | red | found | by hand | ratio | in the order of the numbers |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    games = by_game(rows, "one-shot")
    worst = max(row["ratio"] or 0 for row in games.values())
    shown = None
    for (graph, red), row in games.items():
        name, shown = ("" if graph == shown else graph), graph
        hand = against_hand(row, worst)
        lines.append(f"| {name} | {red} | {row['words']:,} | {hand} | {row['by_number_words']:,} |")
    return "\n".join(lines)


def findings(rows: list[Row]) -> Iterator[str]:
    once, again = by_game(rows, "one-shot"), by_game(rows, "standard")
    sliding, partial = by_game(rows, "standard", sliding=True), by_game(rows, "partial")
    good = [row for row in once.values() if row["ratio"] is not None and row["ratio"] < 1]
    yield (
        f"In {len(good)} of {sum(row['ratio'] is not None for row in once.values())} cases it moves less than the count"
        " made by hand. The likely reason (not measured) is what it keeps from one tile to the next, and memory that"
        " fixed tiles leave empty."
    )
    poor = [f"{graph} in {red} words" for (graph, red), row in once.items() if (row["ratio"] or 0) > 1.1]
    yield (
        f"More than a tenth above it: {' and '.join(poor)}. Probable reasons, not examined further: no group of rows"
        " fits so few words, so scores would have to be written; and a transform of 32 points fits 34 words only if"
        " both results of a butterfly follow one another, which the order inside a block does not see to."
    )
    assert all(again[game]["words"] == row["words"] for game, row in once.items())
    yield (
        "Recomputation gained nothing on these graphs: the standard game costs the same as the one-shot game in every"
        " row."
    )
    saved = {game: 1 - sliding[game]["words"] / row["words"] for game, row in again.items()}
    worse = {game: partial[game]["words"] / row["words"] - 1 for game, row in once.items()}
    most, worst = max(saved, key=saved.__getitem__), max(worse, key=worse.__getitem__)
    yield (
        f"Sliding saves up to {100 * saved[most]:.1f} % (most on {most[0]} in {most[1]} words). The partial game can do"
        " all that the one-shot game can, yet what is found for it is worse in"
        f" {sum(value > 0 for value in worse.values())} of {len(worse)} rows, at most by {100 * worse[worst]:.1f} %"
        f" ({worst[0]} in {worst[1]} words, {partial[worst]['words']:,}): it has more operations to arrange, and so"
        " gets fewer orders judged."
    )


def large_table(rows: list[Row]) -> str:
    lines = [
        "| graph | vertices | found | by hand | ratio | orders judged | search |"
        " peak memory with the graph built / with the schedule |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['graph']} | {row['vertices']:,} | {row['words']:,} | {against_hand(row, 0)} | {row['orders']} |"
        f" {row['seconds']:.0f} s | {row['peak_gb_with_graph_built']:.2f} / {row['peak_gb_with_schedule']:.2f} GB |"
        for row in rows
    ]
    return "\n".join(lines)


def answer(results: dict[str, list[Row]]) -> str:
    (made_by,), small, large = results["provenance"], results["small"], results["large"]
    asked = (
        "The search sees a bare graph: no names, no sizes of matrices. It was asked to come within a tenth of the best"
        " tiling of a 16 x 16 x 16 product in 64 words. No prediction was written down before the first measurement."
    )
    measured = (
        "**Measured** (`results.json`, made by `run.py`; words moved, one-shot game without sliding; by hand: the best"
        " tiling of the product, the planner's best plan for attention, passes of the largest transforms that fit for"
        " the FFT. A plan counts memory in its own way and keeps no copy while it accumulates, so its count is a"
        " yardstick, not a bound.)"
    )
    (red,) = {row["red"] for row in large}
    million = (
        f"A million vertices, red = {red:,}, {made_by['time_limit_s']:.0f} seconds at most, on {made_by['cpus']} cores"
        f": it judged {spread([row['orders'] for row in large], 'd')} orders, so these counts are what little time"
        " gives. Beside other work it judges fewer, and the FFT, which needs most, may come out twice as dear."
    )
    judged = spread([row["judge_processor_seconds"] for row in large], ".1f")
    memory = (
        "Peak resident memory of a process for each graph, as the system counts it (compiled code allocates behind"
        " Python's back, so that counting Python's allocations would flatter). One order of a million operations is"
        f" judged in {judged} seconds of processor time. The limit is looked at between orders: it is usually kept with"
        " a margin, and can be overrun by one order."
    )
    parts = [
        "# How near does a general search come to schedules made by hand, and what do a million vertices take?",
        paragraph(asked),
        paragraph(measured),
        small_table(small),
        "\n".join(paragraph(text, "- ") for text in findings(small)),
        paragraph(million),
        large_table(large),
        paragraph(memory),
    ]
    return "\n\n".join(parts) + "\n"


def write_answer(folder: Path = HERE) -> None:
    write_atomically(folder / "answer.md", answer(json.loads((folder / "results.json").read_text())))


if __name__ == "__main__":
    write_answer()
