"""The accelerator's published experiments, run again: figures 10 and 12 to 17, and table 3.

>>> for row in experiment("fig10").rows:
...     if row.at == "geomean" and row.d == 64:
...         print(f"{row.dataflow:18}{row.value:6.2f}{row.published:6.1f}")
flat                8.82   8.8
standard            2.39   2.5
flash-attention-2   1.64   1.6
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from attenio.accelerator import (
    Component,
    Hardware,
    Simulation,
    area_of,
    fastest_plan,
    peak_power_watts,
    simulate,
    simulate_plan,
)
from attenio.accelerator.layers import layer_cycles
from attenio.catalogue import machine_named
from attenio.errors import InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.names import did_you_mean
from attenio.plain_values import plain_fields
from attenio.planning import Dataflow, Tiles
from attenio.report.reproduction import GEOMEAN, geometric_mean, measured_rates, published_data
from attenio.workload import Workload

MACHINE = "attenio-512k"
_BASELINES = (Dataflow.FLAT, Dataflow.STANDARD, Dataflow.FLASH_ATTENTION_2)
_SPED_UP = (Dataflow.FLAT, Dataflow.FLASH_ATTENTION_2, Dataflow.ATTENIO)
_CACHES_KB = (64, 128, 256, 384, 512, 640, 768)
# The paper's figure 1: attention takes at least so much of a prefill beyond so many positions.
_PROFILED_SHARE, _PROFILED_BEYOND = 0.8, 4096
SOURCE = "Lu et al., ASPLOS 2026, doi 10.1145/3779212.3790174"


@dataclass(frozen=True, kw_only=True)
class ExperimentRow:
    """One number: at a width and a point of the axis, of a dataflow or a part, beside the printed one if there is."""

    figure: str
    d: int | None
    axis: str
    at: int | str
    dataflow: str
    quantity: str
    value: float
    published: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as plain values, its axis under its own name."""
        measured = plain_fields(self, "dataflow", "quantity", "value", "published")
        return {**plain_fields(self, "figure", "d"), self.axis: self.at, **measured}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or table: its rows, and how to read them."""

    figure: str
    title: str
    caption: str
    rows: tuple[ExperimentRow, ...]

    def to_json(self) -> dict[str, Any]:
        """The experiment as plain values."""
        rows = [row.to_json() for row in self.rows]
        return {**plain_fields(self, "figure", "title"), "source": SOURCE, "caption": self.caption, "rows": rows}


_TITLES = {
    "fig10": ("speedup", "Rows by n: cycles of standard over those of the dataflow; geomean: over AttenIO's."),
    "fig12": ("utilisation", "Share of cycles in which the PE array and the EXP unit work, in percent."),
    "fig13": ("memory stalls", "Share of cycles in which the PE array waits for memory, in percent."),
    "fig14": (
        "cache sizes",
        "Speedup over standard with the same cache, geometric mean over n, in two readings: rows of scores that do not"
        " fit are read twice by standard, or are taken to fit. AttenIO also with its tiles of fewest cycles.",
    ),
    "fig15": ("block-wise causal mask", "Speedup over standard, which computes every score."),
    "fig16": (
        "GPT-3 prefill",
        "Whole model, dense, in two readings: projections and feed-forward run on this array; or standard attention"
        " takes 80 % of a prefill, as the paper's figure 1 profiles it beyond 4K, and the rest is left as it is.",
    ),
    "fig17": (
        "against an H100",
        "132 accelerators at 1.83 GHz share 3.35 TB/s: the products per second of an H100, whose floor from peak rates"
        " is no measurement. Times on an H200 are measured (studies/hopper), at lengths that were; accelerators then"
        " share its 4.8 TB/s. Values are the GPU's time over the accelerators'.",
    ),
    "table3": ("area and power", "Square millimetres and milliwatts at full activity; calibrated on this table."),
}
EXPERIMENTS = tuple(_TITLES)


def experiment(figure: str) -> Experiment:
    """The experiment behind a figure or table."""
    rows = {
        "fig10": _fig10,
        "fig12": _fig12,
        "fig13": _fig13,
        "fig14": _fig14,
        "fig15": _fig15,
        "fig16": _fig16,
        "fig17": _fig17,
        "table3": _table3,
    }
    name = figure.lower()
    if name not in rows:
        hint = did_you_mean(figure, EXPERIMENTS)
        raise InvalidInput(f"unknown experiment {figure!r}; {hint}choose one of {', '.join(EXPERIMENTS)}")
    title, caption = _TITLES[name]
    return Experiment(figure=name, title=title, caption=caption, rows=tuple(rows[name]()))


@lru_cache(maxsize=2048)
def _run(n: int, d: int, dataflow: Dataflow, machine: str = MACHINE, mask: str = "dense") -> Simulation:
    return simulate(Workload(n=n, d=d, mask=mask), machine_named(machine), dataflow=dataflow)


def _shapes() -> tuple[list[int], list[int]]:
    workload = published_data()["workload"]
    return workload["d"], workload["n"]


def _speedup(n: int, d: int, over: Dataflow, of: Dataflow, machine: str = MACHINE) -> float:
    return float(_run(n, d, over, machine).cycles / _run(n, d, of, machine).cycles)


def _fig10() -> Iterator[ExperimentRow]:
    printed = published_data()["figures"]["fig10"]
    bars = printed["read_off_printed_bars"]["speedup_over_standard_by_n"]
    widths, lengths = _shapes()
    for d in widths:
        for dataflow in _SPED_UP:
            for n, bar in zip(lengths, bars[str(d)][dataflow.value], strict=True):
                value = _speedup(n, d, Dataflow.STANDARD, dataflow)
                yield _row("fig10", d, ("n", n), dataflow.value, ("speedup over standard", value, bar))
        for dataflow in _BASELINES:
            value = geometric_mean([_speedup(n, d, dataflow, Dataflow.ATTENIO) for n in lengths])
            mean = printed["geomean_speedup_of_attenio_over"][str(d)][dataflow.value]
            yield _row("fig10", d, ("n", GEOMEAN), dataflow.value, ("speedup of attenio over", value, mean))


def _fig12() -> Iterator[ExperimentRow]:
    printed = published_data()["figures"]["fig12"]
    widths, lengths = _shapes()
    for d in widths:
        units: dict[tuple[Dataflow, str], float] = {}
        for dataflow in (*_BASELINES, Dataflow.ATTENIO):
            runs = [_run(n, d, dataflow) for n in lengths]
            for unit, name in (("pe", "PE array busy (%)"), ("exp", "EXP unit busy (%)")):
                values = [100 * (run.pe_utilisation if unit == "pe" else run.exp_utilisation) for run in runs]
                for n, value in zip(lengths, values, strict=True):
                    yield _row("fig12", d, ("n", n), dataflow.value, (name, value, None))
                mean = units[dataflow, unit] = geometric_mean(values)
                number = printed[f"attenio_{unit}_percent"][str(d)] if dataflow is Dataflow.ATTENIO else None
                yield _row("fig12", d, ("n", GEOMEAN), dataflow.value, (name, mean, number))
        ratio = units[Dataflow.ATTENIO, "exp"] / units[Dataflow.FLASH_ATTENTION_2, "exp"]
        number = printed["attenio_exp_over_flash_attention_2"][str(d)]
        yield _row("fig12", d, ("n", GEOMEAN), "attenio", ("EXP busy over flash-attention-2's", ratio, number))


def _fig13() -> Iterator[ExperimentRow]:
    printed = published_data()["figures"]["fig13"]["attenio_memory_stall_percent"]
    widths, lengths = _shapes()
    for d in widths:
        for dataflow in (*_BASELINES, Dataflow.ATTENIO):
            for n in lengths:
                number = printed[str(d)].get(str(n)) if dataflow is Dataflow.ATTENIO else None
                value = 100 * _run(n, d, dataflow).stall_fraction
                yield _row("fig13", d, ("n", n), dataflow.value, ("memory stalls (%)", value, number))


def _fig14() -> Iterator[ExperimentRow]:
    widths, lengths = _shapes()
    for kilobytes in _CACHES_KB:
        machine = f"attenio-{kilobytes}k"
        for d in widths:
            cycles = {(each, n): _run(n, d, each, machine).cycles for each in _SPED_UP for n in lengths}
            fastest = {n: _fastest_cycles(n, d, machine) for n in lengths}
            for reading, standard in (
                ("speedup over standard", {n: _run(n, d, Dataflow.STANDARD, machine).cycles for n in lengths}),
                ("speedup over standard whose rows fit", {n: _cycles_of_whole_rows(n, d, machine) for n in lengths}),
            ):
                for dataflow in _SPED_UP:
                    mean = geometric_mean([float(standard[n] / cycles[dataflow, n]) for n in lengths])
                    yield _row("fig14", d, ("cache_kb", kilobytes), dataflow.value, (reading, mean, None))
                mean = geometric_mean([float(standard[n] / fastest[n]) for n in lengths])
                name = f"{reading}, tiles of fewest cycles"
                yield _row("fig14", d, ("cache_kb", kilobytes), Dataflow.ATTENIO.value, (name, mean, None))


@lru_cache(maxsize=512)
def _fastest_cycles(n: int, d: int, machine: str) -> Fraction:
    return simulate_plan(fastest_plan(Workload(n=n, d=d), machine), machine).cycles


@lru_cache(maxsize=512)
def _cycles_of_whole_rows(n: int, d: int, machine: str) -> Fraction:
    """Standard's, if every row of scores fitted into its cache."""
    plan = _run(n, d, Dataflow.STANDARD, machine).plan
    whole = replace(plan, tiles=Tiles.of(**{**plan.tiles, "resident_keys": n}))
    return simulate_plan(whole, machine).cycles


