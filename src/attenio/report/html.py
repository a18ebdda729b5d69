"""A self-contained page: figures, tables and provenance in one file that needs no network."""

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

from attenio.bounds import LowerBound
from attenio.catalogue import as_machine
from attenio.errors import InvalidInput
from attenio.files import checked_path, write_atomically
from attenio.machine import Machine
from attenio.measurement.provenance import Provenance, provenance
from attenio.planning import Plan, TrainingPlan
from attenio.quantities import bytes_of, show_bytes, show_count, show_seconds, show_words
from attenio.report import html_tables, palette
from attenio.report.accelerator_section import AcceleratorSection, accelerator_section
from attenio.report.answer import Answer, answer
from attenio.report.cluster import ClusterAnswer, cluster_section
from attenio.report.curves import Curves, Progress, along_length, along_memory
from attenio.report.directions import along_directions, directions_figure
from attenio.report.figures import length_figure, memory_figure
from attenio.report.guarantee import guarantee
from attenio.report.notation import capital, price_of_units, show_ratio, told_bounds
from attenio.report.page import cards, figure_place, page, plotly_script, section, with_links
from attenio.report.reproduction import reproduce
from attenio.report.roofline_figure import roofline_figure
from attenio.report.training import TrainingAnswer, between_passes, training_answer
from attenio.workload import Direction, Workload

_MEMORY_CAPTION = (
    "Each line is a dataflow with its best tiles, by exact count; open markers are the tiles its paper prescribes."
    " The grey region is proven out of reach of algorithms that add up each score from its own products."
    " Dashed bounds hold for a stated family of schedules only."
    " Tinted: schedules that spill scores win (small cache), schedules that keep queries win (large cache),"
    " and more memory no longer helps (all fits)."
)
_LENGTH_CAPTION = "The same at the machine's own fast memory, as the sequence grows."
_DIRECTIONS_CAPTION = (
    "Solid: words of the best plan for each direction. Dashed: what no algorithm with ordinary products goes below."
    " A training step runs both"
    " passes and saves what its table says in between."
)
_ROOFLINE_CAPTION = (
    "A point's height is the rate its traffic allows. Filled circles: {plan} at each boundary. Upright strokes: no"
    " schedule with ordinary products stands further right. Other markers: every dataflow's best plan at the slowest"
    " boundary."
)
_TIMED_PLANS = {
    "this plan": "the plan",
    "nested plan": "the plan nested over all levels",
    "best alone": "the best plan for that boundary alone,",
}
_NO_ROOFLINE = "This machine states no rate of arithmetic or no bandwidth, so there is no roofline to draw."
_NOT_ONE_ROOFLINE = "Exact and approximate plans do not have the same arithmetic, so there is no one roofline to draw."


def write_report(
    path: Path | str,
    workload: Workload,
    machine: Machine | str,
    *,
    progress: Progress | None = None,
    spread: ClusterAnswer | None = None,
) -> Path:
    """Write the report of one workload on one machine; ``progress`` is told (steps done, steps in all).

    ``spread`` is the answer about many such machines, which then has a section of its own.
    """
    _check(path)
    return _write(path, answer(workload, as_machine(machine)), None, progress, spread)


def write_training_report(
    path: Path | str,
    workload: Workload,
    machine: Machine | str,
    *,
    progress: Progress | None = None,
    spread: ClusterAnswer | None = None,
) -> Path:
    """Write the report of a training step: its backward pass in full, and both passes side by side."""
    _check(path)
    step = training_answer(workload, as_machine(machine))
    return _write(path, answer(workload.towards(Direction.BACKWARD), step.machine), step, progress, spread)


def _check(path: Path | str) -> None:
    """Refuse what could not be written, before it is computed."""
    if checked_path(path).suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"report writes HTML, and {path} does not say so; use a name ending in .html")
    plotly_script()


def _write(
    path: Path | str,
    answered: Answer,
    step: TrainingAnswer | None,
    progress: Progress | None,
    spread: ClusterAnswer | None,
) -> Path:
    first, second, third = _parts(progress)
    memory = along_memory(answered.workload, answered.machine, progress=first)
    length = along_length(answered.workload, answered.machine, progress=second)
    written = write_atomically(path, _page(answered, memory, length, step, spread, third))
    third(3, 3)
    return written


