"""Where does the AttenIO accelerator stop being best, what would a planner do there, and is there a better design?

    .venv/bin/python studies/where-attenio-stops-being-best/run.py

writes results.json and answer.md beside this file. Everything is simulated, so there is nothing to repeat; a minute or
two on one core. Bandwidth is changed by channels of 8 GB/s, as HBM stacks are.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from attenio.accelerator import simulate, simulate_plan
from attenio.accelerator.designs import Designs, Tiling, attenio_runs, machine_of
from attenio.catalogue import machine_named
from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.machine import Machine
from attenio.measurement.provenance import provenance
from attenio.planning import Dataflow, Tiles, best_plan, plan_with
from attenio.workload import Workload

HERE = Path(__file__).parent
MACHINE = machine_named("attenio-512k")
N = 32768
WIDTHS = (64, 128)
OTHERS = (Dataflow.FLASH_ATTENTION_2, Dataflow.FLAT, Dataflow.STANDARD)
AXES = {
    "channels": (1, 2, 4, 8, 16, 32, 64),
    "exp_modules": (4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "cache_bytes": tuple(1024 * kilobytes for kilobytes in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 8192)),
}
KEY_TILES = (1, 2, 4, 8, 16, 32, 64)
GRID = {
    "pe_lines": (32, 40, 48, 56, 64, 72, 80, 96, 128),
    "macs_per_line": tuple(range(16, 68, 4)),
    "exp_modules": tuple(range(16, 272, 16)),
    "cache_bytes": tuple(1024 * kilobytes for kilobytes in (*range(64, 800, 32), 264, 528)),
}

Row = dict[str, Any]


def own(**sizes: int) -> dict[str, int]:
    return Designs.product(MACHINE).sizes(0) | sizes


def schedules(sizes: dict[str, int], d: int, key_tiles: tuple[int, ...]) -> Iterator[Row]:
    """AttenIO's program with several keys at a time, each with the tile of queries that is fastest."""
    for keys in key_tiles:
        designs = Designs.product(MACHINE, key_tile=keys, **{name: (size,) for name, size in sizes.items()})
        try:
            runs = attenio_runs(designs, Workload(n=N, d=d), Tiling.FASTEST)
        except DoesNotFit:
            continue
        yield {
            "key_tile": keys,
            "query_tile": int(runs.query_tile[0]),
            "cycles": float(runs.ticks[0] / runs.ticks_per_cycle),
            "area_mm2": float(designs.costs(d)[0][0]),
        }


def edges() -> Iterator[Row]:
    for d, (axis, values) in product(WIDTHS, AXES.items()):
        for value in values:
            sizes, workload = own(**{axis: value}), Workload(n=N, d=d)
            machine = machine_of(MACHINE, sizes, d)
            free = tuple(keys for keys in KEY_TILES if keys * d <= 128)
            yield {
                "d": d,
                "axis": axis,
                "at": value,
                "attenio": cycles(workload, machine, Dataflow.ATTENIO),
                **{each.value: cycles(workload, machine, each) for each in OTHERS},
                "same_hardware": min(schedules(sizes, d, free), key=by_cycles, default=None),
                "larger_buffer": min(schedules(sizes, d, KEY_TILES), key=by_cycles, default=None),
                "fewest_words": fewest_words(workload, machine),
            }


def cycles(workload: Workload, machine: Machine, dataflow: Dataflow) -> float | None:
    try:
        return float(simulate(workload, machine, dataflow=dataflow).cycles)
    except DoesNotFit:
        return None


def fewest_words(workload: Workload, machine: Machine) -> Row:
    plan = best_plan(workload, machine)
    return {"dataflow": plan.dataflow.value, "tiles": str(plan.tiles), "moved_words": plan.moved_words}


def by_cycles(row: Row) -> float:
    return float(row["cycles"])


def key_tiles() -> Iterator[Row]:
    """Several keys at a time on the published parts, the KV buffer as large as they need."""
    for d in WIDTHS:
        workload = Workload(n=N, d=d)
        published = simulate(workload, MACHINE)
        for row in schedules(own(), d, KEY_TILES):
            machine = machine_of(MACHINE, own(), d * row["key_tile"])
            tiles = Tiles.of(query_tile=row["query_tile"], key_tile=row["key_tile"])
            done = simulate_plan(plan_with(workload, machine, Dataflow.ATTENIO, tiles), machine)
            yield {
                "d": d,
                **row,
                "speedup": float(published.cycles / done.cycles),
                "words": done.moved_words / published.moved_words,
                "energy": done.energy.total_joules / published.energy.total_joules,
                "exp_utilisation": done.exp_utilisation,
                "pe_utilisation": done.pe_utilisation,
            }


