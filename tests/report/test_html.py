import html
import html.parser
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import plotly.graph_objects as graphs
import pytest
from hypothesis import HealthCheck, given, settings

from attenio import files
from attenio.catalogue import machine_named
from attenio.errors import MissingExtra
from attenio.machine import Machine
from attenio.quantities import show_bytes
from attenio.report.answer import answer
from attenio.report.figures import axes
from attenio.report.html import write_report, write_training_report
from attenio.report.notation import show_ratio
from attenio.report.training import between_passes, training_answer
from attenio.workload import Workload

from .strategies import machines, workloads

SMALL = Workload(n=96, d=8, heads=4, kv_heads=2, mask="causal")


class Page(html.parser.HTMLParser):
    """Collects what the laws below ask about, and fails on elements that are left open."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.tables = 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.tables += tag == "table"
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.open[-1:] != ["style"]:
            self.text += data

    @property
    def figures(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("report") / "report.html"
    return Page(write_report(path, SMALL, machine_named("toy-1k-words")).read_text(encoding="utf-8"))


def test_the_page_needs_no_network_and_has_plotly_once(page: Page) -> None:
    papers = ("https://doi.org/", "https://arxiv.org/abs/")  # where a reader may go, not what the page asks for
    assert [link for link in page.links if not link.startswith(papers)] == ["data:,"]
    assert len(page.scripts) == 3
    assert sum(len(script) > 1_000_000 for script in page.scripts) == 1


def test_the_page_states_question_answer_and_provenance(page: Page) -> None:
    found = answer(SMALL, machine_named("toy-1k-words"))
    for text in (str(SMALL), "toy-1k-words", f"{found.bound.words:,}", f"{found.plan.moved_words:,}"):
        assert text in page.text
    assert show_ratio(found.gap) in page.text
    assert re.search(r"attenio \S+(, commit [0-9a-f]+\+?)?, \d{4}-\d\d-\d\d\.", page.text)
    assert page.tables == 5


def test_the_cards_of_a_training_step_are_about_the_step(tmp_path: Path) -> None:
    machine = machine_named("toy-1k-words")
    step = training_answer(SMALL, machine)
    text = write_training_report(tmp_path / "step.html", SMALL, machine).read_text(encoding="utf-8")
    cards = text[text.index("<dl") : text.index("</dl>")]
    width = SMALL.dtype.bytes
    for words in (step.bound.words, step.plan.moved_words):
        assert show_bytes(words * width) in cards
    assert show_ratio(step.gap) in cards and step.plan.saved.value in cards
    assert show_bytes(step.backward.plan.moved_words * width) not in cards
    assert html.escape(between_passes(step.plan)) in text


def test_the_page_names_no_computer_and_no_path(page: Page) -> None:
    assert str(Path.home()) not in page.text
    assert str(Path(__file__).parents[2]) not in page.text


def test_the_page_has_a_viewport_and_follows_the_readers_colour_scheme(tmp_path: Path) -> None:
    text = write_report(tmp_path / "r.html", SMALL, machine_named("toy-1k-words")).read_text(encoding="utf-8")
    assert 'name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text


@settings(deadline=None, derandomize=True, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(workload=workloads(), machine=machines().filter(lambda machine: machine.accelerator is None))
def test_every_question_gives_a_sound_page_whose_figures_plotly_accepts(
    tmp_path: Path, workload: Workload, machine: Machine
) -> None:
    page = Page(write_report(tmp_path / "r.html", workload, machine).read_text(encoding="utf-8"))
    has_rates = bool(machine.flops_per_s.get(workload.dtype)) and machine.levels[-1].bandwidth_bytes_per_s is not None
    assert set(page.figures) == {"memory", "length", "directions", *(["roofline"] if has_rates else [])}
    for figure in page.figures.values():
        graphs.Figure(figure)
        assert figure["layout"]["xaxis"]["title"]["text"].endswith(")")


def test_colours_of_figures_are_variables_that_the_page_defines(page: Page, tmp_path: Path) -> None:
    text = write_report(tmp_path / "r.html", SMALL, machine_named("toy-1k-words")).read_text(encoding="utf-8")
    used = set(re.findall(r"var\((--[\w-]+)\)", page.scripts[0]))
    defined = set(re.findall(r"(--[\w-]+):", text.split("</style>")[0]))
    assert used <= defined


def test_progress_rises_to_its_end(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write_report(tmp_path / "r.html", SMALL, machine_named("toy-1k-words"), progress=lambda *step: told.append(step))
    assert told == sorted(told)
    assert told[-1] == (1000, 1000)


def test_an_interrupted_report_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(tmp_path / "r.html", SMALL, machine_named("toy-1k-words"))
    assert list(tmp_path.iterdir()) == []


def test_without_plotly_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingExtra, match=r"an HTML report needs the 'report' extra: pip install -e '.\[report\]'"):
        write_report(tmp_path / "r.html", SMALL, machine_named("toy-1k-words"))


def test_names_are_written_as_text_never_as_markup(tmp_path: Path) -> None:
    machine = Machine.with_fast_bytes(4096, name="<b>&\"'</script>")
    page = Page(write_report(tmp_path / "r.html", SMALL, machine).read_text(encoding="utf-8"))
    assert machine.name in page.text
    assert len(page.scripts) == 3


def test_exponentials_are_labelled_in_their_own_unit_and_several_levels_have_a_nested_plan(tmp_path: Path) -> None:
    page = Page(write_report(tmp_path / "r.html", SMALL, machine_named("h100")).read_text(encoding="utf-8"))
    (line,) = [t for t in page.figures["roofline"]["data"] if t["meta"]["legend"].startswith("exponentials")]
    assert line["meta"]["legend"].endswith("exp/s")
    assert re.search(r"drawn at [\d.]+ .?FLOP/s: [\d.]+ FLOP for each exponential", line["hovertemplate"])
    assert "One plan nested over all levels" in page.text
    assert "nested plan, at least" in page.text
    assert page.tables == 6


def test_the_price_of_whole_units_is_on_the_page_where_the_machine_asks_for_them(tmp_path: Path) -> None:
    page = Page(write_report(tmp_path / "r.html", SMALL, machine_named("h100")).read_text(encoding="utf-8"))
    assert "more words than with free tiles" in page.text
    page = Page(write_report(tmp_path / "r.html", SMALL, machine_named("toy-1k-words")).read_text(encoding="utf-8"))
    assert "than with free tiles" not in page.text


def test_axes_have_few_labels_and_name_their_ends_where_whole_steps_reach_them() -> None:
    for first in (6, 11):
        for last in range(first, first + 26):
            ticks = axes("keys (n)", "words", [2**first, 2**last], (1.0, 10.0))["xaxis"]["tickvals"]
            steps = {high // low for low, high in pairwise(ticks)}
            assert ticks[0] == 2**first and len(ticks) <= 7 and len(steps) <= 1
    for last in (17, 20, 23):
        assert axes("keys (n)", "words", [2**11, 2**last], (1.0, 10.0))["xaxis"]["tickvals"][-1] == 2**last


def test_markers_at_the_edge_of_a_figure_are_drawn_whole(page: Page) -> None:
    drawn = [trace for name in ("memory", "length") for trace in page.figures[name]["data"]]
    marked = [trace for trace in drawn if trace["mode"] == "markers"]
    assert marked and all(trace["cliponaxis"] is False for trace in marked)
