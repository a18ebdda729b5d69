"""Answers as tables for a terminal, readable at 80 columns; every header has its unit."""

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attenio.dataflows.run import Run
from attenio.quantities import bytes_of, show_bytes, show_seconds
from attenio.report.answer import Answer
from attenio.report.notation import by_words, show_ratio
from attenio.report.reproduce import Reproduction

__all__ = ["bounds_table", "plan_tables", "reproduction_table", "run_table"]

NUMBER, NAME, TEXT = "number", "name", "text"
_NOTHING = "–"


def bounds_table(answer: Answer) -> RenderableType:
    """What must move: every bound, how literally it may be taken, and what it assumes."""
    table = plain_table(("theorem", NAME), ("at least (words)", NUMBER), ("strength", NAME), ("regime", TEXT))
    notes = Table.grid(padding=(0, 2, 0, 0))
    for bound in answer.lower_bounds:
        style = "bold" if bound == answer.bound else ""
        table.add_row(bound.theorem, f"{bound.words:,}", bound.strength.value, bound.regime, style=style)
        assumptions = Text("; ".join(bound.assumptions)).append(f" [{bound.citation}]", style="dim")
        notes.add_row(bound.theorem, assumptions)
    bound = answer.bound
    line = Text.assemble(
        "Every algorithm moves at least ",
        (f"{bound.words:,} words", "bold"),
        f" ({_size(answer, bound.words)}) across {answer.machine.slowest_boundary.name}.",
    )
    return Group(
        _question(answer), line, Text(), table, Text("\nAssumptions, and where the proof is", style="bold"), notes
    )


def plan_tables(answer: Answer) -> RenderableType:
    """The answer in a line, every candidate against the bound, and what each part of the machine needs in time."""
    parts = [_question(answer), _summary(answer), _candidates(answer)]
    reasons = [f"{part.boundary.name}: {part.reason}" for part in answer.boundaries if part.plan is None]
    reasons += [answer.nested_reason] if answer.nested_reason else []
    if answer.times or len(answer.boundaries) > 1:
        parts += [Text(), _resources(answer), *map(Text, reasons)]
    if answer.binding is not None:
        parts.append(
            Text.assemble(
                (answer.binding.resource, "bold"),
                f" binds: at least {show_seconds(answer.binding.plan_seconds)} with this plan.",
            )
        )
    return Group(*parts)


def run_table(run: Run, answer: Answer) -> RenderableType:
    """A run beside its prediction: words by operand, the peak, and the error against float64."""
    plan = run.plan
    table = plain_table(("", TEXT), ("loaded (words)", NUMBER), ("stored (words)", NUMBER))
    for operand in dict.fromkeys([*run.trace.loads, *run.trace.stores]):
        table.add_row(operand, f"{run.trace.loads[operand]:,}", f"{run.trace.stores[operand]:,}")
    table.add_row("all", f"{run.trace.loaded_words:,}", f"{run.trace.stored_words:,}", style="bold")
    check = plain_table(("", TEXT), ("predicted", NUMBER), ("counted", NUMBER))
    check.add_row("moved (words)", f"{plan.moved_words:,}", f"{run.moved_words:,}")
    check.add_row("peak of fast memory (words)", f"{plan.peak_words:,}", f"{run.peak_words:,}")
    check.add_row("moved over the bound", _ratio(plan.moved_words, answer), _ratio(run.moved_words, answer))
    check.add_row("largest error against float64", "", f"{run.max_abs_error:.3g}")
    name = Text.assemble((plan.dataflow.value, "bold"), f" with {plan.tiles} ({plan.rule.value} tiles)")
    return Group(_question(answer), name, check, table)


