"""How fast is the simulator, event by event and in the periodic mode, and does the latter grow with n?

    .venv/bin/python studies/simulator-speed/run.py

writes results.json and answer.md beside this file: every sample, and what made it.
"""

import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median

from attenio.accelerator import Hardware, event_timeline, periodic_timeline, plan_for, program_of
from attenio.catalogue import machine_named
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.planning import Dataflow
from attenio.workload import Workload

HERE = Path(__file__).parent
MACHINE = machine_named("attenio-512k")
DATAFLOWS = (
    Dataflow.STANDARD,
    Dataflow.FLAT,
    Dataflow.FLASH_ATTENTION_2,
    Dataflow.ATTENIO,
    Dataflow.KEY_STATIONARY,  # the gradient
)
MASKS = ("dense", "causal")
EVENT_N = 4096
PERIODIC_N = (4096, 131072, 2**24)
REPEATS = 3
# widths that share many factors with the array, and widths that share none
WIDTHS = sorted({*range(8, 513, 8), 1, 2, 3, 4, 5, 7, 9, 11, 13, 17, 19, 23, 31, 61, 127, 255, 333, 511})
KV_WORDS = MACHINE.accelerator.kv_buffer_bytes // 2 if MACHINE.accelerator else 0


def sample(case: tuple[Dataflow, str, int, int], *, by_events: bool, repeat: int) -> dict[str, object]:
    """Plan, program and timeline, from nothing; the timeline alone is also timed."""
    dataflow, mask, n, d = case
    workload = Workload(n=n, d=d, mask=mask, direction=dataflow.direction)
    start = time.process_time()
    program = program_of(plan_for(workload, MACHINE, dataflow), Hardware.of(MACHINE))
    built = time.process_time()
    timeline = (event_timeline if by_events else periodic_timeline)(program)
    end = time.process_time()
    return {
        "dataflow": dataflow.value,
        "mask": mask,
        "n": n,
        "d": d,
        "mode": "events" if by_events else "periodic",
        "repeat": repeat,
        "steps": program.steps,
        "cycles": float(timeline.cycles),
        "exact_cycles": str(timeline.cycles),
        "timeline_seconds": end - built,
        "seconds": end - start,
    }


def at_width_64(rows: list[dict[str, object]]) -> list[str]:
    lines = [
        "| dataflow | mask | n | mode | steps | cycles | CPU seconds | cycles simulated a second |",
        "|---|---|--:|---|--:|--:|--:|--:|",
    ]
    names = ("dataflow", "mask", "n", "mode")
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        same = [row for row in rows if tuple(row[name] for name in names) == key]
        seconds = median(row["seconds"] for row in same)
        lines.append(
            f"| {key[0]} | {key[1]} | {key[2]:,} | {key[3]} | {same[0]['steps']:,} | {same[0]['cycles']:,.0f} |"
            f" {seconds:.4f} | {same[0]['cycles'] / seconds:.3g} |"
        )
    return lines


def every_width(rows: list[dict[str, object]]) -> list[str]:
    lines = [
        "| dataflow | mask | n | widths | median (s) | longest (s) | at d | longest from d = 24 (s) |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    names = ("dataflow", "mask", "n")
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        same = [row for row in rows if tuple(row[name] for name in names) == key]
        longest = max(same, key=lambda row: row["seconds"])
        wide = max(row["seconds"] for row in same if row["d"] >= 24)
        lines.append(
            f"| {key[0]} | {key[1]} | {key[2]:,} | {len(same)} | {median(row['seconds'] for row in same):.4f} |"
            f" {longest['seconds']:.3f} | {longest['d']} | {wide:.3f} |"
        )
    return lines


def answer(results: dict[str, list[dict[str, object]]]) -> str:
    rows, swept = results["samples"], results["widths"]
    cases = [(dataflow.value, mask, EVENT_N) for dataflow in DATAFLOWS for mask in MASKS]
    found = {
        case: {row["exact_cycles"] for row in rows if (row["dataflow"], row["mask"], row["n"]) == case}
        for case in cases
    }
    equal = all(len(cycles) == 1 for cycles in found.values())
    return "\n".join(
        [
            "# How fast is the simulator?",
            "",
            "attenio-512k; medians of processor time for plan, program and timeline, from nothing; written by run.py.",
            "",
            "## Event by event and periodic, d = 64",
            "",
            *at_width_64(rows),
            "",
            f"At n = {EVENT_N:,} the two modes {'agree exactly' if equal else 'DISAGREE'} on every dataflow and mask.",
            "",
            "## Every width",
            "",
            "The periodic mode once at every width from 8 to 512 in steps of 8, and at some that share no factor with",
            f"the array; AttenIO up to {KV_WORDS}, the widest key that the KV buffer holds.",
            "",
            *every_width(swept),
            "",
        ]
    )


def main() -> None:
    rows, swept = [], []
    for dataflow in DATAFLOWS:
        for mask in MASKS:
            for repeat in range(REPEATS):
                rows.append(sample((dataflow, mask, EVENT_N, 64), by_events=True, repeat=repeat))
                rows += [sample((dataflow, mask, n, 64), by_events=False, repeat=repeat) for n in PERIODIC_N]
    for dataflow in DATAFLOWS:
        for mask in MASKS:
            for n in PERIODIC_N[1:]:
                widths = [d for d in WIDTHS if dataflow is not Dataflow.ATTENIO or d <= KV_WORDS]
                swept += [sample((dataflow, mask, n, d), by_events=False, repeat=0) for d in widths]
    made_by = {
        **asdict(provenance()),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    found = {"provenance": made_by, "samples": rows, "widths": swept}
    write_atomically(HERE / "results.json", json.dumps(found, indent=1) + "\n")
    write_atomically(HERE / "answer.md", answer(found))


if __name__ == "__main__":
    main()
