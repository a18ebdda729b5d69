"""How long does a plan of the gradient or of a training step take, and how long do a million points of each take?

    .venv/bin/python studies/gradient-planner-speed/run.py

asks the questions of studies/planner-speed in the other directions, and writes results.json and answer.md beside this
file. A run that was stopped goes on where it was, as long as the code is the same: unfinished.json holds what is done.
"""

import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import SweepGrid, best_plan_for, sweep, training_plan_for
from attenio.workload import Workload

HERE = Path(__file__).parent
UNFINISHED = HERE / "unfinished.json"
SEED = 0  # nothing is drawn at random; said so that nobody has to wonder
DIRECTIONS = ("backward", "training")
REPEATS = 15
SWEEPS = 2
MILLISECOND_US = 1000.0

Row = dict[str, Any]


@cache
def forward_study() -> ModuleType:
    """The study of the forward planner: the same workloads, memories and grids are asked about here."""
    folder = HERE.parent / "planner-speed"
    spec = importlib.util.spec_from_file_location("planner_speed", folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))  # it imports the file beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def samples_us(direction: str, fast_bytes: int, **shape: Any) -> list[float]:
    """Times of plans that share nothing but the code: a new workload for each, and the first two not counted."""
    plan_for = training_plan_for if direction == "training" else best_plan_for
    times = []
    for _ in range(REPEATS + 2):
        workload = Workload(direction=direction, **shape)
        start = time.process_time()
        plan_for(workload, fast_bytes // workload.dtype.bytes)
        times.append(round((time.process_time() - start) * 1e6, 1))
    return times[2:]


def plan_times(direction: str) -> list[Row]:
    rows, asked = [], forward_study()
    cases = product(asked.WORKLOADS.items(), asked.WIDTHS, asked.FAST_BYTES, asked.LENGTHS)
    for (name, kind), d, fast_bytes, n in cases:
        samples = samples_us(direction, fast_bytes, n=n, d=d, **kind)
        rows.append({"workload": name, "n": n, "d": d, "fast_bytes": fast_bytes, "samples_us": samples})
    return rows


def sweep_time(direction: str, grid: SweepGrid) -> list[Row]:
    asked = replace(grid, direction=direction)
    seconds = []
    for _ in range(SWEEPS):
        start = time.process_time()
        result = sweep(asked)
        seconds.append(round(time.process_time() - start, 3))
    planned = int((result.columns["moved_words"] >= 0).sum())
    return [{"points": len(asked), "planned": planned, "seconds": seconds}]


def tasks() -> dict[str, Callable[[], list[Row]]]:
    """Everything that is measured, by name."""
    found: dict[str, Callable[[], list[Row]]] = {}
    for direction in DIRECTIONS:
        found[f"{direction} plans"] = lambda direction=direction: plan_times(direction)
        for name, grid in forward_study().grids().items():
            found[f"{direction} sweep: {name}"] = lambda direction=direction, grid=grid: sweep_time(direction, grid)
    return found


def made_by() -> Row:
    return {
        **asdict(provenance()),
        "seed": SEED,
        "clock": "processor",
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
    }


def measured() -> dict[str, list[Row]]:
    """Every task done, those of a run of the same code that was stopped included."""
    maker = made_by()
    done: dict[str, list[Row]] = {}
    if UNFINISHED.exists():
        kept = json.loads(UNFINISHED.read_text(encoding="utf-8"))
        done = kept["done"] if kept["made_by"] == maker else {}
    for name, measure in tasks().items():
        if name not in done:
            print(name, flush=True)
            done[name] = measure()
            write_atomically(UNFINISHED, json.dumps({"made_by": maker, "done": done}))
    return done


def show_n(n: int) -> str:
    return f"2^{n.bit_length() - 1}"


def distinct(rows: list[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def medians(rows: list[Row]) -> list[tuple[float, Row]]:
    return [(median(row["samples_us"]), row) for row in rows]


def plan_table(rows: list[Row]) -> str:
    lengths = distinct(rows, "n")[::2]
    lines = [
        "| workload | " + " | ".join(f"n = {show_n(n)}" for n in lengths) + " |",
        "|---" + "|---:" * len(lengths) + "|",
    ]
    for name in distinct(rows, "workload"):
        cells = []
        for n in lengths:
            found = [value for value, row in medians(rows) if (row["workload"], row["n"]) == (name, n)]
            cells.append(f"{median(found):.0f} / {max(found):.0f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def in_words(rows: list[Row]) -> str:
    every = medians(rows)
    slow = [row for value, row in every if value >= MILLISECOND_US]
    largest = max(value for value, _ in every)
    middle = median(value for value, _ in every)
    text = f"{len(every)} medians: the middle one is {middle:.0f} µs, the largest {largest:.0f} µs; "
    if not slow:
        return text + "all are below a millisecond."
    where = sorted({(row["d"], row["fast_bytes"] // 1024) for row in slow})
    places = ", ".join(f"d = {d} in {size:,} KB" for d, size in where)
    return text + f"{len(slow)} are not below a millisecond, all of them at {places}."


def sweep_table(done: dict[str, list[Row]]) -> str:
    lines = ["| sweep, one core | points | backward (s) | training (s) |", "|---|---:|---|---|"]
    sweeps = [name.partition(" sweep: ")[2] for name in done if name.startswith("backward sweep: ")]
    for name in sweeps:
        found = [done[f"{direction} sweep: {name}"][0] for direction in DIRECTIONS]
        times = [", ".join(f"{value:.1f}" for value in row["seconds"]) for row in found]
        lines.append(f"| {name} | {found[0]['points']:,} | {times[0]} | {times[1]} |")
    return "\n".join(lines)


def answer(done: dict[str, list[Row]]) -> str:
    """The answer as text: every number in it is formatted from the results."""
    (maker,) = done["provenance"]
    backward, training = (done[f"{direction} plans"] for direction in DIRECTIONS)
    plans_each = len(backward[0]["samples_us"])
    clock = "; seconds of the processor, whatever else the machine did" if maker.get("clock") == "processor" else ""
    return f"""# How fast is the planner of gradients and of training steps?

**Prediction.** A gradient has six dataflows that may move the least, and three of them end in products with tiles of
their own. Floors rule out most of them, so that a plan should take two or three times as long as a forward one, and
depend on n as little; longest where a fast memory of about d²/2 words lets the dataflows for small memories tie. A
training step is a forward and a backward plan, and where its floor does not rule that out, the two passes that save
probabilities as well.

**Measured** (`results.json`, made by `run.py`, attenio {maker["version"]}, {maker["date"]}): the workloads, memories
and lengths of [planner-speed](../planner-speed/answer.md), {plans_each} plans of each, every plan for a new workload
object{clock}. Microseconds a plan: the median over d and fast memories, and after the stroke the slowest of them.

## Backward

{plan_table(backward)}

{in_words(backward)}

## Training step

{plan_table(training)}

{in_words(training)}

## A million points

{sweep_table(done)}

Seconds of every run. The same plans, tiles and ties as one plan at a time: `tests/planning/sweeping`
holds them against each other.
"""


def one_row_a_line(tables: dict[str, list[Row]]) -> str:
    parts = []
    for name, rows in tables.items():
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    done = measured()
    results = {"provenance": [made_by()], **done}
    write_atomically(HERE / "results.json", one_row_a_line(results))
    write_atomically(HERE / "answer.md", answer(results))
    UNFINISHED.unlink()
    print(in_words(done["backward plans"]))
    print(in_words(done["training plans"]))
    print(sweep_table(done))


if __name__ == "__main__":
    main()
