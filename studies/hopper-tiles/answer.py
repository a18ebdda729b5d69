"""Turns results.json into answer.md, and with ``--ship`` into the table that ``attention()`` ranks tiles by."""

import argparse
import json
import statistics
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from attenio.files import write_atomically

HERE = Path(__file__).parent
SHIPPED = HERE.parents[1] / "src" / "attenio" / "kernels" / "hopper" / "tile_times.json"
PROCESSORS = 132  # of an H200


def coefficients(variant: dict[str, Any], n: int, rows: int) -> tuple[float, float]:
    """Row tiles, and key tiles of row tiles, that a block, or cluster of them, computes in a launch at this length."""
    tiles = variant["tiles"]
    cluster = tiles.get("cluster", 1)
    row_tile, programs = 64 * tiles["consumers"] * cluster, PROCESSORS * tiles["blocks"] // cluster
    heads, ends = rows // n, np.arange(n, 0, -row_tile)
    row_tiles = heads * len(ends)
    if not variant["causal"]:
        rounds = -(-row_tiles // programs)
        return float(rounds), float(rounds * -(-n // tiles["key_tile"]))
    return row_tiles / programs, heads * float((-(-ends // tiles["key_tile"])).sum()) / programs


def fitted(variant: dict[str, Any], rows: int) -> dict[str, Any]:
    """Times of a row tile and of a key tile, by least squares of relative errors, and the largest of these."""
    matrix, ones = [], []
    for n, samples in variant["samples_ms"].items():
        measured_us = 1000.0 * statistics.median(samples)
        matrix.append([each / measured_us for each in coefficients(variant, int(n), rows)])
        ones.append(1.0)
    times, *_ = np.linalg.lstsq(np.array(matrix), np.array(ones), rcond=None)
    error = float(np.abs(np.array(matrix) @ times - 1.0).max())
    return {
        "d": variant["d"], "width": variant["width"], "masked": variant["causal"],
        "language": variant["language"], "tiles": variant["tiles"],
        "row_tile_us": round(float(times[0]), 3), "key_tile_us": round(float(times[1]), 4), "error": error,
    }  # fmt: skip


def fits(results: dict[str, Any]) -> list[dict[str, Any]]:
    rows = results["provenance"]["rows"]
    return [fitted(variant, rows) for variant in results["variants"] if "samples_ms" in variant]


def shipped(results: dict[str, Any]) -> str:
    """The table of the package: two times for every variant, and what made them."""
    rows = [{name: value for name, value in fit.items() if name != "error"} for fit in fits(results)]
    lines = ",\n".join(" " + json.dumps(row) for row in rows)
    return f'{{"provenance": {json.dumps(results["provenance"])},\n"variants": [\n{lines}\n]}}\n'


def answer(results: dict[str, Any]) -> str:
    made, rows = results["provenance"], fits(results)
    commits = ", ".join(sorted({variant.get("commit", made["commit"]) for variant in results["variants"]}))
    lines = [
        "# Times of row tiles and key tiles on Hopper",
        "",
        f"{made['device']}, torch {made['torch']}, Triton {made['triton']}, {made['date']}, commits {commits}.",
        "The time of a launch is rounds x (row tile + key tiles x key tile).",
        f"Fitted at n = {made['lengths']} it is off",
        f"by {100 * max(row['error'] for row in rows):.1f} % at most, by"
        f" {100 * statistics.median(row['error'] for row in rows):.1f} % in the median of {len(rows)} variants.",
        "",
        "The fastest for long sequences (least time of a key tile for each row and key), and for a single key tile:",
        "",
        "| d/width | mask | long: consumers x keys | ns for 64 rows x 128 keys | one key tile | ns for its rows |",
        "|---|---|---|---|---|---|",
    ]
    for (d, width, masked), group in groupby(sorted(rows, key=_form), key=_form):
        variants = list(group)
        long, short = min(variants, key=_per_step), min(variants, key=_single)
        lines.append(
            f"| {d}/{width} | {'causal' if masked else 'full'} | {_name(long)} | {1000 * _per_step(long):.0f} |"
            f" {_name(short)} | {1000 * _single(short):.0f} |"
        )
    return "\n".join(lines) + "\n"


def _form(row: dict[str, Any]) -> tuple[int, int, bool]:
    return row["d"], row["width"], row["masked"]


def _per_step(row: dict[str, Any]) -> float:
    """Microseconds of an SM for 64 rows and 128 keys of a long sequence."""
    tiles = row["tiles"]
    return float(row["key_tile_us"] * 128 / tiles["key_tile"] / tiles["consumers"] / tiles["blocks"])


def _single(row: dict[str, Any]) -> float:
    """Microseconds of an SM for 64 rows and 128 keys that are all there is."""
    tiles = row["tiles"]
    time = row["row_tile_us"] + -(-128 // tiles["key_tile"]) * row["key_tile_us"]
    return float(time / tiles["consumers"] / tiles["blocks"])


def _name(row: dict[str, Any]) -> str:
    tiles = row["tiles"]
    turns = ", CUDA C++" if row["language"] == "CUDA C++" else ", in turns" if tiles["ping_pong"] else ""
    blocks = f", {tiles['blocks']} blocks" if tiles["blocks"] > 1 else turns
    blocks += f", clusters of {tiles['cluster']}" if tiles.get("cluster", 1) > 1 else ""
    return f"{tiles['consumers']} x {tiles['key_tile']}{blocks}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ship", action="store_true", help="write the table of the package too")
    asked = parser.parse_args()
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    write_atomically(HERE / "answer.md", answer(results))
    if asked.ship:
        write_atomically(SHIPPED, shipped(results))
