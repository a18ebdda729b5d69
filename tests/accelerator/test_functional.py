"""The engines compute attention."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import ExpApproximation, Switches, plan_for, run_functionally, simulate_plan
from attenio.catalogue import machine_named
from attenio.errors import InvalidInput
from attenio.planning import Dataflow, Tiles, plan_with
from attenio.workload import Workload

MACHINE = machine_named("attenio-64k")
RUN = (Dataflow.ATTENIO, Dataflow.FLASH_ATTENTION_2, Dataflow.FLAT)


def inputs(workload: Workload, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = ((workload.queries, workload.d), (workload.keys, workload.d), (workload.keys, workload.value_dim))
    q, k, v = (random.standard_normal(shape) for shape in shapes)
    return q, k, v


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 24),
    st.integers(1, 24),
    st.sampled_from(["dense", "causal"]),
    st.sampled_from(RUN),
    st.integers(1, 9),
    st.booleans(),
)
def test_the_program_computes_attention_in_half_precision(
    queries: int, keys: int, mask: str, dataflow: Dataflow, tile: int, on: bool
) -> None:
    workload = Workload(queries=queries, keys=keys, d=8, mask=mask)
    sizes = {"query_tile": tile} if dataflow is Dataflow.FLAT else {"query_tile": tile, "key_tile": 1 + tile // 3}
    plan = plan_with(workload, MACHINE, dataflow, Tiles.of(**sizes))
    done = run_functionally(plan, MACHINE, inputs(workload), switches=Switches() if on else Switches.none())
    # values of a few units, rounded to 11 bits a few times for every tile of keys
    assert done.max_abs_error < 0.02
    assert done.steps == simulate_plan(plan, MACHINE, switches=Switches() if on else Switches.none()).program.steps


@pytest.mark.parametrize(
    ("kind", "most"),
    [(ExpApproximation.ROUNDED, 4e-3), (ExpApproximation.TABLE, 4e-3), (ExpApproximation.LINEAR, 6e-2)],
)
def test_a_coarser_exponential_costs_what_it_should(kind: ExpApproximation, most: float) -> None:
    workload = Workload(n=128, d=32)
    done = run_functionally(
        plan_for(workload, MACHINE, Dataflow.ATTENIO), MACHINE, inputs(workload), approximation=kind
    )
    assert done.max_abs_error < most


def test_what_is_only_timed_is_refused() -> None:
    workload = Workload(n=16, d=8)
    with pytest.raises(InvalidInput, match=r"standard .* is only timed"):
        run_functionally(plan_for(workload, MACHINE, Dataflow.STANDARD), MACHINE, inputs(workload))