def equal_budget() -> Iterator[Row]:
    """The fastest designs of no more area, and of no more area and power, on average over both widths."""
    base = Designs.product(MACHINE)
    (area,), (watts,) = base.costs(1)
    before = {d: float(attenio_runs(base, Workload(n=N, d=d)).ticks[0]) for d in WIDTHS}
    for keys in KEY_TILES[:5]:
        grid = Designs.product(MACHINE, key_tile=keys, channels=(16,), **GRID)
        areas, powers = grid.costs(max(WIDTHS))
        for name, allowed in (("area", areas <= area), ("area and power", (areas <= area) & (powers <= watts))):
            within = grid.of(allowed & (grid.macs >= 512))
            runs = {d: attenio_runs(within, Workload(n=N, d=d), Tiling.FASTEST) for d in WIDTHS}
            mean = np.exp(sum(np.log(before[d] / runs[d].ticks) for d in WIDTHS) / len(WIDTHS))
            best = int(mean.argmax())
            where = np.flatnonzero(allowed & (grid.macs >= 512))[best]
            yield {
                "budget": name,
                "key_tile": keys,
                "designs": len(within),
                **within.sizes(best),
                "area_mm2": float(areas[where]),
                "power_mw": 1e3 * float(powers[where]),
                "speedup": {str(d): before[d] / float(runs[d].ticks[best]) for d in WIDTHS},
                "query_tile": {str(d): int(runs[d].query_tile[best]) for d in WIDTHS},
                "mean_speedup": float(mean[best]),
            }


UNITS = {"channels": "GB/s", "exp_modules": "EXP modules", "cache_bytes": "cache (KB)"}


