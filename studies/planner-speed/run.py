"""How long does one plan take, does it grow with n, and how long do a million points take?

    .venv/bin/python studies/planner-speed/run.py

writes results.json beside this file, or the file that is named: every sample, and what made it; and answer.md beside
the results.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
from answer import write_answer

from attenio.files import write_atomically
from attenio.masks import BlockSparse, Documents, SharedPrefix
from attenio.measurement.provenance import provenance
from attenio.planning import SweepGrid, best_plan_for, sweep
from attenio.workload import Workload

HERE = Path(__file__).parent
SEED = 0  # nothing is drawn at random; said so that nobody has to wonder

LENGTHS = [2**k for k in range(10, 31, 2)]
WIDTHS = [64, 128, 256]
FAST_BYTES = [64 * 2**10, 512 * 2**10, 50 * 2**20]
WORKLOADS = {
    "dense": {"mask": "dense"},
    "causal": {"mask": "causal"},
    "window": {"mask": "window:1024"},
    "causal, 8 heads a KV head": {"mask": "causal", "heads": 64, "kv_heads": 8},
}
REPEATS = 15


def samples_us(fast_bytes: int, *, repeats: int = REPEATS, **shape: object) -> list[float]:
    """Times of plans that share nothing but the code: a new workload for each."""
    times = []
    for _ in range(repeats + 2):
        workload = Workload(**shape)  # type: ignore[arg-type]
        start = time.perf_counter()
        best_plan_for(workload, fast_bytes // workload.dtype.bytes)
        times.append(round((time.perf_counter() - start) * 1e6, 1))
    return times[2:]


def plan_times() -> Iterator[dict[str, object]]:
    for (name, kind), d, fast_bytes, n in product(WORKLOADS.items(), WIDTHS, FAST_BYTES, LENGTHS):
        samples = samples_us(fast_bytes, n=n, d=d, **kind)
        yield {"workload": name, "n": n, "d": d, "fast_bytes": fast_bytes, "samples_us": samples}


def irregular() -> dict[str, dict[str, object]]:
    """Masks whose description is long: planning time grows with it."""
    lengths = tuple(64 + k for k in range(300))
    rows = np.arange(128)
    layout = (np.abs(rows[:, None] - rows) < 4) | (rows < 2) | ((rows[:, None] * 7 + rows * 13) % 16 == 0)
    return {
        "300 different documents": {"n": sum(lengths), "d": 64, "mask": Documents(lengths=lengths)},
        "block-sparse, 128 x 128 blocks of 64": {"n": 8192, "d": 64, "mask": BlockSparse.from_array(layout)},
    }


def irregular_times() -> Iterator[dict[str, object]]:
    for (name, shape), fast_bytes in product(irregular().items(), FAST_BYTES):
        samples = samples_us(fast_bytes, repeats=3, **shape)
        yield {"workload": name, "fast_bytes": fast_bytes, "samples_us": samples}


def prefixed(queries: int, requests: int, prefix: int) -> dict[str, object]:
    mask = SharedPrefix(length=prefix)
    heads = {"heads": 8, "kv_heads": 2}
    return {"queries": queries, "keys": prefix + queries, "batch": requests, "d": 128, "mask": mask, **heads}


# Shapes whose planning time once grew: requests that share a prefix, and shapes that are almost all masked.
GROWING: dict[str, Callable[[int], dict[str, object]]] = {
    "n requests of n queries behind n shared keys": lambda n: prefixed(n, n, n),
    "16,384 requests of n queries behind 16,384 shared keys": lambda n: prefixed(n, 2**14, 2**14),
    "n requests of 1,009 queries behind 16,384 shared keys": lambda n: prefixed(1009, n, 2**14),
    "n queries on 41 keys, causal": lambda n: {
        "queries": n, "keys": 41, "d": 16, "mask": "causal", "heads": 8, "kv_heads": 2
    },
    "n queries on 43 keys, window of 30 on both sides": lambda n: {
        "queries": n, "keys": 43, "d": 16, "mask": "window:30:both"
    },
    "n queries on one key": lambda n: {"queries": n, "keys": 1, "d": 16, "mask": "window:1:both"},
    "one query on n keys, window of 4096": lambda n: {"queries": 1, "keys": n, "d": 128, "mask": "window:4096"},
}  # fmt: skip
GROWING_LENGTHS = {"requests": [2**k for k in range(4, 21, 4)], "other": [2**k for k in range(14, 31, 4)]}
GROWING_FAST_BYTES = [512 * 2**10, 50 * 2**20, 1485 * 10**6]


def growing_times() -> Iterator[dict[str, object]]:
    for (name, shape), fast_bytes in product(GROWING.items(), GROWING_FAST_BYTES):
        for n in GROWING_LENGTHS["requests" if "requests" in name else "other"]:
            samples = samples_us(fast_bytes, repeats=5, **shape(n))
            yield {"workload": name, "n": n, "fast_bytes": fast_bytes, "samples_us": samples}


def steps(first: int, last: int, count: int) -> list[int]:
    return sorted({round(value) for value in np.geomspace(first, last, count)})


def grids() -> dict[str, SweepGrid]:
    masks = ["dense", "causal", "window:1024"]
    return {
        "no two points alike": SweepGrid(
            n=steps(2**10, 2**20, 112), d=[64, 80, 96, 128, 192, 256], masks=masks, fast_bytes=steps(2**16, 2**26, 500)
        ),
        "small memories, no two points alike": SweepGrid(
            n=steps(2**10, 2**20, 112), d=[64, 80, 96, 128, 192, 256], masks=masks, fast_bytes=steps(2**11, 2**17, 500)
        ),
        "models: heads and batches": SweepGrid(
            n=steps(2**10, 2**20, 41),
            d=[64, 128, 256],
            heads=[16, 32, 64, 128],
            kv_heads=[1, 8, None],
            batch=[1, 2, 4, 8, 16, 32],
            masks=masks,
            fast_bytes=steps(2**16, 2**26, 38),
        ),
    }


def sweep_times() -> Iterator[dict[str, object]]:
    for name, grid in grids().items():
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            sweep(grid)
            seconds.append(round(time.perf_counter() - start, 3))
        yield {"grid": name, "points": len(grid), "seconds": seconds}


def one_row_a_line(**tables: list[dict[str, object]]) -> str:
    parts = []
    for name, rows in tables.items():
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results.json"
    plans, irregulars, growing = list(plan_times()), list(irregular_times()), list(growing_times())
    sweeps = list(sweep_times())
    made_by = {
        **asdict(provenance()),
        "seed": SEED,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
    }
    tables = {"plans": plans, "irregular": irregulars, "growing": growing, "sweeps": sweeps}
    write_atomically(target, one_row_a_line(provenance=[made_by], **tables))
    write_answer(target)
    print_medians(plans, growing)
    for row in irregulars:
        print(f"{row['workload']}, {row['fast_bytes'] // 1024} KB: {median(row['samples_us']) / 1e3:.1f} ms")
    for row in sweeps:
        print(f"{row['grid']}: {row['points']:,} points in {row['seconds']} s")


def print_medians(plans: list[dict[str, object]], growing: list[dict[str, object]]) -> None:
    every = [median(row["samples_us"]) for row in plans]
    slow = sum(value >= 1000 for value in every)
    print(
        f"{len(every)} medians: {median(every):.0f} µs in the middle, {max(every):.0f} the largest, {slow} from 1 ms on"
    )
    for name in WORKLOADS:
        print(f"{name}: median and worst median over d and memory, in µs")
        for n in LENGTHS:
            medians = [median(row["samples_us"]) for row in plans if (row["workload"], row["n"]) == (name, n)]
            print(f"  n=2^{n.bit_length() - 1:<3} {median(medians):8.0f} {max(medians):8.0f}")
    for name in GROWING:
        print(f"{name}: worst median over memories, in ms, as n grows")
        worst: dict[object, float] = {}
        for row in growing:
            if row["workload"] == name:
                worst[row["n"]] = max(worst.get(row["n"], 0.0), median(row["samples_us"]) / 1e3)
        print("  " + ", ".join(f"n={n:,}: {value:.2f}" for n, value in worst.items()))


if __name__ == "__main__":
    main()
