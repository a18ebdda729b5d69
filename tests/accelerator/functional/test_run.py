"""Programs on numbers: without rounding they are the definition, and in half precision no further than the bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import Switches, plan_for
from attenio.accelerator.functional import FUNCTIONAL, ExpApproximation, Precision, run_functional
from attenio.catalogue import machine_named
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.parts import AcceleratorParts
from attenio.planning import Dataflow, Plan, Tiles, best_plan, plan_with
from attenio.workload import Direction, Workload


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, Machine]:
    kv_heads = draw(st.integers(1, 2))
    n = draw(st.integers(2, 14))
    documents = f"documents:{n - 1},1"
    workload = Workload(
        n=n,
        d=draw(st.integers(1, 6)),
        value_dim=draw(st.integers(1, 6)),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        batch=draw(st.integers(1, 2)),
        mask=draw(st.sampled_from(["dense", "causal", f"window:{max(1, n // 2)}", documents])),
    )
    dataflow = draw(st.sampled_from(FUNCTIONAL))
    if dataflow.direction is Direction.BACKWARD:
        masks = ["dense", "causal", f"window:{max(1, n // 2)}", documents]
        workload = replace(workload, direction="backward", mask=draw(st.sampled_from(masks)))
    elif n > 3 and draw(st.booleans()):
        workload = replace(workload, queries=n - n // 2, mask=f"shared-prefix:{n // 2}")
    cache = draw(st.integers(30, 200))
    parts = AcceleratorParts(
        pe_lines=draw(st.integers(1, 9)), macs_per_line=draw(st.integers(1, 5)), exp_modules=3, kv_buffer_bytes=2 * 30
    )
    memory = MemoryLevel(name="HBM", bandwidth_bytes_per_s=128e9)
    machine = Machine(
        name="small", levels=(MemoryLevel(name="cache", capacity_bytes=2 * cache), memory), accelerator=parts
    )
    return best_plan(workload, machine, dataflow=dataflow), machine


@settings(max_examples=20, deadline=None)
@given(st.data(), st.booleans(), st.integers(0, 9))
def test_a_program_computes_attention(data: st.DataObject, on: bool, seed: int) -> None:
    try:
        plan, machine = data.draw(plans())
        switches = Switches() if on else Switches.none()
        exact = run_functional(plan, machine, switches=switches, arithmetic=Precision.EXACT, inputs=seed)
    except DoesNotFit:
        return
    assert exact.max_abs_error < 1e-12
    half = run_functional(plan, machine, switches=switches, inputs=seed)
    assert half.max_abs_error <= half.error_bound


@pytest.mark.parametrize("dataflow", [each for each in FUNCTIONAL if each.direction is Direction.FORWARD])
def test_half_precision_stays_near_the_definition_at_the_published_width(dataflow: Dataflow) -> None:
    machine = machine_named("attenio-512k")
    found = run_functional(plan_for(Workload(n=64, d=64, mask="causal"), machine, dataflow), machine)
    assert found.max_abs_error <= found.error_bound
    # untiled attention whose every score, weight and sum is rounded once to half precision is off by about 1e-3
    assert found.max_abs_error < 1e-2


@pytest.mark.parametrize("mask", ["dense", "causal"])
def test_gradients_in_half_precision_stay_near_the_definition(mask: str) -> None:
    machine = machine_named("attenio-512k")
    workload = Workload(n=48, d=32, heads=4, kv_heads=2, mask=mask, direction="backward")
    plan = plan_with(workload, machine, Dataflow.KEY_STATIONARY, Tiles.of(query_tile=7, key_tile=20))
    exact = run_functional(plan, machine, arithmetic=Precision.EXACT)
    assert exact.max_abs_error < 1e-12
    half = run_functional(plan, machine)
    assert half.gradients is not None and half.error_bound == np.inf
    largest = max(float(np.abs(each).max()) for each in half.gradients)
    assert 1e-5 < half.max_abs_error < 1e-2 * largest


def test_requests_that_share_a_prefix_are_computed_stacked() -> None:
    machine = machine_named("attenio-512k")
    workload = Workload(queries=14, keys=24, d=8, heads=4, kv_heads=2, batch=3, mask="shared-prefix:10")
    plan = plan_for(workload, machine, Dataflow.STACKED_GROUPS)
    assert run_functional(plan, machine, arithmetic=Precision.EXACT).max_abs_error < 1e-12


def test_a_cheaper_exponential_costs_what_it_should() -> None:
    machine, workload = machine_named("attenio-512k"), Workload(n=128, d=32)
    plan = plan_for(workload, machine, Dataflow.ATTENIO)
    errors = {kind: run_functional(plan, machine, arithmetic=kind).max_abs_error for kind in ExpApproximation}
    assert errors[ExpApproximation.TABLE] < 4e-3 > errors[ExpApproximation.ROUNDED]
    assert errors[ExpApproximation.TABLE] < errors[ExpApproximation.LINEAR] < 6e-2


def test_scores_beyond_half_precision_saturate_and_promise_nothing() -> None:
    machine, workload = machine_named("attenio-512k"), Workload(n=4, d=4, scale=1.0)
    large = np.full((1, 1, 4, 4), 300.0)
    found = run_functional(
        plan_for(workload, machine, Dataflow.ATTENIO), machine, inputs=(large, large, np.ones((1, 1, 4, 4)))
    )
    assert np.isfinite(found.output).all()
    assert found.error_bound == np.inf


@pytest.mark.parametrize(
    ("workload", "dataflow", "refusal"),
    [
        (Workload(n=8, d=4, dtype="bf16"), Dataflow.ATTENIO, "computes in fp16, the workload is in bf16"),
        (
            Workload(n=2**20, d=64),
            Dataflow.ATTENIO,
            "use at most 16,777,216 of this width",
        ),
    ],
)
def test_what_it_does_not_compute_is_refused(workload: Workload, dataflow: Dataflow, refusal: str) -> None:
    machine = machine_named("attenio-512k")
    with pytest.raises(InvalidInput, match=refusal):
        run_functional(plan_for(workload, machine, dataflow), machine)
