"""Laws of the tiles of fewest cycles: more cache is never slower, and the paper's tiles are never faster."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.accelerator import Hardware, fastest_plan, plan_for, simulate_plan
from attenio.accelerator.fastest import least_cycles
from attenio.catalogue import machine_named
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.planning import Dataflow, Tiles, plan_with
from attenio.workload import Workload

from .test_simulate import small_machine

LAWS = settings(max_examples=17, deadline=None, derandomize=True)


def cycles_on(workload: Workload, machine: Machine) -> float:
    return simulate_plan(fastest_plan(workload, machine), machine).cycles


@st.composite
def dense(draw: st.DrawFn) -> Workload:
    lengths = {"queries": draw(st.integers(1, 90)), "keys": draw(st.integers(1, 30))}
    return Workload(
        **lengths, d=draw(st.integers(1, 12)), value_dim=draw(st.integers(1, 12)), heads=draw(st.integers(1, 2))
    )


@LAWS
@given(dense(), st.integers(40, 900), st.integers(1, 600), st.data())
def test_more_cache_is_never_slower(workload: Workload, cache: int, more: int, data: st.DataObject) -> None:
    array = {"lines": data.draw(st.integers(1, 9)), "macs": data.draw(st.integers(1, 9)), "kv_words": 40}
    try:
        small = cycles_on(workload, small_machine(cache, **array))
    except DoesNotFit:
        assume(False)
    assert cycles_on(workload, small_machine(cache + more, **array)) <= small


@LAWS
@given(dense(), st.integers(1, 90), st.sampled_from([1, 2, 3]), st.data())
def test_no_dense_run_goes_below_its_least_cycles(
    workload: Workload, rows: int, keys: int, data: st.DataObject
) -> None:
    machine = small_machine(
        10**5,
        lines=data.draw(st.integers(1, 9)),
        macs=data.draw(st.integers(1, 9)),
        modules=data.draw(st.integers(1, 9)),
    )
    rows, keys = min(rows, workload.queries), min(keys, workload.keys)
    plan = plan_with(workload, machine, Dataflow.ATTENIO, Tiles.of(query_tile=rows, key_tile=keys))
    least = int(least_cycles(workload, Hardware.of(machine), np.array([rows]), keys)[0])
    assert least <= simulate_plan(plan, machine).cycles


@pytest.mark.parametrize("d", [64, 128])
def test_on_the_caches_of_figure_14_the_paper_s_tiles_are_never_faster_and_sometimes_much_slower(d: int) -> None:
    workload, last, gains = Workload(n=2**15, d=d), None, []
    for kilobytes in (64, 128, 256, 384, 512, 640, 768):
        machine = machine_named(f"attenio-{kilobytes}k")
        found = cycles_on(workload, machine)
        assert last is None or found <= last
        gains.append(simulate_plan(plan_for(workload, machine, "attenio"), machine).cycles / found)
        last = found
    assert min(gains) >= 1
    assert max(gains) > 1.3


@pytest.mark.parametrize("mask", ["causal", "window:300"])
def test_under_a_mask_the_paper_s_tiles_are_never_faster(mask: str) -> None:
    workload = Workload(n=3000, d=64, mask=mask)
    for name in ("attenio-128k", "attenio-384k"):
        machine = machine_named(name)
        published = simulate_plan(plan_for(workload, machine, "attenio"), machine)
        assert cycles_on(workload, machine) <= published.cycles


def test_what_has_no_such_tiles_is_refused_in_one_line() -> None:
    with pytest.raises(DoesNotFit, match=r"attenio needs at least \d+ words of fast memory; the cache holds 20"):
        fastest_plan(Workload(n=50, d=12), small_machine(20, kv_words=20))
    with pytest.raises(DoesNotFit, match="the KV buffer holds 4 words"):
        fastest_plan(Workload(n=50, d=12), small_machine(100, kv_words=4))
    with pytest.raises(InvalidInput, match="tiles of fewest cycles are those of the forward pass"):
        fastest_plan(Workload(n=50, d=12, direction="backward"), small_machine(100))