def _parts(progress: Progress | None) -> tuple[Progress, Progress, Progress]:
    """One progress of a thousand steps for two sweeps, of which the one along memory has more work, and the page."""

    def part(first: int, last: int) -> Progress:
        def tell(done: int, total: int) -> None:
            if progress is not None:
                progress(first + (last - first) * done // total, 1000)

        return tell

    return part(0, 450), part(450, 600), part(600, 1000)


def _page(
    answered: Answer,
    memory: Curves,
    length: Curves,
    step: TrainingAnswer | None,
    spread: ClusterAnswer | None,
    progress: Progress,
) -> str:
    made_by = provenance()
    figures: dict[str, Any] = {"memory": memory_figure(memory, answered), "length": length_figure(length, answered)}
    exact = replace(answered.workload, tolerance=None)
    directions = along_directions(exact, answered.machine, memory.values)
    figures["directions"] = directions_figure(directions, answered.fast_words, answered.machine.name)
    progress(1, 3)
    roofline = roofline_figure(answered)
    if roofline is not None:
        figures["roofline"] = roofline
    accelerated = accelerator_section(answered.workload if step is None else step.workload, answered.machine)
    figures |= accelerated.figures
    progress(2, 3)
    return page(
        f"{answered.workload if step is None else step.workload} on {answered.machine.name}",
        made_by,
        colours=palette.stylesheet(),
        figures=figures,
        answer=_sentence(answered) if step is None else _step_sentence(step),
        facts=_facts(answered) if step is None else _step_facts(step),
        sections=("" if spread is None else section("Many devices", cluster_section(spread)) + "\n")
        + _sections(answered, step, accelerated, has_roofline=roofline is not None),
        footer=_footer(answered, made_by),
    )


def _sentence(answered: Answer) -> str:
    plan = answered.plan
    return (
        f"{_floor_sentences(answered)}"
        f" The best plan, <b>{plan.dataflow.value}</b> with <code>{html.escape(str(plan.tiles))}</code>,"
        f" moves <b>{plan.moved_words:,}</b> words: <b>{show_ratio(answered.gap)}</b> that bound{_beside(answered)}."
        f"{_promise(plan)}{_price(answered)}"
    )


def _floor_sentences(answered: Answer | TrainingAnswer) -> str:
    """What the bounds cover and how much that is; the one that covers most comes last, where there are two."""
    where = html.escape(answered.machine.slowest_boundary.name)
    step = " in a training step" if isinstance(answered, TrainingAnswer) else ""
    return " ".join(
        f"{html.escape(capital(bound.covers))} moves at least <b>{bound.words:,}</b> words across {where}{step}."
        for bound in reversed(told_bounds(answered))
    )


def _beside(answered: Answer | TrainingAnswer) -> str:
    """The gap against the absolute bound, where that is another one."""
    if len(told_bounds(answered)) == 1:
        return ""
    return f", and {show_ratio(answered.absolute_gap)} the absolute one"


def _promise(plan: Plan) -> str:
    """What an approximate plan guarantees."""
    if plan.certificate is None:
        return ""
    return f" Its error is <b>{plan.certificate.guaranteed_error:.3g}</b> {html.escape(guarantee(plan))}."


def _price(answered: Answer | TrainingAnswer) -> str:
    """What tiles of whole units cost, where the machine asks for them."""
    return "".join(f" {html.escape(line)}" for line in price_of_units(answered))


def _step_sentence(step: TrainingAnswer) -> str:
    plan = step.plan
    return (
        f"{_floor_sentences(step)}"
        f" The best, <b>{plan.forward.dataflow.value}</b> forward, <b>{plan.backward.dataflow.value}</b> backward and"
        f" {plan.saved.value} saved between them, moves"
        f" <b>{plan.moved_words:,}</b> words: <b>{show_ratio(step.gap)}</b> that bound{_beside(step)}."
        f"{_price(step)} {html.escape(between_passes(plan))} Below: its backward pass."
    )


def _facts(answered: Answer) -> str:
    width = answered.workload.dtype.bytes
    plan, bound, binding = answered.plan, answered.bound, answered.binding
    facts = [
        ("must move", show_bytes(bytes_of(bound.words, element_bytes=width)), _kind(bound)),
        ("best plan moves", show_bytes(bytes_of(plan.moved_words, element_bytes=width)), plan.dataflow.value),
        ("gap", show_ratio(answered.gap), f"plan over the bound{_beside(answered)}"),
        (
            "fast memory",
            show_bytes(bytes_of(answered.fast_words, element_bytes=width)),
            f"{show_words(answered.fast_words)}, {plan.peak_words:,} in use",
        ),
    ]
    if binding is not None:
        known = "of the rates known, " if answered.unknown_rates else ""
        note = f"{known}{binding.resource} binds ({answered.timed_plan})"
        facts.append(("time at least", show_seconds(binding.plan_seconds), note))
    return cards(facts)


def _saved_words(plan: TrainingPlan) -> str:
    if plan.first_tile:
        rows = f"queries and outputs of {show_count(plan.kept_outputs, 'row')}"
        return f"{show_count(plan.kept_keys, 'key')}, values of {plan.kept_values:,}, and {rows} stay in fast memory"
    if plan.kept_keys:
        queries = f"queries of {show_count(plan.kept_queries, 'row')}"
        return f"{show_count(plan.kept_keys, 'key')} and {queries} stay in fast memory"
    if plan.kept_outputs:
        return f"outputs of {show_count(plan.kept_outputs, 'row')} stay in fast memory"
    return f"{show_words(plan.extra_words)} that neither pass counts"


def _step_facts(step: TrainingAnswer) -> str:
    width, plan, bound = step.workload.dtype.bytes, step.plan, step.bound
    passes = f"{plan.forward.dataflow.value} forward, {plan.backward.dataflow.value} backward"
    return cards(
        [
            ("must move", show_bytes(bytes_of(bound.words, element_bytes=width)), _kind(bound)),
            ("best step moves", show_bytes(bytes_of(plan.moved_words, element_bytes=width)), passes),
            ("gap", show_ratio(step.gap), f"step over the bound{_beside(step)}"),
            ("saved between the passes", plan.saved.value, _saved_words(plan)),
            (
                "fast memory",
                show_bytes(bytes_of(step.fast_words, element_bytes=width)),
                f"{show_words(step.fast_words)}, {plan.peak_words:,} in use",
            ),
        ]
    )


def _kind(bound: LowerBound) -> str:
    return f"{bound.theorem} ({bound.strength.value})"


def _sections(
    answered: Answer, step: TrainingAnswer | None, accelerated: AcceleratorSection, *, has_roofline: bool
) -> str:
    published = reproduce("fig11")
    caption = _ROOFLINE_CAPTION.format(plan=_TIMED_PLANS[answered.timed_plan])
    is_exact = answered.workload.tolerance is None
    no_roofline = f'<p class="note">{_NO_ROOFLINE if is_exact else _NOT_ONE_ROOFLINE}</p>'
    roofline = figure_place("roofline", caption) if has_roofline else no_roofline
    exactly = "" if is_exact else " All of it exact, whatever the tolerance."
    sections = [
        ("Words against fast memory", figure_place("memory", _MEMORY_CAPTION)),
        ("Every dataflow on this machine", html_tables.candidates_table(answered)),
        (
            "Forward, backward, and a training step",
            figure_place("directions", _DIRECTIONS_CAPTION + exactly)
            + ("" if step is None else html_tables.training_table(step)),
        ),
        ("Words against sequence length", figure_place("length", _LENGTH_CAPTION)),
        ("Roofline", roofline + html_tables.boundaries_table(answered) + html_tables.times_table(answered)),
        ("Lower bounds", html_tables.bounds_table(answered)),
        (
            "Published I/O, reproduced",
            f'<p class="caption">{html.escape(published.caption)} {with_links(published.source)}.</p>'
            + html_tables.reproduction_table(published),
        ),
        *accelerated.sections,
    ]
    return "\n".join(section(title, body) for title, body in sections)


def _footer(answered: Answer, made_by: Provenance) -> str:
    machine = answered.machine
    source = f" Machine {machine.name}: {machine.source}" if machine.source else ""
    return (
        f"<p>{html.escape(str(made_by))}. Words are {answered.workload.dtype.value} elements.{with_links(source)}</p>"
    )
