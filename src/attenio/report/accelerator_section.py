"""What a report says about a machine with an accelerator: a timeline of the workload, and the paper's figures."""

import html
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from attenio.accelerator import simulate
from attenio.errors import AttenioError
from attenio.machine import Machine
from attenio.planning import Dataflow
from attenio.report import palette
from attenio.report.experiments import Experiment, ExperimentRow, experiment
from attenio.report.figures import axes, hover
from attenio.report.timeline_picture import timeline_svg
from attenio.workload import Direction, Workload

__all__ = ["AcceleratorSection", "accelerator_section"]

Figure = dict[str, Any]

# Figure 15 takes half a minute, and table 3 is met by construction: attenio reproduce prints both.
_DRAWN = ("fig10", "fig12", "fig13", "fig14", "fig16", "fig17")
_AXES = {"n": "n (positions)", "cache_kb": "cache (KB)"}


@dataclass(frozen=True, kw_only=True)
class AcceleratorSection:
    """Titled pieces of the page, and the figures that they have places for."""

    sections: tuple[tuple[str, str], ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict)


def accelerator_section(workload: Workload, machine: Machine) -> AcceleratorSection:
    """The timeline and the experiments; nothing for a machine without an accelerator."""
    if machine.accelerator is None:
        return AcceleratorSection()
    figures = dict(_experiment_figures())
    places = "\n".join(
        f'<p class="caption">{html.escape(caption)}</p>\n<div class="figure" id="{name}"></div>'
        for name, (caption, _) in figures.items()
    )
    return AcceleratorSection(
        sections=(
            ("Three rounds on the accelerator", _timeline(workload, machine)),
            ("The accelerator's published experiments, run again", places),
        ),
        figures={name: figure for name, (_, figure) in figures.items()},
    )


def _timeline(workload: Workload, machine: Machine) -> str:
    """AttenIO's program for the forward pass, or why there is none."""
    forward = replace(workload, tolerance=None, entry_bound=None).towards(Direction.FORWARD)
    try:
        done = simulate(forward, machine)
    except AttenioError as refusal:
        return f'<p class="note">{html.escape(str(refusal))}</p>'
    told = (
        f"{done.plan.dataflow.value} with {done.plan.tiles}: {float(done.cycles):,.0f} cycles, the array busy"
        f" {done.pe_utilisation:.1%}, waiting for memory {done.stall_fraction:.2%}, {done.energy.total_joules:.3g} J."
        " Hatched: an engine waits, and for what."
    )
    return f'<p class="caption">{html.escape(told)}</p>\n{timeline_svg(done.program, title=str(forward))}'


@lru_cache(maxsize=1)
def _experiment_figures() -> tuple[tuple[str, tuple[str, Figure]], ...]:
    found = []
    for name in _DRAWN:
        done = experiment(name)
        drawn = [row for row in done.rows if isinstance(row.at, int) and row.value > 0]
        for number, quantity in enumerate(dict.fromkeys(row.quantity for row in drawn)):
            rows = [row for row in drawn if row.quantity == quantity]
            found.append((f"{name}-{number}", (f"Figure {name[3:]}, {done.title}: {quantity}.", _figure(done, rows))))
    return tuple(found)


def _figure(done: Experiment, rows: list[ExperimentRow]) -> Figure:
    values = [row.value for row in rows] + [row.published for row in rows if row.published]
    places = sorted({int(row.at) for row in rows})
    layout = axes(_AXES[rows[0].axis], rows[0].quantity, places, (min(values) / 1.3, max(values) * 1.3))
    traces = []
    for dataflow, d in dict.fromkeys((row.dataflow, row.d) for row in rows):
        own = [row for row in rows if (row.dataflow, row.d) == (dataflow, d)]
        traces.append(_trace(f"{dataflow}, d = {d}", own, dash="solid" if d == 64 else "dash"))
        if any(row.published for row in own):
            traces.append(_printed(f"{dataflow}, d = {d}, printed", own))
    return {"data": traces, "layout": layout}


def _trace(name: str, rows: list[ExperimentRow], *, dash: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [row.at for row in rows],
        "y": [row.value for row in rows],
        "line": {"width": 2.2, "dash": dash, "color": palette.color(Dataflow.named(rows[0].dataflow))},
        "legendgroup": name,
        "meta": {"legend": name},
        **hover([f"<b>{name}</b><br>{row.value:.4g} at {row.at:,}" for row in rows]),
    }


def _printed(name: str, rows: list[ExperimentRow]) -> Figure:
    kept = [row for row in rows if row.published]
    look = Dataflow.named(kept[0].dataflow)
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [row.at for row in kept],
        "y": [row.published for row in kept],
        "marker": {"symbol": "circle-open", "size": 8, "color": palette.color(look)},
        "legendgroup": name,
        "meta": {"legend": name},
        **hover([f"<b>{name}</b><br>{row.published:.4g} at {row.at:,}" for row in kept]),
    }
