"""Answers as tables for a terminal, readable at 80 columns; every header has its unit."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attenio.dataflows.run import Run
from attenio.fitted_table import NAME, NUMBER, TEXT, FittedTable, plain_table
from attenio.quantities import bytes_of, show_bytes, show_seconds, show_words
from attenio.report.answer import Answer, Floor, TimeFloor
from attenio.report.guarantee import guarantee
from attenio.report.notation import (
    UNCOUNTED,
    alone_title,
    candidate_rows,
    capital,
    nested_beats_alone,
    nested_rows,
    price_of_units,
    resource_rows,
    short_reason,
    show_rate,
    show_ratio,
    told_bounds,
)
from attenio.report.reproduction import Reproduction
from attenio.report.training import TrainingAnswer, between_passes

_NOTHING = "–"
# Told apart where both are in sight: a tolerance of 0.05 may promise an error of 0.17.
_ERRORS = (
    "Errors are absolute, in the unit of the values; the tolerance is a share of half the range of a column of values,"
    " and the promise counts storing outputs too."
)


def bounds_table(answer: Answer | Floor) -> RenderableType:
    """What must move: every bound, how literally it may be taken, and what it assumes."""
    table = plain_table(("theorem", NAME), ("at least (words)", NUMBER), ("strength", NAME), ("regime", TEXT))
    notes = FittedTable.grid(padding=(0, 2, 0, 0))
    for bound in answer.lower_bounds:
        style = "bold" if bound == answer.bound else ""
        table.add_row(bound.theorem, f"{bound.words:,}", bound.strength.value, bound.regime, style=style)
        assumptions = Text("; ".join(bound.assumptions)).append(f" [{bound.citation}]", style="dim")
        notes.add_row(bound.theorem, assumptions)
    where = answer.machine.slowest_boundary.name
    lines = [
        Text.assemble(
            f"{capital(bound.covers)} moves at least ",
            (show_words(bound.words), "bold"),
            f" ({_size(answer, bound.words)}) across {where}.",
        )
        for bound in told_bounds(answer)
    ]
    assumptions = Text("\nAssumptions, and where the proof is", style="bold")
    return Group(question_line(answer), *lines, Text(), table, assumptions, notes)


def plan_tables(answer: Answer) -> RenderableType:
    """The answer in a line, every candidate against the bound, and what each part of the machine needs in time."""
    parts = [question_line(answer), _summary(answer), *_covered(answer), Text(), _Candidates(answer)]
    if len(answer.boundaries) > 1:
        parts += [Text(), *_every_boundary(answer)]
        if answer.times:
            parts += [Text(), _times(answer)]
    elif answer.times:
        parts += [Text(), _resources(answer)]
    if answer.binding is not None:
        parts.append(_binding(answer, answer.binding))
    elif answer.times and answer.uncounted:
        parts.append(Text(UNCOUNTED, style="dim"))
    return Group(*parts)


def training_tables(answer: TrainingAnswer) -> RenderableType:
    """The step in a line, what may be saved between its passes, and every dataflow of either pass."""
    plan, bound = answer.plan, answer.bound
    summary = FittedTable.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "left"):
        summary.add_column(justify=justify, no_wrap=justify == "right")
    _add_bounds(summary, answer)
    how = f"{plan.forward.dataflow.value}, then {plan.backward.dataflow.value}; {plan.saved.value} saved"
    summary.add_row("step moves", show_words(plan.moved_words), _size(answer, plan.moved_words), how)
    summary.add_row("gap", show_ratio(answer.gap), "", f"step over bound{_beside(answer)}")
    choices = plain_table(
        ("saved", NAME), ("moved (words)", NUMBER), ("÷ bound", NUMBER), ("forward", TEXT), ("backward", TEXT)
    )
    for candidate in answer.candidates:
        if candidate.plan is None:
            reason = Text(short_reason(candidate), style="dim")
            choices.add_row(candidate.saved.value, _NOTHING, _NOTHING, reason, "")
            continue
        choices.add_row(
            candidate.saved.value,
            f"{candidate.plan.moved_words:,}",
            show_ratio(candidate.plan.moved_words / bound.words),
            candidate.plan.forward.dataflow.value,
            candidate.plan.backward.dataflow.value,
            style="bold" if candidate.plan == plan else "",
        )
    between = Text(between_passes(plan), style="dim")
    forward, backward = Text("\nforward pass", style="bold"), Text("\nbackward pass", style="bold")
    passes: list[RenderableType] = [forward, _Candidates(answer.forward), backward, _Candidates(answer.backward)]
    return Group(question_line(answer), Text(), summary, Text(), *_covered(answer), Text(), choices, between, *passes)


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
    check.add_row(
        f"moved over the bound ({answer.bound.strength.value})",
        _ratio(plan.moved_words, answer),
        _ratio(run.moved_words, answer),
    )
    promise = "" if run.guaranteed_error is None else f"≤ {run.guaranteed_error:.3g}"
    check.add_row("largest absolute error against float64", promise, f"{run.max_abs_error:.3g}")
    name = Text.assemble((plan.dataflow.value, "bold"), f" with {plan.tiles} ({plan.rule.value} tiles)")
    notes = [Text(f"The bound is for {answer.bound.covers}.", style="dim")]
    notes += [Text(_ERRORS)] if run.guaranteed_error is not None else []
    return Group(question_line(answer), name, check, table, *notes)


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


def question_line(answer: Answer | Floor | TrainingAnswer) -> Text:
    """What was asked about."""
    size = _size(answer, answer.fast_words)
    name = f"{answer.machine.name}, {show_words(answer.fast_words)} ({size}) of fast memory"
    return Text.assemble((str(answer.workload), "bold"), f" on {name}")


def _summary(answer: Answer) -> RenderableType:
    plan = answer.plan
    table = FittedTable.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    _add_bounds(table, answer)
    table.add_row(
        Text("plan moves", style="bold"),
        Text(show_words(plan.moved_words), style="bold"),
        _size(answer, plan.moved_words),
        f"{plan.dataflow.value}, {plan.tiles}",
    )
    table.add_row("gap", show_ratio(answer.gap), "", f"plan over bound{_beside(answer)}")
    if plan.certificate is not None:
        table.add_row("error", f"{plan.certificate.guaranteed_error:.3g}", "", guarantee(plan))
    return Padding(table, (1, 0))


def _add_bounds(table: Table, answer: Answer | TrainingAnswer) -> None:
    """What must move, and below it what every algorithm must where that is less."""
    for name, bound in zip(("must move", ""), told_bounds(answer), strict=False):
        how = f"{bound.theorem} ({bound.strength.value})"
        table.add_row(name, show_words(bound.words), _size(answer, bound.words), how)


def _beside(answer: Answer | TrainingAnswer) -> str:
    """The gap against the absolute bound, where that is another one."""
    return f"; {show_ratio(answer.absolute_gap)} the absolute one" if len(told_bounds(answer)) > 1 else ""


def _covered(answer: Answer | TrainingAnswer) -> list[RenderableType]:
    """Which algorithms the bounds of a summary are about, and what tiles of whole units cost."""
    covers = [Text(f"{capital(each.strength.value)}: {each.covers}.", style="dim") for each in told_bounds(answer)]
    return [*covers, *map(Text, price_of_units(answer))]


@dataclass(frozen=True)
class _Candidates:
    """The table of candidates: on a narrow terminal the rule is broken over two lines, so that tiles are not."""

    answer: Answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _candidates(self.answer, rule_width=9 if options.max_width < 100 else None)


def _candidates(answer: Answer, *, rule_width: int | None) -> Table:
    table = plain_table(("dataflow", NAME), ("moved (words)", NUMBER), ("÷ bound", NUMBER))
    table.add_column("rule", max_width=rule_width, no_wrap=rule_width is None)
    table.add_column("tiles", overflow="fold")
    for candidate, rule in candidate_rows(answer):
        plan = candidate.plan
        if plan is None:
            reason = Text(short_reason(candidate), style="dim")
            table.add_row(candidate.dataflow.value, _NOTHING, _NOTHING, rule, reason)
            continue
        table.add_row(
            candidate.dataflow.value,
            f"{plan.moved_words:,}",
            _ratio(plan.moved_words, answer),
            rule,
            str(plan.tiles),
            style="bold" if plan == answer.plan else "",
        )
    return table


def _every_boundary(answer: Answer) -> Iterator[RenderableType]:
    """What crosses each boundary: under one plan nested over all levels, and under the best plan for it alone."""
    nested = answer.nested
    if nested is None:
        yield Text(answer.nested_reason)
    else:
        yield Text(f"One plan nested over all levels, head_tile={nested.head_tile}", style="bold")
        table = plain_table(
            ("boundary", NAME),
            ("query_tile", NUMBER),
            ("key_tile", NUMBER),
            ("moved (words)", NUMBER),
            ("÷ bound", NUMBER),
        )
        for part, *counts in nested_rows(answer, nested):
            ratio = show_ratio(counts[-1] / part.bound.words)
            table.add_row(part.boundary.name, *(f"{count:,}" for count in counts), ratio)
        yield table
        yield Text("Tiles are held by the faster level of the two, named first.", style="dim")
    yield Text(f"\n{alone_title(answer)}", style="bold")
    table = plain_table(("boundary", NAME), ("moved (words)", NUMBER), ("÷ bound", NUMBER), ("plan", TEXT))
    for part in answer.boundaries:
        plan = part.plan
        if plan is None:
            table.add_row(part.boundary.name, _NOTHING, _NOTHING, Text(short_reason(part), style="dim"))
            continue
        ratio = show_ratio(plan.moved_words / part.bound.words)
        table.add_row(part.boundary.name, f"{plan.moved_words:,}", ratio, f"{plan.dataflow.value}, {plan.tiles}")
    yield table
    if note := nested_beats_alone(answer):
        yield Text(note, style="dim")


def _times(answer: Answer) -> Table:
    """Seconds of every resource of a machine with several boundaries, whose words have tables of their own."""
    table = plain_table(("resource", NAME), ("rate", NUMBER), ("at least", NUMBER), (answer.timed_plan, NUMBER))
    for name, time in resource_rows(answer):
        rate = _unknown(answer, name) if time is None else show_rate(time.rate_per_s, time.unit)
        table.add_row(name, rate, *_seconds(time), style="bold" if time is not None and time == answer.binding else "")
    return table


def _resources(answer: Answer) -> Table:
    """Words and seconds of every resource of a machine with one boundary."""
    table = plain_table(
        ("resource", NAME),
        ("plan moves (words)", NUMBER),
        ("÷ bound", NUMBER),
        ("at least", NUMBER),
        (answer.timed_plan, NUMBER),
    )
    (part,) = answer.boundaries
    for name, time in resource_rows(answer):
        moved = answer.plan.moved_words if name == part.boundary.name else None
        least, ours = _seconds(time)
        table.add_row(
            name,
            _NOTHING if moved is None else f"{moved:,}",
            _NOTHING if moved is None else show_ratio(moved / part.bound.words),
            _unknown(answer, name) if time is None else least,
            ours,
            style="bold" if time is not None and time == answer.binding else "",
        )
    return table


def _seconds(time: TimeFloor | None) -> tuple[str, str]:
    if time is None:
        return _NOTHING, _NOTHING
    least = "unknown" if time.least_seconds is None else show_seconds(time.least_seconds)
    return least, show_seconds(time.plan_seconds)


def _unknown(answer: Answer, resource: str) -> str:
    if resource in answer.unknown_rates:
        return "rate unknown"
    return "not counted" if resource in answer.uncounted else _NOTHING


def _binding(answer: Answer, binding: TimeFloor) -> Text:
    plan = {"this plan": "this plan", "nested plan": "the nested plan"}.get(
        answer.timed_plan, "the best plan for each boundary alone"
    )
    known = "Of the rates known, " if answer.unknown_rates else ""
    return Text.assemble(
        known, (binding.resource, "bold"), f" binds: at least {show_seconds(binding.plan_seconds)} with {plan}."
    )


def _ratio(words: int, answer: Answer) -> str:
    return show_ratio(words / answer.bound.words)


def _size(answer: Answer | Floor | TrainingAnswer, words: int) -> str:
    return show_bytes(bytes_of(words, element_bytes=answer.workload.dtype.bytes))
