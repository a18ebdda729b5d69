"""``attenio machines``: what the catalogue knows of machines."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.options import AsJson
from attenio.cli.output import plain_table, print_json, print_tables, prose
from attenio.plain_values import plain_fields
from attenio.quantities import show_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from attenio.machine import Machine, MemoryLevel


def machines(
    name: Annotated[str | None, typer.Argument(help="One machine or YAML file, in full.", metavar="NAME|PATH")] = None,
    as_json: AsJson = False,
) -> None:
    """List the machines that --machine knows, or show one with its levels, rates and source.

    \b
    Examples:
      attenio machines
      attenio machines h100
      attenio machines h100 --json > my-gpu.yaml     a file to start one's own from
      attenio machines my-gpu.yaml                   check it
    """
    from attenio import catalogue

    if name is None:
        known = catalogue.machines()
        if as_json:
            print_json([_as_json(machine) for machine in known])
        else:
            print_tables(_overview(known))
        return
    machine = catalogue.machine_named(name)
    if as_json:
        print_json(_as_json(machine))
    else:
        print_tables(*_in_full(machine))


def _as_json(machine: "Machine") -> dict[str, Any]:
    """The machine under the keys of a machine file, so that one can be started from it."""
    units = {"granularity": {element.value: asdict(unit) for element, unit in machine.granularity.items()}}
    units = units if machine.granularity else {}
    capability = machine.compute_capability
    gpu = {} if capability is None else {"compute_capability": "{}.{}".format(*capability)}
    parts = {} if machine.accelerator is None else {"accelerator": asdict(machine.accelerator)}
    return {
        **plain_fields(machine, "name", "description", "source"),
        "levels": [asdict(level) for level in machine.levels],
        "flops_per_s": {element.value: rate for element, rate in machine.flops_per_s.items()},
        "exponentials_per_s": machine.exponentials_per_s,
        **units,
        **gpu,
        **parts,
        **({"links": [{**asdict(link), "shape": link.shape.value} for link in machine.links]} if machine.links else {}),
    }


def _overview(known: "tuple[Machine, ...]") -> "Table":
    table = plain_table("machine", "memory, fastest first", ("slowest rate", "right"), "what it is")
    for machine in known:
        levels = " > ".join(_short(level) for level in machine.levels)
        what = machine.description.split(": ")[0].split(". ")[0].rstrip(".")
        table.add_row(machine.name, levels, _rate(machine.levels[-1].bandwidth_bytes_per_s), what)
    return table


def _in_full(machine: "Machine") -> "tuple[RenderableType, ...]":
    levels = plain_table("level", ("units", "right"), ("each holds", "right"), ("rate to the level above", "right"))
    for level in machine.levels:
        holds = "everything" if level.capacity_bytes is None else show_bytes(level.capacity_bytes)
        levels.add_row(level.name, f"{level.units:,}", holds, _rate(level.bandwidth_bytes_per_s))
    rates = [f"{element.value} {rate / 1e12:,.4g} TFLOP/s" for element, rate in machine.flops_per_s.items()]
    if machine.exponentials_per_s is not None:
        rates.append(f"exponentials {machine.exponentials_per_s / 1e9:,.5g} G/s")
    lines = (
        ", ".join(rates),
        ", ".join(f"{element.value} in {unit}" for element, unit in machine.granularity.items()),
        _parts(machine),
        _links(machine),
        machine.description,
        f"Source: {machine.source}" if machine.source else "",
    )
    return (machine.name, levels, *(prose(line) for line in lines if line))


def _parts(machine: "Machine") -> str:
    """The accelerator in a line, if the machine has one."""
    parts = machine.accelerator
    if parts is None:
        return ""
    return (
        f"accelerator: {parts.pe_lines:,} lines of {parts.macs_per_line:,} MACs, {parts.exp_modules:,} EXP modules,"
        f" KV buffer {show_bytes(parts.kv_buffer_bytes)}, {parts.clock_hz / 1e9:g} GHz,"
        f" {parts.hbm.channels} HBM channels"
    )


def _links(machine: "Machine") -> str:
    """The links to other devices in a line, the closest first."""
    joined = [f"{link.name} joins {link.devices:,} at {_rate(link.bandwidth_bytes_per_s)}" for link in machine.links]
    return f"links: {', '.join(joined)}" if joined else ""


def _short(level: "MemoryLevel") -> str:
    units = f"{level.units} x " if level.units > 1 else ""
    return f"{level.name} {units}{show_bytes(level.capacity_bytes)}" if level.capacity_bytes else level.name


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else f"{bytes_per_s / 1e9:,.5g} GB/s"
