"""The answer of the map, from its results: the worst and the typical gap of every part of it, before and after."""

import json
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
Row = dict[str, Any]
# Parts of the map by fast memory, in units of d² up to nd/8 and of nd from there on.
PARTS = (
    ("below d²/8", lambda row: _squares(row) <= 1 / 8),
    ("d²/8 to 0.7 d²", lambda row: 1 / 8 < _squares(row) < 0.7),
    ("0.7 d² to 2.8 d²", lambda row: 0.7 <= _squares(row) < 2.8),
    ("2.8 d² to 4 d²", lambda row: 2.8 <= _squares(row) < 4),
    ("4 d² to 12 d²", lambda row: 4 <= _squares(row) < 12),
    ("from 12 d² on", lambda row: _squares(row) >= 12),
)
GOALS = (
    ("forward, equal widths, from 2.8 d² on", 1.10, lambda r: _plain(r, "forward") and _squares(r) >= 2.8),
    ("forward, equal widths, everywhere", 1.40, lambda r: _plain(r, "forward")),
    ("windows, forward, from M = dW on", 1.15, lambda r: r["direction"] == "forward" and _windows(r) >= 1),
    ("forward, unequal widths", 1.25, lambda r: r["direction"] == "forward" and r["d"] != r["value_dim"]),
    ("backward, equal widths, from 4 d² on", 1.25, lambda r: _plain(r, "backward") and _squares(r) >= 4),
    ("backward, equal widths, below 4 d²", 1.7, lambda r: _plain(r, "backward") and _squares(r) < 4),
    ("training, equal widths, from 12 d² on", 1.3, lambda r: _plain(r, "training") and _squares(r) >= 12),
)


def _squares(row: Row) -> float:
    return float(row["fast_words"] / row["d"] ** 2)


def _windows(row: Row) -> float:
    """The fast memory over dW, zero without a window."""
    return float(row["fast_words"] / (row["d"] * row["window"])) if row["window"] else 0.0


def _plain(row: Row, direction: str) -> bool:
    return bool(row["direction"] == direction and row["d"] == row["value_dim"])


def rows_of(results: dict[str, Any]) -> list[Row]:
    """Rows with names, and the gap where there is a plan."""
    found = [dict(zip(results["columns"], values, strict=True)) for values in results["rows"]]
    for row in found:
        row["gap"] = None if row["moved_words"] is None else row["moved_words"] / row["bound_words"]
    return found


def before() -> dict[str, Any]:
    """The results at the commit before."""
    return dict(json.loads((HERE / "before.json").read_text(encoding="utf-8")))


def answer(results: dict[str, Any]) -> str:
    old, new = rows_of(before()), rows_of(results)
    made, first = results["provenance"], before()["provenance"]
    lines = ["# How far from what is proven do plans run?", ""]
    lines += [f"{len(new):,} points: forward, backward and training; dense, causal and windows of n/16 and n/4 keys;"]
    lines += ["n = 1K, 8K, 64K; d = 16, 64, 128 and eight pairs of unequal widths; fast memories from three words to"]
    lines += [f"2nd. Before: commit {first['commit']}; after: commit {made['commit']}. Written by run.py.", ""]
    lines += ["A gap is the words of the best plan over the strongest bound for ordinary products.", ""]
    lines += _goals(old, new) + _whole_rows(new) + _parts(old, new) + _worst(new) + _winners(new)
    return "\n".join(lines) + "\n"


def _gaps(rows: list[Row], chosen: Any) -> list[float]:
    return sorted(row["gap"] for row in rows if row["gap"] is not None and chosen(row))


def _goals(old: list[Row], new: list[Row]) -> list[str]:
    lines = ["## Goals", "", "| part of the map | goal | points | within it before | after | worst before | after |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|"]
    for name, goal, chosen in GOALS:
        first, last = _gaps(old, chosen), _gaps(new, chosen)
        within = [f"{sum(gap <= goal for gap in gaps) / len(gaps):.0%}" for gaps in (first, last)]
        lines.append(
            f"| {name} | {goal} | {len(last)} | {within[0]} | {within[1]} | {first[-1]:.2f} | {last[-1]:.2f} |"
        )
    return [*lines, ""]


