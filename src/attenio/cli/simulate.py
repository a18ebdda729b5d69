"""``attenio simulate``: a plan run on an accelerator, in cycles and joules."""

from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.cli.options import AsJson, option_field, taking
from attenio.cli.output import check_place, plain_table, print_aside, print_json, print_tables, progress_bar
from attenio.cli.question import DEFAULT_N, DataflowName, Question, dataflow_named
from attenio.errors import InvalidInput
from attenio.names import did_you_mean, member_named
from attenio.quantities import parse_count, show_joules, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.accelerator import ExpApproximation, FunctionalRun, Simulation
    from attenio.accelerator.refresh import RefreshRun, RefreshTimes
    from attenio.planning import Dataflow
    from attenio.workload import Direction

# Numbers are computed step by step in NumPy: this many positions take seconds.
COMPUTED_N = 512
# Steps of a timeline in a file: 300 MB, and about as much as viewers open.
_MOST_STEPS = 2_000_000
_OVERLAPS = {"values": "overlap_values", "keys": "overlap_keys", "queries": "overlap_queries"}
_SOFTMAXES = ("parallel", "rows")


@dataclass(frozen=True, kw_only=True)
class HowRun:
    """How a dataflow is run, as typed."""

    dataflow: DataflowName = None
    overlaps: str | None = option_field(
        "Which loads overlap computation: any of values,keys,queries, or none (default: all).", "LIST", panel="AttenIO"
    )
    softmax: str | None = option_field(
        "parallel (pipelined maps over rows, the default) or rows (reductions along rows).", "LIST", panel="AttenIO"
    )
    events: bool = option_field("Event by event; the same answer, slower.", panel="AttenIO", default=False)
    fastest: bool = option_field(
        "With the tiles of fewest cycles, where the paper's move fewest words.", panel="AttenIO", default=False
    )
    refresh: str | None = option_field(
        "Also with refreshes at their times, step by step: together or by-channel (else their average).",
        "WHEN",
        panel="AttenIO",
    )
    compute: str | None = option_field(
        "Compute random numbers too, in fp16, with exponentials table (the unit's), linear or rounded.",
        "KIND",
        panel=None,
    )

    @property
    def is_all(self) -> bool:
        """Whether every dataflow is asked for."""
        return self.dataflow is not None and self.dataflow.strip().lower() == "all"

    def refuse_options_of_one(self, files: "Files") -> None:
        """What is about one dataflow is refused beside all of them."""
        for name in ("overlaps", "softmax", "refresh", "compute"):
            if getattr(self, name) is not None:
                raise InvalidInput(f"--{name} is about one dataflow, and --dataflow all asks for each; name one")
        if self.fastest:
            raise InvalidInput("--fastest is about attenio, and --dataflow all asks for each; name one")
        for name in ("trace", "picture", "picture_cycles"):
            if getattr(files, name) is not None:
                shown = name.replace("_", "-")
                raise InvalidInput(f"--{shown} is of one timeline, and --dataflow all has several; name one dataflow")

    def chosen(self, direction: "Direction") -> "Dataflow":
        """The dataflow that runs; refused where it has nothing to switch."""
        from attenio.accelerator.controller import SWITCHED
        from attenio.planning import Dataflow
        from attenio.workload import Direction

        default = Dataflow.KEY_STATIONARY if direction is Direction.BACKWARD else Dataflow.ATTENIO
        try:
            found = dataflow_named(self.dataflow) or default
        except InvalidInput as unknown:
            raise InvalidInput(str(unknown).replace("choose one of ", "choose one of all, ")) from None
        if (self.overlaps is not None or self.softmax is not None) and found not in SWITCHED:
            given = "overlaps" if self.overlaps is not None else "softmax"
            raise InvalidInput(
                f"{found.value} has no overlaps and no parallel softmax to switch; leave --{given} out, or use one of"
                f" {', '.join(each.value for each in SWITCHED)}"
            )
        if self.fastest and found is not Dataflow.ATTENIO:
            raise InvalidInput(f"--fastest chooses tiles of attenio, not of {found.value}; leave it out")
        return found


@dataclass(frozen=True, kw_only=True)
class Files:
    """What of a timeline is written to files, as typed."""

    trace: Path | None = option_field("Write a timeline that Perfetto opens, as JSON.", "PATH", panel=None)
    picture: Path | None = option_field("Draw a few rounds of the timeline, as .svg or .html.", "PATH", panel=None)
    picture_cycles: str | None = option_field("Which cycles to draw: first:last, such as 0:5000.", "RANGE", panel=None)

    def check(self) -> None:
        """Refuse places where nothing can be written, before anything runs."""
        for path in filter(None, (self.trace, self.picture)):
            check_place(path)
        if self.trace is not None and self.picture is not None and self.trace.resolve() == self.picture.resolve():
            raise InvalidInput(f"trace and picture would both be {self.trace}; give each its own file")

    def write(self, done: "Simulation", drawing: str | None) -> int:
        """Write what was asked for; how many steps did not go into the timeline."""
        from attenio.files import write_atomically

        if self.picture is not None and drawing is not None:
            write_atomically(self.picture, drawing)
        return 0 if self.trace is None else _write_trace(self.trace, done)

    @property
    def lines(self) -> list[str]:
        """Where files are, for people."""
        lines = [] if self.trace is None else [f"The timeline is in {self.trace}; open it with https://ui.perfetto.dev"]
        return lines if self.picture is None else [*lines, f"The picture is in {self.picture}"]


