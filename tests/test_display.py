"""Laws of how values look: text, HTML and rows say what the value says."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_text import CHARACTERS
from attenio import Machine, SweepGrid, Workload, best_plan, candidates, execute, lower_bounds, sweep, training_plan
from attenio.accelerator import simulate
from attenio.bounds import largest_ordinary
from attenio.display import Listed, Shown
from attenio.errors import InvalidInput
from attenio.planning import best_plan_for, nested_plan, plan_with, published_plan
from attenio.planning.plan import Tiles
from attenio.report import answer, training_answer

WORKLOAD, MACHINE = Workload(n=96, d=8, heads=2, mask="causal"), Machine.with_fast_bytes("2KB")


def shown_values() -> dict[str, Shown]:
    plan = best_plan(WORKLOAD, MACHINE)
    nested = nested_plan(Workload(n=64, d=8), "toy-three-levels")
    step = training_plan(WORKLOAD, MACHINE)
    values = [plan, plan.bound, execute(plan), nested, execute(nested), step, execute(step)]
    values += [candidates(WORKLOAD, MACHINE)[0], simulate(Workload(n=64, d=8), "attenio-64k")]
    return {type(value).__name__: value for value in values}


SHOWN = shown_values()


class Names(Shown):
    def __init__(self, facts: dict[str, object]) -> None:
        self._facts = facts

    def facts(self) -> dict[str, object]:
        return self._facts


@pytest.mark.parametrize("name", SHOWN)
def test_text_html_and_a_data_frame_have_every_fact(name: str) -> None:
    pandas = pytest.importorskip("pandas")
    value = SHOWN[name]
    facts, text, html = value.facts(), str(value), unescape(value._repr_html_())
    assert text.splitlines()[0] == name
    assert len(text.splitlines()) == 1 + len(facts)
    for line, (fact, found) in zip(text.splitlines()[1:], facts.items(), strict=True):
        shown = line.removeprefix(f"  {fact}").strip()
        assert shown in html and fact in html
        if isinstance(found, int):
            assert int(shown.replace(",", "")) == found
    frame = value.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.iloc[0].to_dict().keys() == facts.keys()


def test_lists_of_bounds_and_candidates_are_tuples_and_tables() -> None:
    pytest.importorskip("pandas")
    for listed in (lower_bounds(WORKLOAD, MACHINE), candidates(WORKLOAD, MACHINE)):
        assert listed == tuple(listed)
        assert len(str(listed).splitlines()) == 1 + len(listed) == listed._repr_html_().count("<tr>")
        assert len(listed.to_pandas()) == len(listed)
    words = lower_bounds(WORKLOAD, MACHINE).to_pandas()["words"]
    assert list(words) == [bound.words for bound in lower_bounds(WORKLOAD, MACHINE)]


def test_a_sweep_is_a_data_frame_of_its_rows() -> None:
    pytest.importorskip("pandas")
    found = sweep(SweepGrid(n=["1K", 64], d=["16"], fast_bytes=["32B", "4KB"]))
    frame = found.to_pandas()
    assert list(frame["keys"]) == [row["keys"] for row in found.rows()]
    for mine, row in zip(frame["moved_words"], found.rows(), strict=True):
        assert mine == row["moved_words"] or (row["moved_words"] is None and mine != mine)


@given(
    st.dictionaries(
        st.text(CHARACTERS, min_size=1),
        st.one_of(st.text(CHARACTERS), st.integers(), st.floats(), st.none()),
        min_size=1,
    )
)
def test_no_fact_escapes_from_its_cell(facts: dict[str, object]) -> None:
    for html in (Names(facts)._repr_html_(), Listed([Names(facts)])._repr_html_()):
        tags = set(re.findall(r"</?\w+", html))
        assert tags <= {
            f"{end}{tag}" for end in ("<", "</") for tag in ("table", "caption", "thead", "tbody", "tr", "th", "td")
        }
        assert html.count("<td") == len(facts)


@pytest.mark.parametrize("machine", ["h100", "attenio-512k", "toy-three-levels"])
@pytest.mark.parametrize("options", [{}, {"mask": "causal", "heads": 4, "kv_heads": 2}, {"direction": "backward"}])
def test_the_gap_of_a_plan_is_the_one_that_the_command_line_prints(machine: str, options: dict[str, object]) -> None:
    workload = Workload(n=300, d=16, **options)
    found = answer(workload, machine)
    assert best_plan(workload, machine).gap == found.gap
    assert best_plan(workload, machine).absolute_gap == found.absolute_gap
    assert best_plan(workload, machine).bound == found.bound
    for mine, theirs in zip(candidates(workload, machine), found.candidates, strict=True):
        assert mine.facts()["gap"] == (None if theirs.plan is None else theirs.plan.moved_words / found.bound.words)


def test_the_gap_of_a_training_step_and_of_other_plans_is_that_of_their_boundary() -> None:
    workload = Workload(n=300, d=16)
    assert training_plan(workload, "h100").gap == training_answer(workload, "h100").gap
    bound = largest_ordinary(lower_bounds(workload, "h100")).words
    published = published_plan(workload, "h100", "flash-attention-2")
    given = plan_with(workload, "h100", "attenio", Tiles.of(query_tile=64, key_tile=16))
    assert published is not None
    assert [plan.gap * bound for plan in (published, given)] == [published.moved_words, given.moved_words]
    alone = best_plan_for(workload, 4096)
    assert (alone.boundary, alone.gap) == (None, best_plan(workload, Machine.with_fast_bytes("8K")).gap)


@pytest.mark.parametrize(("text", "number"), [("128K", 131072), ("64", 64), ("1.5K", 1536), ("1,024", 1024)])
def test_a_size_may_be_text_wherever_it_may_be_a_number(text: str, number: int) -> None:
    assert Workload(n=text, d="16") == Workload(n=number, d=16)
    assert Workload(queries=text, keys=number, d=16, heads="4", kv_heads="2", batch="2") == Workload(
        n=number, d=16, heads=4, kv_heads=2, batch=2
    )
    assert Machine.with_fast_bytes(text) == Machine.with_fast_bytes(f"{text}B") == Machine.with_fast_bytes(number)
    assert SweepGrid(n=[text], d=[16], fast_bytes=[f"{text}B"]) == SweepGrid(n=[number], d=[16], fast_bytes=[number])


@pytest.mark.parametrize("wrong", ["", "x", "128KB", "1.3", "-4", "nan", "1e30", "4096,2048"])
def test_text_that_is_no_count_is_refused_in_a_line(wrong: str) -> None:
    with pytest.raises(InvalidInput, match=r"^n is [^\n]*$"):
        Workload(n=wrong, d=16)
