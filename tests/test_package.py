"""Laws of the package's own names."""

import subprocess
import sys
from dataclasses import fields, replace

import pytest

import attenio
from attenio.accelerator import plan_for, simulate, simulate_plan
from attenio.bounds import bounds_for
from attenio.catalogue import machine_named, machines_in_file, model_named
from attenio.dataflows import random_inputs
from attenio.dataflows.inputs import given_or_random
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse, Documents, SharedPrefix, SlidingWindow
from attenio.paging import PagedWorkload, plan_pages
from attenio.pebbling import Game, check
from attenio.planning import best_plan_for, published_plan
from attenio.reordering import best_reordering
from attenio.report import answer, floor, reproduce, training_answer, write_report
from attenio.weight_gradient import WeightGradient, plan_weight_gradient


def test_every_public_name_is_found_and_listed():
    for name in set(attenio.__all__) - {"attention", "explain"}:
        assert getattr(attenio, name).__name__ == name
        assert name in dir(attenio)


def test_modules_of_public_names_need_no_import_of_their_own():
    assert attenio.planning.best_plan is attenio.best_plan


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'best_plam'"):
        attenio.best_plam  # noqa: B018


TAKING_MACHINES = {
    "best_plan": attenio.best_plan,
    "candidates": attenio.candidates,
    "lower_bounds": attenio.lower_bounds,
    "nested_plan": attenio.nested_plan,
    "training_plan": attenio.training_plan,
    "published_plan": lambda workload, machine: published_plan(workload, machine, "flash-attention-2"),
    "answer": answer,
    "floor": floor,
    "training_answer": training_answer,
    "simulate": lambda workload, machine: simulate(workload, machine).cycles,
    "plan_for": lambda workload, machine: plan_for(workload, machine, "attenio"),
    "grid": lambda workload, machine: (
        attenio.SweepGrid(n=[workload.queries], d=[workload.d], machines=[machine]).computers
    ),
}


@pytest.mark.parametrize("name", TAKING_MACHINES)
def test_a_machine_may_be_given_by_its_name(name):
    call, workload = TAKING_MACHINES[name], attenio.Workload(n=64, d=8)
    assert call(workload, "Attenio-512K") == call(workload, machine_named("attenio-512k"))


@pytest.mark.parametrize("machine", ["h101", None, 65536, {"name": "h100"}, float("nan")], ids=str)
@pytest.mark.parametrize("name", TAKING_MACHINES)
def test_what_is_no_machine_is_refused_with_the_way_to_one(name, machine):
    with pytest.raises(
        InvalidInput, match=r"(unknown machine|machine is .*; give a Machine, or a name).*attenio machines"
    ):
        TAKING_MACHINES[name](attenio.Workload(n=64, d=8), machine)


@pytest.mark.parametrize("workload", [None, "llama-3-70b", 4096, (64, 8)], ids=str)
@pytest.mark.parametrize("name", sorted(set(TAKING_MACHINES) - {"grid"}))
def test_what_is_no_workload_is_refused_with_the_way_to_one(name, workload):
    with pytest.raises(InvalidInput, match=r"workload is .*; give a Workload, such as"):
        TAKING_MACHINES[name](workload, "attenio-512k")


def test_what_is_no_plan_no_grid_and_no_graph_is_refused_in_a_line():
    with pytest.raises(InvalidInput, match="plan is None; give a plan"):
        attenio.execute(None)
    with pytest.raises(InvalidInput, match="grid is None; give a SweepGrid"):
        attenio.sweep(None)
    with pytest.raises(InvalidInput, match="graph is None; give a ComputationGraph"):
        Game(graph=None, red=3)


def test_a_sweep_without_lengths_or_widths_is_refused_in_a_line():
    with pytest.raises(InvalidInput, match="a sweep needs lengths"):
        attenio.SweepGrid(machines=["h100"])
    with pytest.raises(InvalidInput, match="a sweep has no d; give at least one"):
        attenio.SweepGrid(n=[64], machines=["h100"])