def _whole_rows(new: list[Row]) -> list[str]:
    """Dense forward points at which fast memory holds half of the rows or more, beside the bound for whole rows."""
    lines = ["## Schedules of whole rows and keys, dense, forward, fast memory for half of the rows or more", ""]
    lines += [
        "The best plan over the larger of the ordinary bound and `row-passes`, which binds schedules that move whole"
    ]
    lines += [
        "rows and keys: what is left is the price of rows that have statistics and come in whole numbers. Plans with"
    ]
    lines += ["values in groups of columns, or that give way to outputs, move parts of rows, and may be below it.", ""]
    rows = [r for r in new if r["row_passes_words"] is not None and r["gap"] is not None]
    rows = [r for r in rows if 2 * r["fast_words"] >= r["n"] * (r["d"] + r["value_dim"])]
    lines += [
        "| widths | points | gap, ordinary: median, worst | with row passes: median, worst |",
        "|---|--:|--:|--:|",
    ]
    for name, chosen in (("equal", True), ("unequal", False)):
        some = [r for r in rows if (r["d"] == r["value_dim"]) == chosen]
        ordinary = sorted(r["gap"] for r in some)
        whole = sorted(r["moved_words"] / max(r["bound_words"], r["row_passes_words"]) for r in some)
        cells = [f"{median(gaps):.2f}, {gaps[-1]:.2f}" for gaps in (ordinary, whole)]
        lines.append(f"| {name} | {len(some)} | {cells[0]} | {cells[1]} |")
    return [*lines, ""]


def _parts(old: list[Row], new: list[Row]) -> list[str]:
    lines = ["## By direction, mask and fast memory, equal widths: median and worst gap", ""]
    lines += ["| direction | mask | fast memory | points | before | after |", "|---|---|---|--:|--:|--:|"]
    for direction in ("forward", "backward", "training"):
        for mask in ("dense", "causal", "window"):
            for name, inside in PARTS:

                def chosen(row: Row) -> bool:
                    return _plain(row, direction) and row["mask"] == mask and inside(row)  # noqa: B023

                both = [_gaps(rows, chosen) for rows in (old, new)]
                cells = [f"{median(gaps):.2f}, {gaps[-1]:.2f}" for gaps in both]
                lines.append(f"| {direction} | {mask} | {name} | {len(both[1])} | {cells[0]} | {cells[1]} |")
    lines += ["", "## Unequal widths, dense", ""]
    lines += ["| direction | d | dv | points | before | after |", "|---|--:|--:|--:|--:|--:|"]
    kinds = sorted({(r["direction"], r["d"], r["value_dim"]) for r in new if r["d"] != r["value_dim"]}, reverse=True)
    for direction, d, width in kinds:

        def chosen_widths(row: Row) -> bool:
            return (row["direction"], row["d"], row["value_dim"]) == (direction, d, width)  # noqa: B023

        both = [_gaps(rows, chosen_widths) for rows in (old, new)]
        cells = [f"{median(gaps):.2f}, {gaps[-1]:.2f}" for gaps in both]
        lines.append(f"| {direction} | {d} | {width} | {len(both[1])} | {cells[0]} | {cells[1]} |")
    return [*lines, ""]


def _worst(new: list[Row]) -> list[str]:
    lines = ["## The widest gaps left", "", "| direction | mask | n | d | dv | M | gap | plan | bound |"]
    lines += ["|---|---|--:|--:|--:|--:|--:|---|---|"]
    for direction in ("forward", "backward", "training"):
        rows = [row for row in new if row["direction"] == direction and row["gap"] is not None]
        for row in sorted(rows, key=lambda row: -row["gap"])[:4]:
            mask = f"window:{row['window']}" if row["window"] else row["mask"]
            cells = [direction, mask, row["n"], row["d"], row["value_dim"], f"{row['fast_words']:,}"]
            cells += [f"{row['gap']:.2f}", row["dataflow"], row["theorem"]]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return [*lines, ""]


def _winners(new: list[Row]) -> list[str]:
    lines = ["## Who plans and who bounds, of all points", "", "| direction | dataflow | points |", "|---|---|--:|"]
    for direction in ("forward", "backward"):
        names = [row["dataflow"] for row in new if row["direction"] == direction and row["dataflow"]]
        lines += [f"| {direction} | {name} | {names.count(name)} |" for name in sorted(set(names))]
    lines += ["", "| direction | theorem | points |", "|---|---|--:|"]
    for direction in ("forward", "backward", "training"):
        theorems = [row["theorem"] for row in new if row["direction"] == direction]
        lines += [f"| {direction} | {name} | {theorems.count(name)} |" for name in sorted(set(theorems))]
    return lines