def _fig15() -> Iterator[ExperimentRow]:
    widths, lengths = _shapes()
    for d in widths:
        for dataflow in _SPED_UP:
            for n in lengths:
                value = float(_run(n, d, Dataflow.STANDARD).cycles / _run(n, d, dataflow, MACHINE, "causal").cycles)
                yield _row("fig15", d, ("n", n), dataflow.value, ("speedup over standard", value, None))


def _fig16() -> Iterator[ExperimentRow]:
    machine = machine_named(MACHINE)
    for n in (1024, 2048, 4096, 8192):
        every = {each: layer_cycles(machine, n=n, dataflow=each) for each in (Dataflow.STANDARD, *_SPED_UP)}
        for dataflow in _SPED_UP:
            value = float(every[Dataflow.STANDARD].total / every[dataflow].total)
            share = float(100 * every[dataflow].attention / every[dataflow].total)
            yield _row("fig16", 128, ("n", n), dataflow.value, ("speedup over standard", value, None))
            yield _row("fig16", 128, ("n", n), dataflow.value, ("attention's share (%)", share, None))
            seconds = float(every[dataflow].total) / Hardware.of(machine).clock_hz
            yield _row("fig16", 128, ("n", n), dataflow.value, ("whole model (s)", seconds, None))
            if n > _PROFILED_BEYOND:
                faster = float(every[Dataflow.STANDARD].attention / every[dataflow].attention)
                value = 1 / (1 - _PROFILED_SHARE + _PROFILED_SHARE / faster)
                name = f"speedup where standard attention takes {_PROFILED_SHARE:.0%}"
                yield _row("fig16", 128, ("n", n), dataflow.value, (name, value, None))


