"""What do 8 to 4,096 devices send and wait for: the best grid, strips, patches, a ring and USP; when do columns pay?

    .venv/bin/python studies/many-devices-planned/run.py

plans a million tokens, counts exact words against the bound, takes times on nodes of eight H100 GPUs from the planner
and from the simulation of links, and writes results.json, figure.svg and answer.md beside this file. Takes minutes.
With --keep-times the times are those of results.json where strips and patches are still the same, and words are planned
anew.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attenio.catalogue import machine_named
from attenio.cluster import grids, sent_words
from attenio.cluster.events import simulate
from attenio.cluster.layout_plan import LayoutPlan
from attenio.cluster.layout_times import layout_times, simulate_layout
from attenio.cluster.patches import best_patches
from attenio.cluster.plan import Cluster, ClusterPlan
from attenio.cluster.schemes import Scheme, best_cluster_plan, scheme_plans
from attenio.cluster.strips import best_strips
from attenio.cluster.topology import dgx_h100
from attenio.errors import InvalidInput
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.workload import Workload

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from answer import answer, picture  # noqa: E402

N, D = 2**20, 128
DEVICES = tuple(2**k for k in range(3, 13))
# Query heads and KV heads: one head, a small model, groups of four and eight, one KV head, many heads.
SHAPES = ((1, 1), (8, 8), (32, 8), (64, 8), (16, 1), (32, 32))
TIMED = ((64, 8), (32, 32))
HEADS = tuple(2**k for k in range(8))


def planned(workload: Workload, devices: int) -> dict[str, Any]:
    """Words of the best grid and of the schemes that people use, and the bound."""
    plan = best_cluster_plan(workload, Cluster(devices=devices))
    schemes = {each.scheme: each.plan for each in scheme_plans(workload, Cluster(devices=devices))}
    words = {
        each.value: None if (found := schemes[each]) is None else found.words_per_device
        for each in (Scheme.ZIGZAG, Scheme.USP, Scheme.MESH_2D)
    }
    grid = (plan.grid.heads, plan.grid.queries, plan.grid.keys)
    return {
        "grid": grid, "words": plan.words_per_device, "bound": plan.bound_words_per_device, "gap": plan.gap, **words,
        "strips": strips_of(workload, devices), "patches": patches_of(workload, devices),
    }  # fmt: skip


def patches_of(workload: Workload, devices: int) -> dict[str, Any] | None:
    """The same of a patchwork, for causal work on devices and KV heads for which a table is kept."""
    plan = best_patches(workload, devices)
    if plan is None:
        return None
    return {
        "patchwork": str(plan.patchwork), "words": plan.words_per_device, "mean": plan.total_words / devices,
        "bound": plan.bound_words_per_device, "gap": plan.gap, "imbalance": float(plan.imbalance),
    }  # fmt: skip


def strips_of(workload: Workload, devices: int) -> dict[str, Any] | None:
    """The same of strips of rows, for causal work."""
    plan = best_strips(workload, devices)
    if plan is None:
        return None
    return {
        "heads": plan.strips.heads, "counts": plan.strips.counts, "top": plan.strips.top,
        "owners": plan.strips.owners.value,
        "words": plan.words_per_device, "mean": plan.total_words / devices, "bound": plan.bound_words_per_device,
        "gap": plan.gap, "imbalance": float(plan.imbalance),
    }  # fmt: skip


def timed(workload: Workload, devices: int) -> dict[str, Any]:
    """Times of the best grid, of a ring and of USP on nodes of eight H100 GPUs: planned and simulated."""
    topology = dgx_h100(nodes=devices // 8, gpus=8)
    cluster = Cluster(devices=devices, topology=topology, machine=machine_named("h100"))
    plans: dict[str, ClusterPlan | None] = {"attenio": best_cluster_plan(workload, cluster)}
    plans |= {each.scheme.value: each.plan for each in scheme_plans(workload, cluster)}
    found = {}
    for name in ("attenio", "zigzag", "usp"):
        plan = plans[name]
        assert plan is not None
        try:
            simulated: Any = simulate(plan)
        except InvalidInput:
            simulated = None
        found[name] = {
            "grid": (plan.grid.heads, plan.grid.queries, plan.grid.keys),
            "seconds": plan.seconds,
            "exchange_seconds": plan.exchange_seconds,
            "simulated_seconds": None if simulated is None else simulated.seconds,
            "simulated_exchange_seconds": None if simulated is None else sum(s.seconds for s in simulated.stages),
        }
    return found | {
        "strips": timed_layout(best_strips(workload, devices), cluster),
        "patches": timed_layout(best_patches(workload, devices), cluster),
    }


def timed_layout(plan: LayoutPlan | None, cluster: Cluster) -> dict[str, Any] | None:
    """The same of strips or patches, where their messages are looked at one by one."""
    times = None if plan is None else layout_times(plan, cluster)
    if plan is None or times is None:
        return None
    try:
        simulated: Any = simulate_layout(plan, cluster)
    except InvalidInput:
        simulated = None
    return {
        "layout": str(plan.layout), "seconds": times.seconds, "exchange_seconds": times.exchange_seconds,
        "simulated_seconds": None if simulated is None else simulated.seconds,
        "simulated_exchange_seconds": None if simulated is None else sum(each.seconds for each in simulated.stages),
    }  # fmt: skip


def columns_that_pay(heads: int, devices: int) -> tuple[int, int, int]:
    """The grid with the fewest words for heads with keys of their own; of equals the one with fewest columns."""
    workload = Workload(n=N, d=D, heads=heads)
    found = min(grids(devices, heads), key=lambda grid: (int(sent_words(workload, grid).max()), grid.keys))
    return found.heads, found.queries, found.keys


SHAPE = {"n": N, "d": D, "dtype": "bf16"}


def words_of(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Words of one shape, mask and pass on all numbers of devices."""
    found = [{**asked, "devices": each, **planned(Workload(**SHAPE, **asked), each)} for each in DEVICES]
    print(*asked.values(), flush=True)
    return found


