"""How long does one plan take, does it grow with n, and how long do a million points take?

    .venv/bin/python studies/planner-speed/run.py

writes results.json beside this file, or the file that is named: every sample, and what made it; and answer.md beside
the results. What has been measured is kept in partial.json until the end: a run that was stopped goes on from there.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial as partial_call
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from answer import write_answer

from attenio.errors import InvalidInput
from attenio.files import write_atomically
from attenio.masks import BlockSparse, Documents, SharedPrefix
from attenio.measurement.provenance import provenance
from attenio.planning import SweepGrid, best_plan_for, sweep
from attenio.workload import Workload

Row = dict[str, Any]
Tables = dict[str, list[Row]]

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
        start = time.process_time()
        best_plan_for(workload, fast_bytes // workload.dtype.bytes)
        times.append(round((time.process_time() - start) * 1e6, 1))
    return times[2:]


def plan_times() -> Iterator[Row]:
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


def irregular_times() -> Iterator[Row]:
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
    "29 requests of n queries behind 16,384 shared keys": lambda n: prefixed(n, 29, 2**14),
    "n queries on 41 keys, causal": lambda n: masked(n, 41, "causal", d=16, heads=8, kv_heads=2),
    "n queries on 4,001 keys, causal": lambda n: masked(n, 4001, "causal", d=128),
    "n queries on 43 keys, window of 30 on both sides": lambda n: masked(n, 43, "window:30:both", d=16),
    "n queries on 892 keys, window of 55": lambda n: masked(n, 892, "window:55", d=256),
    "n queries on one key": lambda n: masked(n, 1, "window:1:both", d=16),
    "one query on n keys, window of 4,096": lambda n: masked(1, n, "window:4096", d=128),
}
GROWING_LENGTHS = [2**k for k in (4, 8, 12, 16, 20, 24, 28, 30)]
GROWING_FAST_BYTES = [64 * 2**10, 414 * 2**10, 50 * 2**20, 1485 * 10**6]


def masked(queries: int, keys: int, mask: str, **shape: int) -> dict[str, object]:
    return {"queries": queries, "keys": keys, "mask": mask, **shape}


def growing_times() -> Iterator[Row]:
    for (name, shape), fast_bytes, n in product(GROWING.items(), GROWING_FAST_BYTES, GROWING_LENGTHS):
        try:
            samples = samples_us(fast_bytes, repeats=5, **shape(n))
        except InvalidInput:
            continue  # lengths end at 2^30, batches at 2^20, and a window is no wider than the keys
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


def sweep_times(name: str, grid: SweepGrid) -> Iterator[Row]:
    seconds = []
    for _ in range(3):
        start = time.process_time()
        sweep(grid)
        seconds.append(round(time.process_time() - start, 3))
    yield {"grid": name, "points": len(grid), "seconds": seconds}


def measured(partial: Path, made_by: Row) -> Tables:
    """Every table: those kept from a run of the same code that was stopped, and the others measured now."""
    parts: dict[str, tuple[str, Callable[[], Iterator[Row]]]] = {
        "plans": ("plans", plan_times),
        "irregular": ("irregular", irregular_times),
        "growing": ("growing", growing_times),
    }
    for name, grid in grids().items():
        parts[name] = ("sweeps", partial_call(sweep_times, name, grid))
    done: Tables = {"provenance": [made_by]}
    if partial.exists() and (kept := json.loads(partial.read_text()))["provenance"] == [made_by]:
        done = kept
    for part, (_, rows) in parts.items():
        if part not in done:
            print(f"measuring {part}", flush=True)
            done[part] = list(rows())
            write_atomically(partial, one_row_a_line(**done))
    tables: Tables = {"provenance": [made_by]}
    for part, (table, _) in parts.items():
        tables.setdefault(table, []).extend(done[part])
    return tables


def one_row_a_line(**tables: list[Row]) -> str:
    parts = []
    for name, rows in tables.items():
        parts.append(f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results.json"
    made_by = {
        **asdict(provenance()),
        "seed": SEED,
        "clock": "processor",
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
    }
    partial = target.with_name("partial.json")
    write_atomically(target, one_row_a_line(**measured(partial, made_by)))
    write_answer(target)
    partial.unlink()
    print(target.with_name("answer.md").read_text())


if __name__ == "__main__":
    main()