@taking(Question, HowRun, Files)
def simulate(question: Question, how: HowRun, files: Files, as_json: AsJson = False) -> None:
    """Run a dataflow on the accelerator of a machine: cycles, utilisation, stalls, words moved, energy.

    Tiles are those of the dataflow's paper, or the planner's best where these do not fit; with --fastest they are those
    of fewest cycles. Every idle cycle of every engine has a reason.

    \b
    Examples:
      attenio simulate --dataflow attenio --n 131072 --d 64 --machine attenio-512k --json
      attenio simulate --dataflow flash-attention-2 --n 32K --d 128 --mask causal
      attenio simulate --dataflow all --n 32K --d 64
      attenio simulate --n 8K --overlaps none --softmax rows
      attenio simulate --n 4K --d 64 --trace timeline.json --picture timeline.svg
      attenio simulate --n 256 --d 64 --mask causal --compute table --json
      attenio simulate --n 4K --d 64 --refresh by-channel
      attenio simulate --n 32K --d 128 --machine attenio-640k --fastest
    """
    from attenio.accelerator import fastest_plan, plan_for, simulate_plan

    question.refuse_tolerance("the accelerator runs")
    if how.is_all:
        from attenio.cli.simulate_all import simulate_all

        how.refuse_options_of_one(files)
        workload, machine = question.separate_workload(DEFAULT_N), question.chosen_machine()
        simulate_all(workload, machine, by_events=how.events, as_json=as_json)
        return
    files.check()
    drawn, exponentials = _Picture.of(files.picture, files.picture_cycles), _exponentials(how.compute)
    switches, refresh_times = _switches(how.overlaps, how.softmax), _refresh_times(how.refresh)
    default_n = DEFAULT_N if how.compute is None else COMPUTED_N
    workload = question.separate_workload(default_n, executed=how.compute is not None)
    machine = question.chosen_machine()
    chosen = how.chosen(workload.direction)
    plan = fastest_plan(workload, machine, switches=switches) if how.fastest else plan_for(workload, machine, chosen)
    done = simulate_plan(plan, machine, switches=switches, by_events=how.events)
    # files come last: what is refused leaves none behind
    drawing = None if drawn is None else drawn.content(done)
    refreshes = None if refresh_times is None else _refreshed(done, refresh_times)
    computed = None if exponentials is None else _computed(done, exponentials)
    left_out = files.write(done, drawing)
    if as_json:
        also: dict[str, Any] = {}
        if refreshes is not None:
            also |= {"refresh": refreshes.when.value, "refresh_cycles": ceil(refreshes.cycles)}
        also |= {} if files.trace is None else {"trace": str(files.trace), "trace_steps_left_out": left_out}
        print_json({**done.to_json(), **also, **({} if computed is None else _errors(computed))})
        return
    lines = files.lines
    if refreshes is not None:
        more = float(refreshes.cycles / done.cycles) - 1 if done.cycles else 0.0
        lines.append(
            f"with refreshes {refreshes.when.value}: {ceil(refreshes.cycles):,} cycles, {more:+.2%} on their average"
        )
    if computed is not None:
        lines.append(
            f"computed in fp16, {how.compute} exponentials: largest error against float64 {computed.max_abs_error:.3g}"
            + (f"; rounding may give {computed.error_bound:.2g}" if isfinite(computed.error_bound) else "")
        )
    print_tables(f"{workload} on {machine.name}", _summary(done), _idle(done), *lines)


@dataclass(frozen=True, kw_only=True)
class _Picture:
    """A picture that was asked for: where it goes, and which cycles it shows."""

    path: Path
    cycles: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path | None, cycles: str | None) -> "_Picture | None":
        if path is None:
            if cycles is not None:
                raise InvalidInput("--picture-cycles are those of a picture; name its file with --picture")
            return None
        if path.suffix.lower() not in (".svg", ".html"):
            raise InvalidInput(f"picture {path} is neither .svg nor .html; give it one of these endings")
        if cycles is None:
            return cls(path=path, cycles=None)
        first, colon, last = cycles.partition(":")
        begin = parse_count(first, "first cycle")
        end = parse_count(last, "last cycle") if colon else begin
        if not 0 <= begin < end:
            raise InvalidInput(f"picture-cycles is {cycles!r}; write first:last, such as 0:5000, the last one later")
        return cls(path=path, cycles=(begin, end))

    def content(self, done: "Simulation") -> str:
        """What the file will hold."""
        from fractions import Fraction

        from attenio.report.timeline_picture import timeline_html, timeline_svg

        title = f"{done.plan.dataflow.value}: {done.plan.workload} on {done.machine.name}"
        begin = None if self.cycles is None else Fraction(self.cycles[0])
        cycles = None if self.cycles is None else Fraction(self.cycles[1] - self.cycles[0])
        svg = timeline_svg(done.program, title=title, begin=begin, cycles=cycles)
        return svg if self.path.suffix.lower() == ".svg" else timeline_html(svg, title=title)


