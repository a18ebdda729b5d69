"""The answer about many devices: the best grid, every scheme that has a name beside it, and what must be exchanged."""

import html
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attenio.cluster.grid import Grid
from attenio.cluster.plan import Cluster, ClusterPlan
from attenio.cluster.schemes import SchemePlan, best_cluster_plan, scheme_plans
from attenio.plain_values import plain_fields
from attenio.quantities import bytes_of, show_bytes, show_seconds
from attenio.report.notation import show_ratio
from attenio.report.tables import NAME, NUMBER, TEXT, plain_table
from attenio.workload import Workload

_NOTHING = "–"
_UNEVEN = 1.01  # work that is less even than this is told


@dataclass(frozen=True, kw_only=True)
class ClusterAnswer:
    """A workload on many devices."""

    workload: Workload
    plan: ClusterPlan
    schemes: tuple[SchemePlan, ...]

    def to_json(self) -> dict[str, Any]:
        """The answer as plain values: words are those that the busiest device sends."""
        plan, cluster = self.plan, self.plan.cluster
        return {
            "devices": cluster.devices,
            "device_memory_bytes": cluster.memory_bytes,
            "topology": None if cluster.topology is None else cluster.topology.name,
            **_numbers(plan),
            "resident": resident(plan),
            "bound_words_per_device": plan.bound_words_per_device,
            "bound_total_words": plan.bound.words,
            "bound_theorem": plan.bound.theorem,
            "bound_strength": plan.bound.strength.value,
            "levels": [
                plain_fields(each, "name", "words_per_device", "total_words", "seconds") for each in plan.levels
            ],
            "stages": [
                plain_fields(each, "direction", "stage", "words_per_device", "seconds", "overlaps_compute")
                for each in plan.stages
            ],
            "schemes": [
                {"scheme": each.scheme.value, **_numbers(each.plan)}
                if each.plan is not None
                else {"scheme": each.scheme.value, "grid": None, "reason": each.reason}
                for each in self.schemes
            ],
        }


def cluster_answer(workload: Workload, cluster: Cluster, grid: Grid | None = None) -> ClusterAnswer:
    """The best grid for a workload on a cluster, or the one given, and every scheme that has a name."""
    plan = best_cluster_plan(workload, cluster, grid=grid)
    return ClusterAnswer(workload=workload, plan=plan, schemes=scheme_plans(workload, cluster))


def _numbers(plan: ClusterPlan) -> dict[str, Any]:
    return {
        "grid": plain_fields(plan.grid, "heads", "queries", "keys"),
        "sharding": plan.sharding.value,
        "placement": [axis.value for axis in plan.placement.order],
        **plain_fields(plan, "passes", "words_per_device", "total_words", "gap", "memory_words"),
        "memory_bytes": bytes_of(plan.memory_words, element_bytes=plan.workload.dtype.bytes),
        "imbalance": float(plan.imbalance),
        **plain_fields(plan, "seconds", "exchange_seconds", "compute_seconds"),
    }


def resident(plan: ClusterPlan) -> str:
    """What stays on a device while the rest passes by."""
    rows = "queries of its row and their sums stay"
    if plan.grid.queries == 1:
        return f"{rows}, and so do all keys of its column"
    again = "" if plan.passes == 1 else f", in {plan.passes} passes"
    return f"{rows}; keys stream{again}"


def cluster_tables(answer: ClusterAnswer) -> RenderableType:
    """The plan in a few lines, every scheme against the bound, and what crosses each level of links."""
    plan, cluster = answer.plan, answer.plan.cluster
    where = "" if cluster.topology is None else f" on {cluster.topology.name}"
    memory = "" if cluster.memory_bytes is None else f", {show_bytes(cluster.memory_bytes)} each"
    head = Text.assemble((str(answer.workload), "bold"), f" on {cluster.devices:,} devices{where}{memory}\n")
    bound = plan.bound
    summary = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "left"):
        summary.add_column(justify=justify, no_wrap=justify == "right")
    words = f"{plan.bound_words_per_device:,} words"
    summary.add_row("must send", words, f"a device, {bound.theorem} ({bound.strength.value})")
    grid = f"a device; {plan.grid.heads} head groups × {plan.grid.queries} rows × {plan.grid.keys} columns"
    summary.add_row(Text("plan sends", style="bold"), Text(f"{plan.words_per_device:,} words", style="bold"), grid)
    gap = _NOTHING if plan.gap is None else show_ratio(plan.gap)
    summary.add_row("gap", gap, "busiest device over bound")
    summary.add_row("memory", _bytes(plan, plan.memory_words), f"a device; {resident(plan)}")
    if plan.seconds is not None:
        summary.add_row("time", show_seconds(plan.seconds), _time_note(plan))
    lines = [Text(f"Tokens are {plan.sharding.value}; ranks sit by {plan.placement}, the closest first.", style="dim")]
    lines.append(Text(f"The bound is for {bound.covers}.", style="dim"))
    return Group(head, summary, Text(), *lines, Text(), _schemes(answer), *_levels(plan))


