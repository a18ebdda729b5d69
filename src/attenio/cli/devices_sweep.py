"""``attenio sweep --devices``: the best grid at every point, for every number of devices."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.cli.devices import Devices
from attenio.cli.grid import numbers
from attenio.cli.output import plain_table
from attenio.cli.row_sweep import check_rows, planned_rows, show_rows
from attenio.errors import AttenioError
from attenio.quantities import show_seconds

if TYPE_CHECKING:
    from attenio.cluster.plan import Cluster
    from attenio.machine import Machine
    from attenio.planning import SweepGrid
    from attenio.workload import Workload

_ASKED = ("queries", "keys", "d", "value_dim", "heads", "kv_heads", "batch", "mask", "dtype", "machine", "devices")
_STRIPS, _PATCHES = (
    (name, f"{name}_words_per_device", f"{name}_gap", f"{name}_seconds") for name in ("strips", "patches")
)


def sweep_devices(grid: "SweepGrid", devices: Devices, out: Path | None, *, as_json: bool) -> None:
    """Plan every workload of a grid for every number of devices; a point without a plan says why."""
    counts: tuple[int | None, ...] = (None,) if devices.devices is None else numbers(devices.devices, "devices")
    check_rows("of devices", len(grid) * len(counts), out)
    for count in counts:
        devices.cluster(_machine(grid, 0), count)  # a slip in the options is refused before anything is planned
    rows = planned_rows(_rows(grid, devices, counts), len(grid) * len(counts))
    show_rows(rows, out, _table, found="grid", as_json=as_json)


def _rows(grid: "SweepGrid", devices: Devices, counts: tuple[int | None, ...]) -> Iterator[dict[str, Any]]:
    from attenio.cluster.schemes import best_cluster_plan

    for point in range(len(grid)):
        for count in counts:
            row: dict[str, Any] = dict.fromkeys((*_ASKED, "grid", "words_per_device", "bound_words_per_device"))
            row |= dict.fromkeys(("gap", "memory_words", "seconds", *_STRIPS, *_PATCHES, "reason"))
            try:
                workload = grid.workload(point)
                cluster = devices.cluster(_machine(grid, point), count)
                row |= {name: getattr(workload, name) for name in _ASKED[:-4]}
                row |= {"mask": str(workload.mask), "dtype": workload.dtype.value}
                row |= {"machine": _machine(grid, point).name, "devices": cluster.devices}
                plan = best_cluster_plan(workload, cluster, grid=devices.chosen_grid)
            except AttenioError as problem:
                row["reason"] = str(problem)
            else:
                row |= {
                    "grid": str(plan.grid).replace(" ", ""),
                    **{name: getattr(plan, name) for name in ("words_per_device", "bound_words_per_device")},
                    **{name: getattr(plan, name) for name in ("gap", "memory_words", "seconds")},
                    **({} if devices.chosen_grid is not None else _layouts(workload, cluster)),
                }
            yield row


def _layouts(workload: "Workload", cluster: "Cluster") -> dict[str, Any]:
    """What causal work sends in strips of rows and as a patchwork, where these are planned."""
    from attenio.cluster.layout_times import layout_times
    from attenio.cluster.patches import best_patches
    from attenio.cluster.strips import best_strips

    found: dict[str, Any] = {}
    memory = cluster.memory_words(workload)
    strips, patches = best_strips(workload, cluster.devices), best_patches(workload, cluster.devices)
    for names, plan in ((_STRIPS, strips), (_PATCHES, patches)):
        if plan is not None and (memory is None or plan.memory_words <= memory):
            times = layout_times(plan, cluster)
            seconds = None if times is None else times.seconds
            found |= dict(zip(names, (str(plan.layout), plan.words_per_device, plan.gap, seconds), strict=True))
    return found


def _machine(grid: "SweepGrid", point: int) -> "Machine":
    return grid.computers[int(grid.positions(point, point + 1)["machines"][0])]


def _table(rows: list[dict[str, Any]]) -> Any:
    from attenio.report.notation import show_ratio

    shown = [name for name in _ASKED if len({row[name] for row in rows}) > 1]
    table = plain_table(
        *((name, "right") for name in shown), "heads x queries x keys", ("sent (words)", "right"), ("÷ bound", "right"),
        ("time", "right"), ("in strips", "right"), ("÷ bound", "right"), ("in patches", "right"),
        ("÷ bound", "right"),
    )  # fmt: skip
    for row in rows:
        asked = [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in shown]
        if row["grid"] is None:
            table.add_row(*asked, row["reason"], *["-"] * 7)
            continue
        gap = "-" if row["gap"] is None else show_ratio(row["gap"])
        time = "-" if row["seconds"] is None else show_seconds(row["seconds"])
        layouts = [
            cell
            for name in ("strips", "patches")
            for cell in (
                "-" if row[name] is None else f"{row[f'{name}_words_per_device']:,}",
                "-" if row[f"{name}_gap"] is None else show_ratio(row[f"{name}_gap"]),
            )
        ]
        table.add_row(*asked, row["grid"], f"{row['words_per_device']:,}", gap, time, *layouts)
    return table
