from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.dataflows import execute, random_gradient, random_inputs
from attenio.dataflows.inputs import given_or_random
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse
from attenio.memory import EventKind, Step
from attenio.planning.plan import Dataflow, Tiles
from attenio.reference import attention, attention_gradients
from attenio.workload import Workload

from ..laws import (
    GRADIENT_TILES,
    LEAN_TILES,
    QUICK,
    READING_TILES,
    RESIDENT_TILES,
    is_right,
    planned,
    some_tiles,
    workloads,
)

FEW = settings(QUICK, max_examples=12)
ROOMY = 10**6
FORMS = [
    (Dataflow.TILED_PRODUCTS, READING_TILES),
    (Dataflow.TILED_PRODUCTS, RESIDENT_TILES),
    (Dataflow.SPILLED_GRADIENTS, LEAN_TILES),
]
EVERY_WAY = [*GRADIENT_TILES.items(), *FORMS]
every_way = pytest.mark.parametrize(
    ("dataflow", "tiles"),
    EVERY_WAY,
    ids=[flow.value + (" (other form)" if (flow, tiles) in FORMS else "") for flow, tiles in EVERY_WAY],
)
PRODUCTS = (Step.VALUE_GRADIENT, Step.KEY_GRADIENT, Step.QUERY_GRADIENT)


@every_way
@pytest.mark.parametrize("size", [1e2, 1e5])
def test_a_score_far_above_the_others_takes_all_the_weight(dataflow, tiles, size):
    workload = Workload(n=6, d=4, heads=2, kv_heads=1, mask="causal", dtype="fp32", direction="backward")
    q, k, v = random_inputs(workload)
    inputs = (size * np.sign(q), np.sign(k), v, random_gradient(workload))
    run = execute(planned(workload, dataflow, tiles, ROOMY), inputs=inputs)
    # scores, and the log-sum-exp with them, are rounded to their own last place
    rounding = 2.0**-23 * size * 4 * max(np.abs(x).max() for x in run.gradients)
    assert run.max_abs_error <= max(8 * rounding, 1e-4)


@every_way
def test_rows_and_keys_that_nothing_needs_have_zero_gradients(dataflow, tiles):
    layout = BlockSparse.from_array(np.array([[1, 0], [0, 0], [1, 0]], dtype=bool), query_block=2, key_block=3)
    workload = Workload(queries=6, keys=6, d=2, heads=2, kv_heads=1, mask=layout, direction="backward")
    run = execute(planned(workload, dataflow, tiles, ROOMY))
    assert (run.gradients.dq[:, :, 2:4] == 0).all()
    assert (run.gradients.dk[:, :, 3:] == 0).all()
    assert (run.gradients.dv[:, :, 3:] == 0).all()
    assert all((gradient[:, :, :2] != 0).any() for gradient in run.gradients)


@every_way
@pytest.mark.parametrize("dtype", list(ElementType))
def test_gradients_are_values_of_the_element_type(dataflow, tiles, dtype):
    workload = Workload(queries=3, keys=8, d=3, dtype=dtype, heads=2, kv_heads=1, direction="backward")
    run = execute(planned(workload, dataflow, tiles, ROOMY))
    for gradient in run.gradients:
        assert gradient.dtype == np.float32
        assert (dtype.rounded(gradient) == gradient).all()
    is_right(run)


@every_way
def test_masked_values_never_reach_a_gradient(dataflow, tiles):
    workload = Workload(n=6, d=2, mask="causal", dtype="fp32", direction="backward")
    q, k, v = random_inputs(workload)
    do, hidden = random_gradient(workload), v.copy()
    hidden[:, :, 3:] = 1e30
    plan = planned(workload, dataflow, tiles, ROOMY)
    clean, dirty = execute(plan, inputs=(q, k, v, do)), execute(plan, inputs=(q, k, hidden, do))
    assert (clean.gradients.dq[:, :, :3] == dirty.gradients.dq[:, :, :3]).all()
    assert (clean.output[:, :, :3] == dirty.output[:, :, :3]).all()


@FEW
@given(workloads(), st.sampled_from(EVERY_WAY), st.data())
def test_every_product_of_a_gradient_is_computed_exactly_once(workload, way, data):
    workload, (dataflow, tiles) = workload.towards("backward"), way
    if way not in FORMS:
        tiles = some_tiles(data.draw, workload, dataflow)
    run = execute(planned(workload, dataflow, tiles, ROOMY), record=True)
    computed, stored = {step: Counter() for step in (Step.SCORES, *PRODUCTS)}, Counter()
    for event in run.trace.events:
        if event.kind is EventKind.STORE and event.operand in ("dQ", "dK", "dV"):
            stored.update((event.problem, event.operand, i, c) for i in event.rows for c in event.columns)
        elif event.step in computed:
            cells = ((event.problem, i, j, t) for i in event.rows for j in event.columns for t in event.inner)
            computed[event.step].update(cells)
    assert len(stored) == sum(gradient.size for gradient in run.gradients)
    assert {*stored.values(), *(times for step in PRODUCTS for times in computed[step].values())} <= {1}
    for step, width in zip(PRODUCTS, (workload.value_dim, workload.d, workload.d), strict=True):
        assert len(computed[step]) >= workload.scores * width
    # two passes compute the scores twice, and who reads probabilities never does
    times = {Dataflow.TWO_PASS: 2}.get(dataflow, 1)
    assert max(computed[Step.SCORES].values(), default=0) <= (0 if tiles is READING_TILES else times)


def test_inputs_are_the_callers_or_random_from_the_seed():
    workload = Workload(n=6, d=2, value_dim=3, heads=2, kv_heads=1, direction="backward")
    plan = planned(workload, Dataflow.TWO_PASS, GRADIENT_TILES[Dataflow.TWO_PASS], ROOMY)
    given, do = given_or_random(workload, None, 3)
    seeded, same = execute(plan, seed=3), execute(plan, inputs=(*given, do))
    assert all((a == b).all() for a, b in zip(seeded.gradients, same.gradients, strict=True))
    assert all((a != b).any() for a, b in zip(seeded.gradients, execute(plan, seed=4).gradients, strict=True))
    assert np.abs(seeded.output - attention(*given, workload)).max() < 1e-2
    assert np.abs(seeded.gradients.dv - attention_gradients(*given, do, workload).dv).max() < 1e-2
    with pytest.raises(InvalidInput, match="inputs are 3 arrays; the gradient needs four: q, k, v and do"):
        execute(plan, inputs=given)
    with pytest.raises(InvalidInput, match=r"do has shape .*; this workload needs .* = \(1, 2, 6, 3\)"):
        execute(plan, inputs=(*given, do[0]))


def test_a_plan_without_its_tiles_is_refused():
    workload = Workload(n=8, d=4, direction="backward")
    with pytest.raises(InvalidInput, match="two-pass needs a size for kept_keys; the plan has query_tile=2"):
        execute(planned(workload, Dataflow.TWO_PASS, Tiles.of(query_tile=2), ROOMY))
    with pytest.raises(InvalidInput, match="tiled-products needs a size for gradient_keys"):
        execute(planned(workload, Dataflow.TILED_PRODUCTS, Tiles.of(gradient_rows=2), ROOMY))