def test_python_dash_m_attenio_is_the_command_line():
    done = subprocess.run([sys.executable, "-m", "attenio", "plam"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean plan?" in done.stderr


@pytest.mark.parametrize("given", [{"n": 1024}, {"n": [64], "masks": "causal"}, {"n": [64], "fast_bytes": 4096}])
def test_a_list_of_a_sweep_that_is_none_is_refused(given):
    with pytest.raises(InvalidInput, match=r"of a sweep is .*; give a list, such as"):
        attenio.SweepGrid(**{"d": [8], "fast_bytes": [4096], **given})


def test_a_report_that_is_no_page_by_its_name_is_refused_before_anything_is_done(tmp_path):
    from attenio.report import write_report, write_training_report

    for write in (write_report, write_training_report):
        with pytest.raises(InvalidInput, match=r"use a name ending in \.html"):
            write(tmp_path / "x.txt", attenio.Workload(n=64, d=8), attenio.Machine.with_fast_bytes(4096))
    assert not list(tmp_path.iterdir())


TWO_OF_EACH = [
    (
        attenio.Workload(n=1024, d=64),
        attenio.Workload(
            queries=5, keys=7, d=8, value_dim=4, heads=6, kv_heads=3, batch=2, mask="causal", dtype="fp32",
            accumulator="fp32", scale=0.5, direction="backward", tolerance=0.1, entry_bound=0.2,
        ),
    ),
    (WeightGradient(n=8, d=2), WeightGradient(queries=5, keys=7, d=3, mask="causal", dtype="fp32", scale=0.5)),
    (machine_named("h100"), machine_named("attenio-512k")),
    (machine_named("h100").levels[0], machine_named("a100").levels[-1]),
    (model_named("llama-3-8b"), model_named("deepseek-v3")),
    (
        attenio.SweepGrid(n=[8], d=[4], fast_bytes=[4096]),
        attenio.SweepGrid(queries=[3], keys=[5], d=[8], masks=["causal"], machines=[machine_named("h100")]),
    ),
    (SlidingWindow(width=3), SlidingWindow(width=5, causal=False)),
    (SharedPrefix(length=3), SharedPrefix(length=5, causal=False)),
    (Documents(lengths=(3, 4)), Documents(lengths=(2, 5), key_lengths=(4, 1), causal=False)),
    (BlockSparse(layout=((True,),)), BlockSparse(layout=((True, False),), query_block=8, key_block=16)),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), TWO_OF_EACH, ids=lambda value: type(value).__name__)
def test_replacing_a_field_gives_the_new_value_or_is_refused(one, other):
    for field in fields(one):
        wanted = getattr(other, field.name)
        try:
            found = replace(one, **{field.name: wanted})
        except InvalidInput as refusal:
            assert "\n" not in str(refusal)
        else:
            assert getattr(found, field.name) == wanted
            same = {f.name for f in fields(one)} - {field.name}
            assert all(getattr(found, name) == getattr(one, name) for name in same)


WRONG = [None, "x", -1, float("nan"), 10**30, [], {}, 3.5, object()]
WORKLOAD, PLAN = attenio.Workload(n=64, d=8), attenio.best_plan(attenio.Workload(n=64, d=8), "attenio-512k")
LEVELS = machine_named("h100").levels
TAKING_ANYTHING = {
    "levels of a machine": lambda wrong: attenio.Machine(name="m", levels=wrong),
    "a level of a machine": lambda wrong: attenio.Machine(name="m", levels=(wrong, *LEVELS)),
    "rates of a machine": lambda wrong: attenio.Machine(name="m", levels=LEVELS, flops_per_s={"fp16": wrong}),
    "capacity": lambda wrong: attenio.MemoryLevel(name="l", capacity_bytes=wrong),
    "bandwidth": lambda wrong: attenio.MemoryLevel(name="l", bandwidth_bytes_per_s=wrong),
    "inputs": lambda wrong: attenio.execute(PLAN, inputs=wrong),
    "inputs of a gradient": lambda wrong: given_or_random(WORKLOAD, wrong, 0),
    "workload of inputs": random_inputs,
    "workload of bounds": lambda wrong: bounds_for(wrong, 4096),
    "boundary": lambda wrong: attenio.lower_bounds(WORKLOAD, "h100", boundary=wrong),
    "workload of a plan": lambda wrong: best_plan_for(wrong, 4096),
    "plan of a simulation": lambda wrong: simulate_plan(wrong, "attenio-512k"),
    "switches": lambda wrong: simulate(WORKLOAD, "attenio-512k", switches=wrong),
    "model": model_named,
    "file of machines": machines_in_file,
    "figure": reproduce,
    "game": lambda wrong: check(wrong, []),
    "workload of an order": lambda wrong: best_reordering(wrong, 4096),
    "weight gradient": lambda wrong: plan_weight_gradient(wrong, 4096),
    "requests on pages": lambda wrong: plan_pages(wrong, 4096),
    "lengths of requests": lambda wrong: PagedWorkload(lengths=wrong, page_size=16, d=8),
    "table of pages": lambda wrong: PagedWorkload(lengths=(8,), page_size=16, d=8, table=wrong),
    "new tokens": lambda wrong: PagedWorkload(lengths=(8,), page_size=16, d=8, new=wrong),
    "bits of keys": lambda wrong: PagedWorkload(lengths=(8,), page_size=16, d=8, kv_bits=wrong),
    "cap on scores": lambda wrong: PagedWorkload(lengths=(8,), page_size=16, d=8, softcap=wrong),
    "sinks": lambda wrong: PagedWorkload(lengths=(8,), page_size=16, d=8, sinks=wrong),
    "page": lambda wrong: write_report(wrong, WORKLOAD, "attenio-512k"),
    "file of a sweep": lambda wrong: attenio.sweep(attenio.SweepGrid(n=[64], d=[8], fast_bytes=[4096]), out=wrong),
}


@pytest.mark.parametrize("what", TAKING_ANYTHING)
def test_values_of_any_wrong_kind_are_refused_in_a_line_or_stand_for_nothing_given(what):
    for wrong in WRONG:
        try:
            TAKING_ANYTHING[what](wrong)
        except attenio.AttenioError as refusal:
            assert "\n" not in str(refusal) and len(str(refusal)) < 400
        else:
            assert wrong is None or isinstance(wrong, int | float), f"{what} took {wrong!r}"


def test_plans_programs_games_and_tensors_of_packages_are_refused_where_they_are_none():
    from attenio.accelerator import trace_json
    from attenio.approximation import approximate_attention
    from attenio.dataflows import execute_nested
    from attenio.pebbling import Board
    from attenio.reordering import best_reordering
    from attenio.weight_gradient import execute_weight_gradient

    workload = attenio.Workload(n=64, d=8)
    for call, line in (
        (lambda: execute_nested(None), "plan is None; give a nested plan"),
        (lambda: execute_nested(attenio.best_plan(workload, "h100")), "plan is Plan .*; give a nested plan"),
        (
            lambda: attenio.execute(attenio.best_plan(workload, "h100"), progress="x"),
            "progress is 'x'; give a function",
        ),
        (lambda: execute_weight_gradient(None), "plan is None; give a WeightPlan"),
        (lambda: trace_json(None), "program is None; give a program"),
        (lambda: Board(None), "game is None; give a Game"),
        (lambda: approximate_attention(None, None, None, tolerance=0.1), "query is None; give a tensor"),
        (lambda: best_reordering(workload, 1024, methods=-1), "methods is -1; give a list"),
    ):
        with pytest.raises(InvalidInput, match=line):
            call()