def _write_trace(path: Path, done: "Simulation") -> int:
    """Write the timeline; how many steps did not go into it, which is said where there are any."""
    from attenio.accelerator import trace_text
    from attenio.files import write_atomically

    left_out = max(0, done.program.steps - _MOST_STEPS)
    if left_out:
        print_aside(
            f"the timeline has {done.program.steps:,} steps; viewers open {_MOST_STEPS:,}, and {path} gets these first"
            f" ones, without the last {left_out:,}; a smaller --n has them all"
        )
    with progress_bar(f"writing {path}") as progress:
        write_atomically(path, trace_text(done.program, most_steps=_MOST_STEPS, progress=progress))
    return left_out


def _exponentials(name: str | None) -> "ExpApproximation | None":
    from attenio.accelerator import ExpApproximation

    return None if name is None else member_named(ExpApproximation, name, "exponentials")


def _refresh_times(name: str | None) -> "RefreshTimes | None":
    from attenio.accelerator.refresh import RefreshTimes

    return None if name is None else member_named(RefreshTimes, name, "refresh times")


def _refreshed(done: "Simulation", when: "RefreshTimes") -> "RefreshRun":
    from attenio.accelerator.refresh import refreshed

    return refreshed(done.program, done.hardware.hbm, when, clock_hz=done.hardware.clock_hz)


def _computed(done: "Simulation", exponentials: "ExpApproximation") -> "FunctionalRun":
    from attenio.accelerator.functional import run_functional

    with progress_bar(f"computing {done.plan.dataflow.value}") as progress:
        return run_functional(
            done.plan, done.machine, switches=done.switches, arithmetic=exponentials, progress=progress
        )


def _errors(computed: "FunctionalRun") -> dict[str, float | None]:
    bound = computed.error_bound
    return {"max_abs_error": computed.max_abs_error, "error_bound": bound if isfinite(bound) else None}


def _switches(overlaps: str | None, softmax: str | None) -> Any:
    from attenio.accelerator import Switches

    wanted = set(_OVERLAPS) if overlaps is None else set(overlaps.replace(" ", "").lower().split(","))
    if "all" in wanted or "none" in wanted:
        if len(wanted) > 1:
            raise InvalidInput(f"overlaps is {overlaps!r}; all and none stand alone")
        wanted = set(_OVERLAPS) if "all" in wanted else set()
    unknown = sorted(wanted - set(_OVERLAPS))
    if unknown:
        hint = did_you_mean(unknown[0], (*_OVERLAPS, "all", "none"))
        raise InvalidInput(
            f"unknown overlap {unknown[0]!r}; {hint}choose any of {', '.join(_OVERLAPS)}, or all or none"
        )
    pattern = "parallel" if softmax is None else softmax.strip().lower()
    if pattern not in _SOFTMAXES:
        hint = did_you_mean(pattern, _SOFTMAXES)
        raise InvalidInput(f"unknown softmax {softmax!r}; {hint}choose {' or '.join(_SOFTMAXES)}")
    return Switches(
        **{field: name in wanted for name, field in _OVERLAPS.items()}, parallel_softmax=pattern == "parallel"
    )


def _summary(done: "Simulation") -> "Table":
    table = plain_table("", ("value", "right"), "what it is")
    joules = done.energy.total_joules
    rows = (
        ("dataflow", done.plan.dataflow.value, str(done.plan.tiles)),
        ("cycles", f"{done.whole_cycles:,}", f"{show_seconds(done.seconds)} at {done.hardware.clock_hz / 1e9:g} GHz"),
        ("PE array busy", f"{done.pe_utilisation:.2%}", f"{done.mac_utilisation:.2%} of all products it could do"),
        ("EXP unit busy", f"{done.exp_utilisation:.2%}", "of all cycles"),
        ("memory stalls", f"{done.stall_fraction:.3%}", "of all cycles the array waits for memory"),
        ("moved (words)", f"{done.moved_words:,}", "both directions; as planned"),
        (
            "energy",
            show_joules(joules),
            ", ".join(f"{part.value} {show_joules(each)}" for part, each in done.energy.joules),
        ),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _idle(done: "Simulation") -> "Table":
    table = plain_table("engine", "waits for", ("idle (cycles)", "right"), ("of all", "right"))
    for idle in done.timeline.idle:
        share = float(idle.cycles / done.cycles) if done.cycles else 0.0
        table.add_row(idle.engine.value, idle.reason, f"{float(idle.cycles):,.0f}", f"{share:.2%}")
    return table