def _fig17() -> Iterator[ExperimentRow]:
    gpu, measured_gpu, measured = machine_named("h100"), machine_named("h200"), measured_rates()
    units = gpu.levels[0].units
    scaled, scaled_to_measured = _scaled_to(gpu, units), _scaled_to(measured_gpu, units)
    widths, lengths = _shapes()
    hidden = published_data()["workload"]["hidden"]
    for d in widths:
        heads = hidden // d
        for n in lengths:
            workload = Workload(n=n, d=d, heads=heads)
            one = simulate(Workload(n=n, d=d), scaled)
            # tiles of queries are independent, so the heads' tiles are dealt out evenly to the units
            seconds = one.seconds * heads / units
            floor = max(
                workload.flops / gpu.flops_per_s[workload.dtype],
                workload.scores / (gpu.exponentials_per_s or math.inf),
                workload.compulsory_words * 2 / (gpu.levels[-1].bandwidth_bytes_per_s or math.inf),
            )
            yield _row("fig17", d, ("n", n), "attenio", ("H100's floor over its time", floor / seconds, None))
            beside = simulate(Workload(n=n, d=d), scaled_to_measured).seconds * heads / units
            for name, rates in measured["tflop_per_s"].items():
                if rate := rates[str(d)].get(str(n)):
                    value = workload.flops / (rate * 1e12) / beside
                    yield _row("fig17", d, ("n", n), "attenio", (f"time of {name} on an H200 over its", value, None))


def _scaled_to(gpu: Machine, units: int) -> Machine:
    """One of as many accelerators as the GPU has units, at its clock, with an equal share of its bandwidth."""
    machine = machine_named(MACHINE)
    assert machine.accelerator is not None
    rate = (gpu.levels[-1].bandwidth_bytes_per_s or 0.0) / units
    memory = MemoryLevel(name="HBM", bandwidth_bytes_per_s=float(round(rate)))
    parts = replace(machine.accelerator, clock_hz=1_830_000_000)
    return Machine(name=f"scaled to {gpu.name}", levels=(machine.levels[0], memory), accelerator=parts)


def _table3() -> Iterator[ExperimentRow]:
    printed = published_data()["figures"]["table3"]
    hardware = Hardware.of(machine_named(MACHINE))
    names = {Component.PE: "pe", Component.EXP: "exp", Component.KV: "kv", Component.CACHE: "cache"}
    area = {names[part]: mm2 for part, mm2 in area_of(hardware).mm2}
    power = {names[part]: 1e3 * watts for part, watts in peak_power_watts(hardware).items()}
    for quantity, key, by_part in (("area (mm²)", "area_mm2", area), ("power (mW)", "power_mw", power)):
        for part in (*by_part, "total"):
            value = sum(by_part.values()) if part == "total" else by_part[part]
            yield _row("table3", None, ("part", part), "attenio", (quantity, value, printed[key][part]))
    for d in _shapes()[0]:
        ours, theirs = _run(2**17, d, Dataflow.ATTENIO), _run(2**17, d, Dataflow.FLASH_ATTENTION_2)
        number = published_data()["figures"]["energy"]["attenio_over_flash_attention_2"][str(d)]
        on_chip = theirs.energy.chip_joules / ours.energy.chip_joules
        whole = theirs.energy.total_joules / ours.energy.total_joules
        name = "energy of flash-attention-2 over attenio's"
        yield _row("table3", d, ("part", "chip"), "attenio", (name, on_chip, number))
        yield _row("table3", d, ("part", "chip and HBM"), "attenio", (name, whole, None))


def _row(
    figure: str, d: int | None, at: tuple[str, int | str], dataflow: str, measured: tuple[str, float, float | None]
) -> ExperimentRow:
    quantity, value, published = measured
    return ExperimentRow(
        figure=figure, d=d, axis=at[0], at=at[1], dataflow=dataflow, quantity=quantity, value=value, published=published
    )
