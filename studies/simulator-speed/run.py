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
DATAFLOWS = (Dataflow.STANDARD, Dataflow.FLAT, Dataflow.FLASH_ATTENTION_2, Dataflow.ATTENIO)
EVENT_N = 4096
PERIODIC_N = (4096, 131072, 2**24)
REPEATS = 3


def sample(dataflow: Dataflow, n: int, *, by_events: bool, repeat: int) -> dict[str, object]:
    """Plan, program and timeline, from nothing; the timeline alone is also timed."""
    workload = Workload(n=n, d=64)
    start = time.process_time()
    program = program_of(plan_for(workload, MACHINE, dataflow), Hardware.of(MACHINE))
    built = time.process_time()
    timeline = (event_timeline if by_events else periodic_timeline)(program)
    end = time.process_time()
    return {
        "dataflow": dataflow.value,
        "n": n,
        "mode": "events" if by_events else "periodic",
        "repeat": repeat,
        "steps": program.steps,
        "cycles": float(timeline.cycles),
        "exact_cycles": str(timeline.cycles),
        "timeline_seconds": end - built,
        "seconds": end - start,
    }


def answer(rows: list[dict[str, object]]) -> str:
    lines = [
        "# How fast is the simulator?",
        "",
        "d = 64 on attenio-512k; medians of processor time; written by run.py.",
        "",
    ]
    lines += [
        "| dataflow | n | mode | steps | cycles | CPU seconds | cycles simulated a second |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    groups = dict.fromkeys((row["dataflow"], row["n"], row["mode"]) for row in rows)
    for key in groups:
        same = [row for row in rows if (row["dataflow"], row["n"], row["mode"]) == key]
        seconds = median(row["seconds"] for row in same)
        lines.append(
            f"| {key[0]} | {key[1]:,} | {key[2]} | {same[0]['steps']:,} | {same[0]['cycles']:,.0f} | {seconds:.4f} |"
            f" {same[0]['cycles'] / seconds:.3g} |"
        )
    equal = all(
        len({row["exact_cycles"] for row in rows if (row["dataflow"], row["n"]) == (dataflow.value, EVENT_N)}) == 1
        for dataflow in DATAFLOWS
    )
    lines += ["", f"At n = {EVENT_N:,} the two modes {'agree exactly' if equal else 'DISAGREE'} on every dataflow."]
    return "\n".join(lines) + "\n"


def main() -> None:
    rows = []
    for dataflow in DATAFLOWS:
        for repeat in range(REPEATS):
            rows.append(sample(dataflow, EVENT_N, by_events=True, repeat=repeat))
            rows += [sample(dataflow, n, by_events=False, repeat=repeat) for n in PERIODIC_N]
    made_by = {
        **asdict(provenance()),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    write_atomically(HERE / "results.json", json.dumps({"provenance": made_by, "samples": rows}, indent=1) + "\n")
    write_atomically(HERE / "answer.md", answer(rows))


if __name__ == "__main__":
    main()
