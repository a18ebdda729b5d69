"""``attenio explore-design``: sizes of the accelerator's parts under a budget of area or power."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.grid import numbers, sizes
from attenio.cli.options import AsJson, option_field, taking
from attenio.cli.output import check_place, plain_table, print_json, print_tables, progress_bar, prose
from attenio.cli.question import DEFAULT_N, DataflowName, Question, dataflow_named
from attenio.errors import InvalidInput
from attenio.names import member_named
from attenio.quantities import parse_count, show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.accelerator.designs import Designs
    from attenio.accelerator.exploration import Budget, Design, Exploration
    from attenio.machine import Machine

# Around the published design, a factor of four and more to both sides.
_LINES, _MACS, _MODULES = "16:256:x2", "8:128:x2", "16,32,48,64,96,128,160,192,224,256,320,384,512"
_CHANNELS = "2:64:x2"
# 264KB and 528KB are those whose rows, at width 64, fill 1,024 and 2,048 MACs.
_CACHES = "32KB,64KB,96KB,128KB,192KB,256KB,264KB,320KB,384KB,448KB,512KB,528KB,640KB,768KB,1MB,1536KB,2MB,4MB"
_SHOWN = 20
_NO_TIME = 1.001


def _sizes(help: str, default: str) -> Any:
    return option_field(help, "LIST", panel="Sizes", default=default, show_default=True)


@dataclass(frozen=True, kw_only=True)
class Searched:
    """Which designs are searched, as typed: what they run, a budget, and lists of the sizes of parts."""

    dataflow: DataflowName = None
    area_mm2: str | None = option_field(
        "Largest area of the chip, mm² (default, without a budget: the machine's).", "NUMBER", panel="Budget"
    )
    power_mw: str | None = option_field("Largest power at full activity, mW.", "NUMBER", panel="Budget")
    pe_lines: str = _sizes("Lines of the PE array.", _LINES)
    macs_per_line: str = _sizes("MACs of a line.", _MACS)
    exp_modules: str = _sizes("Modules of the EXP unit.", _MODULES)
    cache: str = _sizes("Bytes of the cache.", _CACHES)
    channels: str = _sizes("Channels of the memory, each as fast as the machine's.", _CHANNELS)
    key_tile: str = _sizes("Keys at a time; the KV buffer holds them.", "1")
    tiles: str = _sizes("published (as many queries as fit) or fastest (or as many as fill the array).", "fastest")

    def budget(self) -> "Budget | None":
        """The area and the power that designs keep to, where one of them is given."""
        from attenio.accelerator.exploration import Budget

        given = {"area_mm2": self.area_mm2, "power_mw": self.power_mw}
        values = {name: _number(name, text) for name, text in given.items() if text is not None}
        return Budget(**values) if values else None

    def designs(self, machine: "Machine") -> "Designs":
        """Every combination of the sizes, the rest as on the machine."""
        from attenio.accelerator.designs import Designs

        keys = parse_count(self.key_tile, "key-tile")
        if keys < 1:
            raise InvalidInput(f"key-tile is {keys:,}; it must be at least 1")
        return Designs.product(
            machine,
            key_tile=keys,
            pe_lines=numbers(self.pe_lines, "pe-lines"),
            macs_per_line=numbers(self.macs_per_line, "macs-per-line"),
            exp_modules=numbers(self.exp_modules, "exp-modules"),
            cache_bytes=sizes(self.cache, "cache"),
            channels=numbers(self.channels, "channels"),
        )


@taking(Question, Searched)
def explore_design(
    question: Question,
    searched: Searched,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw time against area, as .svg.", metavar="PATH")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sweep the accelerator's parts under a budget: the fastest design, those that no other beats, what to grow next.

    Every combination of the lists runs AttenIO's program, or another --dataflow's, exactly as simulate does. What is
    not swept (clock, memory timings, rate of a channel) is as on --machine. AttenIO, dense or causal, runs on all
    designs at once; others run one by one, so sweep fewer sizes for them.

    \b
    Examples:
      attenio explore-design --n 128K --d 64
      attenio explore-design --n 32K --d 128 --area-mm2 2 --json
      attenio explore-design --mask causal
      attenio explore-design --dataflow flash-attention-2 --pe-lines 64 --macs-per-line 16:64:x2 --channels 8,16
      attenio explore-design --power-mw 1500 --channels 16 --picture front.svg
      attenio explore-design --pe-lines 64 --macs-per-line 32 --exp-modules 64:512:+16 --cache 128KB:1MB:+64KB
    """
    from attenio.accelerator.designs import Tiling
    from attenio.accelerator.exploration import explore
    from attenio.planning import Dataflow
    from attenio.workload import Direction

    if picture is not None:
        check_place(picture)
        if picture.suffix.lower() != ".svg":
            raise InvalidInput(f"picture {picture} is not an .svg file; give it this ending")
    tiling = member_named(Tiling, searched.tiles, "tiles")
    budget = searched.budget()
    question.refuse_tolerance("designs are compared for")
    workload, machine = question.separate_workload(DEFAULT_N), question.chosen_machine()
    designs = searched.designs(machine)
    default = Dataflow.KEY_STATIONARY if workload.direction is Direction.BACKWARD else Dataflow.ATTENIO
    chosen = dataflow_named(searched.dataflow) or default
    with progress_bar(f"running {len(designs):,} designs") as progress:
        exploration = explore(designs, workload, budget, dataflow=chosen, tiling=tiling, progress=progress)
    if picture is not None:
        from attenio.files import write_atomically
        from attenio.report.design_figure import design_svg

        write_atomically(picture, design_svg(exploration))
    if as_json:
        print_json(exploration.to_json())
        return
    different = len(each_once([exploration.best, *exploration.front]))
    shown = f", {different:,} of them different in more than bandwidth, which is the least that costs no time"
    shown += "" if different <= _SHOWN else "; the fastest are above, all with --json"
    lines = [prose(f"{len(exploration.front):,} designs that no other beats{shown}"), prose(exploration.advice)]
    drawn = [] if picture is None else [f"The picture is in {picture}"]
    print_tables(prose(_title(exploration)), _designs(exploration), _growths(exploration), *lines, *drawn)


