"""The report's tables as HTML, each in a box that scrolls by itself on a narrow screen."""

import html
from collections.abc import Iterable, Sequence

from attenio.planning import Candidate, NestedPlan, TrainingCandidate
from attenio.quantities import bytes_of, show_bytes, show_seconds
from attenio.report.answer import Answer, BoundaryAnswer
from attenio.report.notation import (
    UNCOUNTED,
    alone_title,
    candidate_rows,
    nested_beats_alone,
    nested_rows,
    resource_rows,
    short_reason,
    show_rate,
    show_ratio,
)
from attenio.report.page import with_links
from attenio.report.reproduction import Reproduction
from attenio.report.training import TrainingAnswer

Cell = tuple[str, str]  # class, markup


def candidates_table(answer: Answer) -> str:
    """Every dataflow with its best and its published tiles, fewest words first; the plan is tinted."""
    width = answer.workload.dtype.bytes
    rows = []
    for candidate, rule_name in candidate_rows(answer):
        plan = candidate.plan
        name = _name(candidate.dataflow.value, swatch=True)
        rule = plain(rule_name)
        if plan is None:
            rows.append(("absent", [name, _NONE, _NONE, rule, _reason(candidate), _NONE, _NONE]))
            continue
        cells = [
            name,
            number(f"{plan.moved_words:,}"),
            number(show_ratio(plan.moved_words / answer.bound.words)),
            rule,
            ("wide", f"<code>{html.escape(str(plan.tiles))}</code>"),
            number(show_bytes(bytes_of(plan.moved_words, element_bytes=width))),
            number(f"{plan.peak_words:,}"),
        ]
        rows.append(("chosen" if plan == answer.plan else "", cells))
    heads = [plain("dataflow"), number("moved (words)"), number("over the bound")]
    heads += [plain("tile rule"), plain("tiles"), number("moved (bytes)"), number("peak (words)")]
    return table(heads, rows)


def training_table(step: TrainingAnswer) -> str:
    """What may be saved between the passes of a training step, each choice with its best plan."""
    heads = [plain("saved"), number("moved (words)"), number("over the bound"), plain("forward"), plain("backward")]
    rows = []
    for candidate in step.candidates:
        plan = candidate.plan
        if plan is None:
            rows.append(("absent", [_name(candidate.saved.value), _NONE, _NONE, _reason(candidate), _NONE]))
            continue
        cells = [
            _name(candidate.saved.value),
            number(f"{plan.moved_words:,}"),
            number(show_ratio(plan.moved_words / step.bound.words)),
            plain(plan.forward.dataflow.value),
            plain(plan.backward.dataflow.value),
        ]
        rows.append(("chosen" if plan == step.plan else "", cells))
    return table(heads, rows)


def bounds_table(answer: Answer) -> str:
    """Every bound with how literally it may be taken and what it assumes, largest first within its strength."""
    heads = [plain("theorem"), number("words"), *map(plain, ("strength", "regime", "assumes", "source"))]
    rows = [
        (
            "chosen" if bound == answer.bound else "",
            [
                _name(bound.theorem),
                number(f"{bound.words:,}"),
                plain(bound.strength.value),
                ("brief", html.escape(bound.regime)),
                ("wider", html.escape("; ".join(bound.assumptions))),
                ("brief", with_links(bound.citation)),
            ],
        )
        for bound in answer.lower_bounds
    ]
    return table(heads, rows)


def boundaries_table(answer: Answer) -> str:
    """Words across every boundary of the machine: of one plan nested over them all, and of the best for each alone."""
    if len(answer.boundaries) == 1:
        return _alone_table(answer)
    nested = f'<p class="note">{html.escape(answer.nested_reason)}</p>'
    if answer.nested is not None:
        nested = f"<h3>One plan nested over all levels, head_tile={answer.nested.head_tile}</h3>\n"
        nested += _nested_table(answer, answer.nested)
    note = f'\n<p class="note">{nested_beats_alone(answer)}</p>' if nested_beats_alone(answer) else ""
    return f"{nested}\n<h3>{alone_title(answer)}</h3>\n{_alone_table(answer)}{note}"


def _nested_table(answer: Answer, nested: NestedPlan) -> str:
    heads = ["fast side (words)", "query_tile", "key_tile", "at least (words)", "moved (words)", "over bound"]
    rows = []
    for part, query_tile, key_tile, moved in nested_rows(answer, nested):
        counts = (part.fast_words, query_tile, key_tile, part.bound.words, moved)
        numbers = [f"{count:,}" for count in counts] + [show_ratio(moved / part.bound.words)]
        rows.append(("", [_name(part.boundary.name), *map(number, numbers)]))
    return table([plain("boundary"), *map(number, heads)], rows)