def times_of(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Times of the same."""
    return [{**asked, "devices": each, "times": timed(Workload(**SHAPE, **asked), each)} for each in DEVICES]


def kept_times(row: dict[str, Any]) -> dict[str, Any]:
    """Times of a row of results, taken anew where its strips or its patches are others now."""
    asked = {name: row[name] for name in ("heads", "kv_heads", "mask", "direction")}
    workload, devices = Workload(**SHAPE, **asked), row["devices"]
    for name, best in (("strips", best_strips), ("patches", best_patches)):
        kept = row["times"][name]
        if kept is not None and (plan := best(workload, devices)) is not None and str(plan.layout) != kept["layout"]:
            return {**row, "times": timed(workload, devices)}
    return row


def main() -> None:
    every = [
        {"heads": heads, "kv_heads": kv_heads, "mask": mask, "direction": direction}
        for heads, kv_heads in SHAPES
        for mask in ("dense", "causal")
        for direction in ("forward", "backward")
    ]
    clocked = [each for each in every if (each["heads"], each["kv_heads"]) in TIMED and each["mask"] == "causal"]
    with ProcessPoolExecutor(3) as pool:
        if "--keep-times" in sys.argv:
            times = list(pool.map(kept_times, json.loads((HERE / "results.json").read_text(encoding="utf-8"))["times"]))
        else:
            times = [row for rows in pool.map(times_of, clocked) for row in rows]
        words = [row for rows in pool.map(words_of, every) for row in rows]
    crossovers = [
        {"heads": heads, "devices": devices, "grid": columns_that_pay(heads, devices)}
        for heads in HEADS
        for devices in (2**k for k in range(1, 13))
    ]
    results = {"provenance": asdict(provenance()), **SHAPE, "words": words, "times": times, "crossovers": crossovers}
    results = json.loads(json.dumps(results))
    write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")
    write_atomically(HERE / "figure.svg", picture(results))
    write_atomically(HERE / "answer.md", answer(results))


if __name__ == "__main__":
    main()