def reproduction_table(reproduction: Reproduction) -> RenderableType:
    """A published figure beside what attenio computes; rows without a printed number show only the latter."""
    table = plain_table(
        ("d", NUMBER),
        ("n", NUMBER),
        ("words of ÷ words of", NAME),
        ("published", NUMBER),
        ("value", NUMBER),
        ("off by", NUMBER),
        ("counted", NUMBER),
    )
    for row in reproduction.rows:
        off = row.relative_difference
        table.add_row(
            str(row.d),
            f"{row.n:,}" if isinstance(row.n, int) else row.n,
            f"{row.dataflow.value} ÷ {row.over.value}",
            "" if row.published is None else str(row.published),
            f"{row.value:.2f}",
            "" if off is None else f"{off:+.2%}",
            f"{row.counted:.2f}",
            style="" if row.published is None else "bold",
        )
    title = Text.assemble((reproduction.figure, "bold"), f": {reproduction.title}. {reproduction.source}.")
    return Group(title, table, Text(reproduction.caption, style="dim"))


def plain_table(*columns: tuple[str, str]) -> Table:
    """A table with a line under its header and nothing else; columns are (header, kind)."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for header, kind in columns:
        # Numbers and names are never broken over two lines; other text gives way.
        right = kind == NUMBER
        table.add_column(header, justify="right" if right else "left", no_wrap=kind != TEXT, overflow="fold")
    return table


def _question(answer: Answer) -> Text:
    size = _size(answer, answer.fast_words)
    name = f"{answer.machine.name}, {answer.fast_words:,} words ({size}) of fast memory"
    return Text.assemble((str(answer.workload), "bold"), f" on {name}")


def _summary(answer: Answer) -> RenderableType:
    plan, bound = answer.plan, answer.bound
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    table.add_row("must move", f"{bound.words:,} words", _size(answer, bound.words), f"{bound.theorem} (absolute)")
    table.add_row(
        Text("plan moves", style="bold"),
        Text(f"{plan.moved_words:,} words", style="bold"),
        _size(answer, plan.moved_words),
        f"{plan.dataflow.value}, {plan.tiles}",
    )
    table.add_row("gap", show_ratio(answer.gap), "", "plan over bound")
    return Padding(table, (1, 0))


def _candidates(answer: Answer) -> Table:
    table = plain_table(
        ("dataflow", NAME), ("moved (words)", NUMBER), ("÷ bound", NUMBER), ("rule", NAME), ("tiles", TEXT)
    )
    for candidate in by_words(answer):
        plan = candidate.plan
        if plan is None:
            reason = Text(candidate.reason or "", style="dim")
            table.add_row(candidate.dataflow.value, _NOTHING, _NOTHING, candidate.rule.value, reason)
            continue
        table.add_row(
            candidate.dataflow.value,
            f"{plan.moved_words:,}",
            _ratio(plan.moved_words, answer),
            candidate.rule.value,
            str(plan.tiles),
            style="bold" if plan == answer.plan else "",
        )
    return table


def _resources(answer: Answer) -> Table:
    table = plain_table(
        ("resource", NAME),
        ("plan moves (words)", NUMBER),
        ("÷ bound", NUMBER),
        ("any algorithm", NUMBER),
        ("this plan", NUMBER),
    )
    times = {time.resource: time for time in answer.times}
    boundaries = {part.boundary.name: part for part in answer.boundaries}
    for name in dict.fromkeys([*boundaries, *times]):
        part, time = boundaries.get(name), times.get(name)
        moved = None if part is None else part.moved_words
        table.add_row(
            name,
            _NOTHING if moved is None else f"{moved:,}",
            _NOTHING if moved is None or part is None else show_ratio(moved / part.bound.words),
            _NOTHING if time is None else show_seconds(time.least_seconds),
            _NOTHING if time is None else show_seconds(time.plan_seconds),
            style="bold" if time is not None and time == answer.binding else "",
        )
    return table


def _ratio(words: int, answer: Answer) -> str:
    return show_ratio(words / answer.bound.words)


def _size(answer: Answer, words: int) -> str:
    return show_bytes(bytes_of(words, element_bytes=answer.workload.dtype.bytes))