def _time_note(plan: ClusterPlan) -> str:
    compute = plan.compute_seconds
    busy = "" if compute is None else f", arithmetic {show_seconds(compute)}, behind which keys come in"
    return f"exchange {show_seconds(plan.exchange_seconds or 0.0)}{busy}"


def _schemes(answer: ClusterAnswer) -> Table:
    table = plain_table(
        ("scheme", NAME),
        ("grid", NAME),
        ("sent (words)", NUMBER),
        ("÷ bound", NUMBER),
        ("time", NUMBER),
        ("memory", NUMBER),
        ("", TEXT),
    )
    for name, plan, note in scheme_rows(answer):
        if plan is None:
            table.add_row(name, *[_NOTHING] * 5, Text(note, style="dim"))
            continue
        bound = answer.plan.bound_words_per_device
        table.add_row(
            name,
            str(plan.grid),
            f"{plan.words_per_device:,}",
            show_ratio(plan.words_per_device / bound) if bound else _NOTHING,
            _NOTHING if plan.seconds is None else show_seconds(plan.seconds),
            _bytes(plan, plan.memory_words),
            note,
            style="bold" if plan is answer.plan else "",
        )
    return table


def scheme_rows(answer: ClusterAnswer) -> list[tuple[str, ClusterPlan | None, str]]:
    """The plan, and every scheme by its words: name, plan and what there is to say."""
    known = sorted(
        (each for each in answer.schemes if each.plan is not None),
        key=lambda each: (each.plan.words_per_device, each.plan.imbalance) if each.plan is not None else (0, 0),
    )
    rows = [("attenio", answer.plan, _note(answer.plan))]
    rows += [(each.scheme.value, each.plan, _note(each.plan)) for each in known if each.plan is not None]
    return [*rows, *((each.scheme.value, None, each.reason) for each in answer.schemes if each.plan is None)]


def _note(plan: ClusterPlan) -> str:
    uneven = float(plan.imbalance)
    again = f"{plan.passes} passes" if plan.passes > 1 else ""
    return ", ".join(filter(None, [f"work {uneven:.3g} × the mean" if uneven > _UNEVEN else "", again]))


def _levels(plan: ClusterPlan) -> list[RenderableType]:
    if not plan.levels:
        return [Text("\nWithout --topology words are counted, and no time.", style="dim")]
    assert plan.cluster.topology is not None
    table = plain_table(
        ("links", NAME), ("rate", NUMBER), ("sent (words)", NUMBER), ("all devices", NUMBER), ("time", NUMBER)
    )
    for link, level in zip(plan.cluster.topology.links, plan.levels, strict=True):
        rate = f"{link.bandwidth_bytes_per_s / 1e9:,.4g} GB/s"
        sent = (f"{level.words_per_device:,}", f"{level.total_words:,}")
        table.add_row(level.name, rate, *sent, show_seconds(level.seconds))
    torus = "Words of a torus count once for every link that they take." if plan.cluster.topology.is_torus else ""
    return [Text(), table, *([Text(torus, style="dim")] if torus else [])]


def _bytes(plan: ClusterPlan, words: int) -> str:
    return show_bytes(bytes_of(words, element_bytes=plan.workload.dtype.bytes))


def cluster_section(answer: ClusterAnswer) -> str:
    """The same as a table of a page."""
    plan, bound = answer.plan, answer.plan.bound_words_per_device
    head = "".join(f"<th>{title}</th>" for title in ("scheme", "grid", "sent (words)", "÷ bound", "time", "memory", ""))
    body = []
    for name, each, note in scheme_rows(answer):
        if each is None:
            cells = [name, *[_NOTHING] * 5, note]
        else:
            time = _NOTHING if each.seconds is None else show_seconds(each.seconds)
            ratio = show_ratio(each.words_per_device / bound) if bound else _NOTHING
            sent = f"{each.words_per_device:,}"
            cells = [name, str(each.grid), sent, ratio, time, _bytes(each, each.memory_words), note]
        body.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    told = f"{plan.cluster.devices:,} devices. Words are those that the busiest device sends; it must send {bound:,}."
    return f"<p>{told}</p>\n<table><thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(body) + "\n</tbody></table>"