def shown(axis: str, value: int) -> int:
    return {"channels": 8 * value, "exp_modules": value, "cache_bytes": value // 1024}[axis]


def said(row: Row) -> str:
    """The varied part in a sentence."""
    return f"{shown(row['axis'], row['at']):,} " + {"cache_bytes": "KB of cache"}.get(row["axis"], UNITS[row["axis"]])


def answer(results: dict[str, list[Row]]) -> str:
    lines = ["# Where does the AttenIO accelerator stop being best?", ""]
    lines += [f"Dense attention, n = {N:,}, parts of attenio-512k except the one that is varied; written by run.py."]
    lines += [*edge_lines(results["edges"]), *key_lines(results["key_tiles"]), *budget_lines(results["equal_budget"])]
    return "\n".join(lines) + "\n"


def edge_lines(rows: list[Row]) -> list[str]:
    lines = ["", "## Cycles per score as one part shrinks or grows", ""]
    lines += [
        "Same hardware: AttenIO's program with the fastest tiles that fit the published 0.25 KB KV buffer. Larger"
    ]
    lines += ["buffer: with as many keys at a time as pay. A dash: not even one row fits. Bandwidth is that of more or"]
    lines += ["fewer channels of 8 GB/s (`accelerator-ablation` has 16 slower ones, of which a key uses four).", ""]
    lines += ["| d | varied | at | AttenIO | FlashAttention-2 | FLAT | standard | same hardware | (rows x keys)"]
    lines[-1] += " | larger buffer | (rows x keys) |"
    lines += ["|--:|---|--:|--:|--:|--:|--:|--:|---|--:|---|"]
    for row in rows:
        named = [row[name] for name in ("attenio", *(each.value for each in OTHERS))]
        cells = [per_score(value) for value in named]
        for name in ("same_hardware", "larger_buffer"):
            found = row[name]
            cells.append(per_score(None if found is None else found["cycles"]))
            cells.append("-" if found is None else f"{found['query_tile']} x {found['key_tile']}")
        at = f"{shown(row['axis'], row['at']):,}"
        lines.append(f"| {row['d']} | {UNITS[row['axis']]} | {at} | " + " | ".join(cells) + " |")
    return [*lines, *beaten_lines(rows), *planner_lines(rows)]


def beaten_lines(rows: list[Row]) -> list[str]:
    lines = ["", "AttenIO as published is beaten by another dataflow at:", ""]
    for row in rows:
        others = {each.value: row[each.value] for each in OTHERS if row[each.value] is not None}
        first = min(others, key=lambda name: others[name], default=None)
        if first is None or (row["attenio"] is not None and row["attenio"] <= others[first]):
            continue
        times = "" if row["attenio"] is None else f", {row['attenio'] / others[first]:.2f} times as fast"
        mended = row["larger_buffer"]
        again = mended is not None and mended["cycles"] <= others[first]
        lines.append(
            f"- d = {row['d']}, {said(row)}: {first}{times};"
            f" with several keys at a time AttenIO {'is ahead again' if again else 'stays behind'}"
        )
    return lines if len(lines) > 3 else ["", "No other dataflow is faster at any of these points."]


def planner_lines(rows: list[Row]) -> list[str]:
    lines = ["", "## What the planner would do differently", ""]
    plans = dict.fromkeys((row["d"], row["fewest_words"]["dataflow"]) for row in rows)
    chosen = ", ".join(sorted({name for _, name in plans}))
    lines += [
        f"For the fewest words it chooses {chosen} at these points. For the fewest cycles it would leave AttenIO's"
    ]
    lines += ["tile rule where words are hidden anyway:"]
    faster = [row for row in rows if row["attenio"] is not None and row["same_hardware"] is not None]
    gains = [row["attenio"] / row["same_hardware"]["cycles"] for row in faster]
    top = max(range(len(gains)), key=gains.__getitem__)
    many = sum(gain > 1.005 for gain in gains)
    row = faster[top]
    lines += [f"on {many} of {len(gains)} machines other tiles on the same hardware are at least 0.5 % faster, most at"]
    lines += [
        f"d = {row['d']}, {said(row)}:"
        f" {row['same_hardware']['query_tile']} rows x {row['same_hardware']['key_tile']} keys,"
        f" {gains[top]:.2f} times as fast."
    ]
    return lines


def key_lines(rows: list[Row]) -> list[str]:
    lines = ["", "## Several keys at a time", ""]
    lines += [
        "One key at a time moves the fewest words, but rescales every row at every key: two exponentials a score."
    ]
    lines += [
        "With b keys it is 1 + 1/b, but the exponentials wait until the largest of b scores is known, a cycle more for"
    ]
    lines += ["each key (fewer where MACs share a row). The KV buffer must hold the keys; 0.25 KB are two of width 64."]
    lines += [""]
    lines += ["| d | keys | rows | area (mm²) | speedup | words | energy | PE busy | EXP busy |"]
    lines += ["|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        lines.append(
            f"| {row['d']} | {row['key_tile']} | {row['query_tile']} | {row['area_mm2']:.2f} | {row['speedup']:.3f} |"
            f" {row['words']:.2f} | {row['energy']:.3f} | {row['pe_utilisation']:.1%} | {row['exp_utilisation']:.1%} |"
        )
    return [*lines, "", "Speedup, words and energy are over the published program on the published machine."]


def budget_lines(rows: list[Row]) -> list[str]:
    lines = ["", "## A better design at equal area", ""]
    lines += [
        "The best geometric mean over both widths among the designs of a grid of lines, MACs, EXP modules and caches,"
    ]
    lines += ["at 128 GB/s; a line for each number of keys at a time.", ""]
    lines += ["| no more | keys | lines x MACs | EXP | cache (KB) | mm² | mW | speedup d=64 | d=128 | mean |"]
    lines += ["|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        lines.append(
            f"| {row['budget']} | {row['key_tile']} | {row['pe_lines']} x {row['macs_per_line']} | {row['exp_modules']}"
            f" | {row['cache_bytes'] // 1024} | {row['area_mm2']:.2f} | {row['power_mw']:.0f} |"
            f" {row['speedup']['64']:.3f} | {row['speedup']['128']:.3f} | {row['mean_speedup']:.3f} |"
        )
    for name in dict.fromkeys(row["budget"] for row in rows):
        best = max((row for row in rows if row["budget"] == name), key=lambda row: row["mean_speedup"])
        lines += ["", f"With no more {name}: {best['pe_lines']} lines of {best['macs_per_line']} MACs,"]
        lines[-1] += f" {best['exp_modules']} EXP modules, {best['cache_bytes'] // 1024} KB of cache and"
        lines[-1] += f" {best['key_tile']} keys at a time are {best['mean_speedup']:.2f} times as fast"
        lines[-1] += f" ({best['area_mm2']:.2f} mm², {best['power_mw']:.0f} mW)."
    return lines


def per_score(value: float | None) -> str:
    return "-" if value is None else f"{value / N**2:.4f}"


def main() -> None:
    results = {"edges": list(edges()), "key_tiles": list(key_tiles()), "equal_budget": list(equal_budget())}
    assert all(math.isfinite(row["mean_speedup"]) for row in results["equal_budget"])
    parts = [f'"provenance": [\n{json.dumps(asdict(provenance()))}\n]']
    for name, rows in results.items():
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]")
    write_atomically(HERE / "results.json", "{\n" + ",\n".join(parts) + "\n}\n")
    write_atomically(HERE / "answer.md", answer(results))
    print(answer(results))


if __name__ == "__main__":
    main()
