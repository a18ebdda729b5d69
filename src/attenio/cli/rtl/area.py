"""``attenio rtl area``: areas and longest paths of the parts, beside the published table."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.cli.options import AsJson, option_field, taking
from attenio.cli.output import plain_table, print_aside, print_json, print_tables, progress_bar
from attenio.cli.question import DataflowName, Question
from attenio.cli.rtl.designing import design_of
from attenio.errors import InvalidInput

if TYPE_CHECKING:
    from attenio.accelerator.rtl.area import MachineArea
    from attenio.accelerator.rtl.design import Design

_PUBLISHED_NM = 22


@dataclass(frozen=True, kw_only=True)
class Library:
    """Which cells parts are made of, as typed."""

    dataflow: DataflowName = None
    liberty: Path | None = option_field("A liberty of standard cells.", "PATH", panel="Cells")
    fetch_liberty: bool = option_field(
        "Fetch the NanGate 45 nm cells, under the licence in their head, and keep them.", panel="Cells", default=False
    )
    node_nm: str = option_field("The process of the liberty, in nm.", "NUMBER", panel="Cells", default="45")
    power: bool = option_field(
        "Run the machine, and count the energy of MACs and EXP modules by their activity.", panel=None, default=False
    )

    def path(self) -> Path:
        """The file, fetched if that was asked for."""
        from attenio.accelerator.rtl.area import fetch_liberty
        from attenio.accelerator.rtl.cxxrtl_model import rtl_folder

        if self.liberty is not None:
            return self.liberty
        if not self.fetch_liberty:
            raise InvalidInput(
                "areas take a library of cells: give --liberty (such as OSU's open osu018_stdcells.lib, with"
                " --node-nm 180), or --fetch-liberty for NanGate's at 45 nm"
            )
        print_aside("fetching the NanGate 45 nm cells; the head of the file has its licence")
        return fetch_liberty(rtl_folder())

    def process_nm(self) -> float:
        """The process."""
        try:
            found = float(self.node_nm)
        except ValueError:
            found = 0.0
        if not found > 0:
            raise InvalidInput(f"node-nm is {self.node_nm!r}; give the process in nm, such as 45")
        return found


@taking(Question, Library)
def area(question: Question, library: Library, as_json: AsJson = False) -> None:
    """Synthesise every part of an accelerator, add the machine up, scale it to 22 nm, set it beside table 3.

    Areas are those of cells before layout. The banks of the cache are memories: bits, at what CACTI has for each. With
    --power a small machine is run, and its netlists gate by gate on what their ports saw.

    \b
    Examples:
      attenio rtl area --machine attenio-512k --n 1985 --d 64 --fetch-liberty
      attenio rtl area --machine tiny.yaml --n 8 --d 8 --fetch-liberty --power
      attenio rtl area --machine tiny.yaml --n 32 --d 8 --liberty osu018_stdcells.lib --node-nm 180 --json
    """
    design = design_of(question, library.dataflow)
    from attenio.accelerator.rtl.area import machine_area
    from attenio.accelerator.rtl.installed import sta_version
    from attenio.accelerator.rtl.power import check_power

    if library.power:
        check_power(design)
    liberty, node_nm, sta = library.path(), library.process_nm(), sta_version()
    with progress_bar("synthesising") as progress:
        found = machine_area(design, liberty, node_nm=node_nm, progress=progress)
    spent = _spent(design, liberty, node_nm) if library.power else None
    _say_what_is_missing(sta, with_power=library.power)
    rows = _beside_published(design, found)
    if as_json:
        parts = [{**vars(each), "total_um2": each.total_um2} for each in found.parts]
        told = {"node_nm": found.node_nm, "parts": parts, "memory_bits": found.memory_bits, "components": rows}
        print_json(told | {"sta": sta} | ({} if spent is None else {"power": spent}))
        return
    table = plain_table("part", ("µm²", "right"), ("times", "right"), ("mm²", "right"), ("longest path (ps)", "right"))
    for each in found.parts:
        path = each.path_ps if each.sta_path_ps is None else each.sta_path_ps
        sizes = (f"{each.area_um2:,.0f}", f"{each.times:,}", f"{each.total_um2 / 1e6:.4f}", f"{path:,.0f}")
        table.add_row(each.part, *sizes)
    beside = plain_table("component", ("mm²", "right"), ("at 22 nm (mm²)", "right"), ("published (mm²)", "right"))
    for row in rows:
        published = "-" if row["published_mm2"] is None else f"{row['published_mm2']:.4f}"
        own = "-" if row["mm2"] is None else f"{row['mm2']:.4f}"
        beside.add_row(row["component"], own, f"{row['mm2_at_22_nm']:.4f}", published)
    print_tables(
        f"{design.machine.name}, cells of {found.node_nm:g} nm",
        table,
        beside,
        *(() if spent is None else (_power_table(spent),)),
    )


def _beside_published(design: "Design", found: "MachineArea") -> list[dict[str, Any]]:
    from attenio.accelerator.energy import Component, area_of
    from attenio.accelerator.rtl.area import BANK_UM2_A_BIT, scaled

    published = dict(area_of(design.hardware).mm2)
    rows: list[dict[str, Any]] = []
    for name, um2 in (
        *((part.value, found.component_um2(part)) for part in (Component.PE, Component.EXP, Component.KV)),
        ("controllers and port", found.others_um2),
    ):
        at_22 = scaled(um2, from_nm=found.node_nm, to_nm=_PUBLISHED_NM)
        theirs = next((mm2 for part, mm2 in published.items() if part.value == name), None)
        rows.append({"component": name, "mm2": um2 / 1e6, "mm2_at_22_nm": at_22 / 1e6, "published_mm2": theirs})
    # banks are no cells of the library: CACTI has them at 22 nm only
    banks, theirs = found.memory_bits * BANK_UM2_A_BIT / 1e6, published[Component.CACHE]
    rows.append({"component": Component.CACHE.value, "mm2": None, "mm2_at_22_nm": banks, "published_mm2": theirs})
    return rows


def _say_what_is_missing(sta: str | None, *, with_power: bool) -> None:
    from attenio.accelerator.rtl.installed import counts_both_edges

    if sta is None:
        also = ", and power is our own count alone" if with_power else ""
        print_aside(f"OpenSTA is not installed: paths are to first order, without slopes{also}")
    elif with_power and counts_both_edges(sta):
        print_aside(
            f"OpenSTA {sta} takes a rise and a fall inside a cell for every change, twice what it spends or more;"
            " 2.2 and later do not"
        )


def _spent(design: "Design", liberty: Path, node_nm: float) -> list[dict[str, Any]]:
    """Joules of the parts, by every count."""
    from attenio.accelerator.rtl.power import machine_power, scaled_joules, volts_of
    from attenio.accelerator.rtl.timing import read_liberty

    with progress_bar("running gate by gate"):
        found = machine_power(design, liberty)
    volts = volts_of(read_liberty(liberty))
    return [
        {
            **vars(each),
            "component": each.component.value,
            "joules": each.joules,
            "joules_at_22_nm": scaled_joules(each.joules, from_nm=node_nm, volts=volts),
        }
        for each in found
    ]


def _power_table(spent: list[dict[str, Any]]) -> Any:
    names = ("joules", "sta_joules", "sta_wired_joules", "joules_at_22_nm", "simulated_joules")
    heads = ("nJ by gates", "by OpenSTA", "with wires", "at 22 nm", "simulated")
    table = plain_table("component", ("cycles", "right"), *((head, "right") for head in heads))
    for row in spent:
        numbers = ("-" if row[name] is None else f"{1e9 * row[name]:,.2f}" for name in names)
        table.add_row(row["component"], f"{row['cycles']:,}", *numbers)
    return table
