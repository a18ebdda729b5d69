"""The answer about many devices as tables of a terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attenio.cluster.plan import ClusterPlan
from attenio.fitted_table import NAME, NUMBER, TEXT, FittedTable, plain_table
from attenio.quantities import show_bytes, show_count, show_seconds, show_words
from attenio.report.cluster import (
    NOTHING,
    ClusterAnswer,
    faster_than_plan,
    layout_rows,
    memory_text,
    resident,
    scheme_rows,
    show_gap,
)


def cluster_tables(answer: ClusterAnswer) -> RenderableType:
    """The plan in a few lines, every scheme against the bound, and what crosses each level of links."""
    plan, cluster = answer.plan, answer.plan.cluster
    where = "" if cluster.topology is None else f" on {cluster.topology.name}"
    memory = "" if cluster.memory_bytes is None else f", {show_bytes(cluster.memory_bytes)} each"
    head = Text.assemble(
        (str(answer.workload), "bold"), f" on {show_count(cluster.devices, 'device')}{where}{memory}\n"
    )
    bound = plan.bound
    summary = FittedTable.grid(padding=(0, 2))
    for justify in ("left", "right", "left"):
        summary.add_column(justify=justify, no_wrap=justify == "right")
    summary.add_row(
        "must send", show_words(plan.bound_words_per_device), f"a device, {bound.theorem} ({bound.strength.value})"
    )
    cut = zip((plan.grid.heads, plan.grid.queries, plan.grid.keys), ("head group", "row", "column"), strict=True)
    grid = f"a device; {' × '.join(show_count(*each) for each in cut)}"
    summary.add_row(Text("plan sends", style="bold"), Text(show_words(plan.words_per_device), style="bold"), grid)
    summary.add_row("gap", show_gap(plan), "busiest device over bound")
    summary.add_row("memory", memory_text(plan, plan.memory_words), f"a device; {resident(plan)}")
    if plan.seconds is not None:
        summary.add_row("time", show_seconds(plan.seconds), _time_note(plan))
    lines = [Text(f"Tokens are {plan.sharding.value}; ranks sit by {plan.placement}, the closest first.", style="dim")]
    fewer = [name for name, layout in answer.layouts if layout.words_per_device < plan.words_per_device]
    if fewer:
        lines.append(Text(f"The plan is the best grid; {' and '.join(fewer)}, below, send less.", style="dim"))
    if faster := faster_than_plan(answer):
        lines.append(Text(faster, style="dim"))
    own = "a line is held against that for work as even as its own"
    lines.append(Text(f"The bound is for {bound.covers}; {own}.", style="dim"))
    return Group(head, summary, Text(), *lines, Text(), _schemes(answer), *_levels(plan))


def _time_note(plan: ClusterPlan) -> str:
    compute = plan.compute_seconds
    machine = plan.cluster.machine
    where = "" if machine is None else f" on {machine.name}"
    busy = "arithmetic left out, its rate is unknown"
    if compute is not None:
        busy = f"arithmetic {show_seconds(compute)}{where}, behind which keys come in"
    return f"exchange {show_seconds(plan.exchange_seconds or 0.0)}, {busy}"


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
            table.add_row(name, *[NOTHING] * 5, Text(note, style="dim"))
            continue
        table.add_row(
            name,
            str(plan.grid),
            f"{plan.words_per_device:,}",
            show_gap(plan),
            NOTHING if plan.seconds is None else show_seconds(plan.seconds),
            memory_text(plan, plan.memory_words),
            note,
            style="bold" if plan is answer.plan else "",
        )
    for row in layout_rows(answer):
        table.add_row(*row[:-1], Text(row[-1], style="dim"))
    return table


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
