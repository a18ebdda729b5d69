import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from attenio.catalogue import machine_named
from attenio.dataflows import execute
from attenio.machine import Machine
from attenio.planning.published import has_published_rule
from attenio.report.answer import answer
from attenio.report.notation import nested_rows, show_ratio
from attenio.report.reproduction import reproduce
from attenio.report.tables import bounds_table, plan_tables, reproduction_table, run_table
from attenio.workload import Workload

from .strategies import machines, workloads

LAW = settings(deadline=None, derandomize=True, max_examples=11)


def rendered(table: RenderableType, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True, force_terminal=False)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    return text


@LAW
@given(workload=workloads(), machine=machines(), width=st.sampled_from([40, 60, 80]))
def test_every_number_of_the_answer_is_in_the_tables_unbroken(workload: Workload, machine: Machine, width: int) -> None:
    found = answer(workload, machine)
    text = rendered(plan_tables(found), width)
    for candidate in found.candidates:
        assert candidate.dataflow.value in text
        assert candidate.plan is None or f"{candidate.plan.moved_words:,}" in text
    assert f"{found.bound.words:,} words" in text
    assert show_ratio(found.gap) in text
    bounds = rendered(bounds_table(found), width)
    for bound in found.lower_bounds:
        assert f"{bound.words:,}" in bounds
        assert bound.strength.value in bounds


def test_candidates_are_listed_with_the_fewest_words_first() -> None:
    text = rendered(plan_tables(answer(Workload(n=4096, d=64), machine_named("attenio-64k"))))
    rows = re.findall(r"^[a-z0-9-]+ +([\d,]+) +[\d,.]+× +(?:best|published)", text, flags=re.MULTILINE)
    words = [int(number.replace(",", "")) for number in rows]
    assert len(words) > 8
    assert words == sorted(words)


def test_every_header_of_a_count_has_its_unit() -> None:
    found = answer(Workload(n=256, d=16), machine_named("toy-three-levels"))
    text = rendered(plan_tables(found)) + rendered(bounds_table(found))
    text += rendered(plan_tables(answer(Workload(n=256, d=16), machine_named("toy-1k-words"))))
    for header in ("moved (words)", "plan moves (words)", "at least (words)"):
        assert header in text


def test_what_does_not_fit_is_one_short_row_where_no_tiles_fit() -> None:
    found = answer(Workload(n=256, d=64), Machine.with_fast_bytes(400))
    absent = [candidate for candidate in found.candidates if candidate.plan is None]
    text = rendered(plan_tables(found), width=200)
    for dataflow in {candidate.dataflow for candidate in absent}:
        (row,) = re.findall(rf"^{dataflow.value} .*does not fit: needs at least [\d,]+ words *$", text, re.MULTILINE)
        assert text.count(f"\n{dataflow.value} ") == 1
        assert row.split()[3] == ("any" if has_published_rule(dataflow) else "best")
    assert len(absent) == 5
    assert "use smaller tiles" not in text


def test_published_tiles_that_are_the_best_share_a_row() -> None:
    found = answer(Workload(n=4096, d=128), machine_named("toy-1k-words"))
    text = rendered(plan_tables(found), width=160)
    tiles = {(candidate.dataflow, candidate.tiles) for candidate in found.candidates}
    assert len(tiles) < len(found.candidates)
    assert text.count("best = published") == len(found.candidates) - len(tiles)


def test_over_several_levels_the_nested_plan_and_the_plans_of_single_boundaries_are_told_apart() -> None:
    workload = Workload(n=32768, d=128, heads=32, kv_heads=8, mask="causal", dtype="bf16")
    for dataflow in (None, "flash-attention-2"):
        found = answer(workload, machine_named("h100"), dataflow=dataflow)
        assert found.nested is not None
        text = rendered(plan_tables(found))
        nested, alone = text.split("One plan nested over all levels")[1].split("plan for each boundary alone")
        assert f"head_tile={found.nested.head_tile}" in nested
        for part, tiles in zip(found.boundaries, found.nested.tiles, strict=True):
            assert f"{tiles.query_tile:,}" in nested
            assert f"{part.nested_words:,}" in nested
            assert part.plan is not None
            assert f"{part.plan.moved_words:,}" in alone
            assert part.plan.dataflow.value in alone
        assert "this plan" not in text
        assert "with the nested plan" in text


def test_a_nested_plan_shows_the_requests_that_it_stacks() -> None:
    workload = Workload(
        queries=1, keys=9216, d=128, heads=64, kv_heads=8, batch=64, mask="prefix:8192", dtype="bf16"
    )  # fmt: skip
    found = answer(workload, machine_named("h200"))
    assert found.nested is not None
    shown = list(nested_rows(found, found.nested))
    assert [(rows, keys) for _, rows, keys, _ in shown] == [(t.query_tile, t.key_tile) for t in found.nested.tiles]
    assert {rows * found.nested.head_tile % 64 for _, rows, _, _ in shown} == {0}
    assert {rows for _, rows, _, _ in shown} == {64}


def test_a_rate_that_is_unknown_has_a_row_and_qualifies_what_binds() -> None:
    found = answer(Workload(n=4096, d=128, dtype="fp8"), machine_named("a100"))
    assert found.unknown_rates == ("arithmetic",)
    text = rendered(plan_tables(found))
    assert re.search(r"^arithmetic +rate unknown", text, flags=re.MULTILINE)
    assert "Of the rates known, exponentials binds" in text


def test_a_run_is_shown_beside_its_prediction() -> None:
    found = answer(Workload(n=64, d=8), machine_named("toy-1k-words"))
    run = execute(found.plan)
    text = rendered(run_table(run, found))
    assert text.count(f"{run.moved_words:,}") >= 2
    assert text.count(f"{run.peak_words:,}") >= 2
    assert f"{run.max_abs_error:.3g}" in text


def test_the_reproduction_shows_published_and_computed_numbers_and_how_they_were_counted() -> None:
    reproduction = reproduce("fig11")
    text = rendered(reproduction_table(reproduction))
    for row in reproduction.rows:
        assert f"{row.value:.2f}" in text
        assert row.published is None or str(row.published) in text
    assert "re-reads" in text