def _alone_table(answer: Answer) -> str:
    heads = ["fast side (words)", "at least (words)", "moved (words)", "over bound"]
    rows = []
    for part in answer.boundaries:
        sizes = [number(f"{part.fast_words:,}"), number(f"{part.bound.words:,}")]
        plan = part.plan
        if plan is None:
            rows.append(("absent", [_name(part.boundary.name), *sizes, _NONE, _NONE, plain("none"), _reason(part)]))
            continue
        moved = [number(f"{plan.moved_words:,}"), number(show_ratio(plan.moved_words / part.bound.words))]
        plan_cells = [
            _name(plan.dataflow.value, swatch=True),
            ("brief", f"<code>{html.escape(str(plan.tiles))}</code>"),
        ]
        rows.append(("", [_name(part.boundary.name), *sizes, *moved, *plan_cells]))
    return table([plain("boundary"), *map(number, heads), plain("dataflow"), plain("tiles")], rows)


def times_table(answer: Answer) -> str:
    """Seconds of every resource; the one that binds is tinted, and one without a known rate says so."""
    if not answer.times:
        return ""
    heads = [plain("resource"), *map(number, ("rate", "by the bound, at least", f"{answer.timed_plan}, at least"))]
    rows = []
    for name, time in resource_rows(answer):
        if time is None:
            counted = "not counted" if name in answer.uncounted else "–"
            rate = "rate unknown" if name in answer.unknown_rates else counted
            rows.append(("absent", [_name(name), number(rate), _NONE, _NONE]))
            continue
        numbers = (
            show_rate(time.rate_per_s, time.unit),
            "unknown" if time.least_seconds is None else show_seconds(time.least_seconds),
            show_seconds(time.plan_seconds),
        )
        rows.append(("chosen" if time == answer.binding else "", [_name(name), *map(number, numbers)]))
    title = "" if len(answer.boundaries) == 1 else "<h3>Time</h3>\n"
    note = f"<p>{html.escape(UNCOUNTED)}</p>\n" if answer.uncounted else ""
    return title + table(heads, rows) + note


def reproduction_table(reproduction: Reproduction) -> str:
    """The rows that were printed, beside what attenio computes."""
    heads = [plain("words of ÷ words of"), number("d"), number("n")]
    heads += [number(head) for head in ("published", "as the paper counts", "off by", "counted exactly")]
    rows: list[tuple[str, Sequence[Cell]]] = []
    for row in reproduction.rows:
        if row.published is None or row.relative_difference is None:
            continue
        numbers = (
            str(row.d),
            f"{row.n:,}" if isinstance(row.n, int) else row.n,
            str(row.published),
            f"{row.value:.2f}",
            f"{row.relative_difference:+.2%}",
            f"{row.counted:.2f}",
        )
        kind, name = _name(row.dataflow.value, swatch=True)
        rows.append(("", [(kind, f"{name} ÷ {row.over.value}"), *map(number, numbers)]))
    return table(heads, rows)


def plain(text: str) -> Cell:
    """A cell of words."""
    return "", html.escape(text)


def number(text: str) -> Cell:
    """A cell whose digits stand under each other."""
    return "number", html.escape(text)


def _name(text: str, *, swatch: bool = False) -> Cell:
    mark = f'<span class="swatch" style="background: var(--{text})"></span>' if swatch else ""
    return "name", mark + html.escape(text)


def _reason(absent: Candidate | TrainingCandidate | BoundaryAnswer) -> Cell:
    return "wide", f'<span title="{html.escape(absent.reason or "")}">{html.escape(short_reason(absent))}</span>'


_NONE = number("–")


def table(heads: Sequence[Cell], rows: Iterable[tuple[str, Sequence[Cell]]]) -> str:
    """A table in its box; a row is its class and its cells."""
    head = "".join(_cell("th", cell) for cell in heads)
    body = "\n".join(
        f'<tr class="{kind}">' + "".join(_cell("td", cell) for cell in cells) + "</tr>" for kind, cells in rows
    )
    return (
        f'<div class="table" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _cell(tag: str, cell: Cell) -> str:
    kind, markup = cell
    return f'<{tag} class="{kind}">{markup}</{tag}>' if kind else f"<{tag}>{markup}</{tag}>"