def _number(name: str, text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise InvalidInput(f"{name.replace('_', '-')} is {text!r}; give a number such as 3.72") from None


def _title(exploration: "Exploration") -> str:
    limits = [
        f"{value:.4g} {unit}" for value, unit in zip(vars(exploration.budget).values(), ("mm²", "mW"), strict=True)
    ]
    allowed = " and ".join(limit for limit in limits if not limit.startswith("inf")) or "no limit"
    within = f"{exploration.within:,} of {exploration.designs:,} designs keep to {allowed}"
    return f"{exploration.dataflow.value} on {exploration.workload}: {within}"


def _designs(exploration: "Exploration") -> "Table":
    numbers_of = ("lines", "MACs", "EXP", "cache", "rows", "GB/s", "mm²", "mW", "time", "speedup")
    table = plain_table("design", *((name, "right") for name in numbers_of))
    listed = each_once([exploration.best, *exploration.front])
    if _parts(exploration.base) in [_parts(design) for design in listed]:
        rows = [("the machine" if _parts(design) == _parts(exploration.base) else "", design) for design in listed]
        rows[0] = ("fastest, the machine" if rows[0][0] else "fastest", listed[0])
    else:
        rows = [("the machine", exploration.base), ("fastest", listed[0]), *(("", design) for design in listed[1:])]
    rows = rows[:_SHOWN]
    for name, design in rows:
        table.add_row(name, *_cells(design), f"{float(exploration.base.cycles / design.cycles):.3g}")
    return table


def each_once(designs: "list[Design]") -> "list[Design]":
    """Designs that differ in more than channels, in their order: each with the fewest channels that cost no time.

    No time is less than a thousandth: a design with twice the bandwidth and the same parts is no other design then.
    """
    best: dict[tuple[int, ...], Design] = {}
    for design in designs:
        kept = best.setdefault(_parts(design), design)
        slower = float(design.cycles / kept.cycles) if kept.cycles else 1.0
        if slower <= _NO_TIME and dict(design.sizes)["channels"] < dict(kept.sizes)["channels"]:
            best[_parts(design)] = design
    return list(best.values())


def _parts(design: "Design") -> tuple[int, ...]:
    return tuple(size for name, size in design.sizes if name != "channels")


def _cells(design: "Design") -> tuple[str, ...]:
    parts = dict(design.sizes)
    return (
        f"{parts['pe_lines']:,}",
        f"{parts['macs_per_line']:,}",
        f"{parts['exp_modules']:,}",
        show_bytes(parts["cache_bytes"]),
        f"{design.query_tile:,}",
        f"{design.bandwidth_gb_per_s:,.4g}",
        f"{design.area_mm2:.3g}",
        f"{design.power_mw:,.0f}",
        show_seconds(design.seconds),
    )


def _growths(exploration: "Exploration") -> "Table":
    table = plain_table("twice as many", ("would be", "right"), ("speedup", "right"), ("added mm²", "right"))
    for growth in exploration.growths:
        table.add_row(growth.part, growth.shown_size, f"{growth.speedup:.3f}", f"{growth.area_mm2:.2f}")
    return table
