"""Laws of whole simulations: words, modes, overlaps, masks, refusals."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import SIMULATED, Engine, Switches, simulate, simulate_plan
from attenio.catalogue import machine_named
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.parts import AcceleratorParts
from attenio.planning import Dataflow, Tiles, best_plan, plan_with
from attenio.workload import Direction, Workload


def small_machine(cache_words: int, *, lines: int = 4, macs: int = 3, modules: int = 5, kv_words: int = 64) -> Machine:
    cache = MemoryLevel(name="cache", capacity_bytes=2 * cache_words)
    parts = AcceleratorParts(
        pe_lines=lines, macs_per_line=macs, exp_modules=modules, kv_buffer_bytes=2 * min(kv_words, cache_words)
    )
    memory = MemoryLevel(name="HBM", bandwidth_bytes_per_s=128e9)
    return Machine(name="small", levels=(cache, memory), accelerator=parts)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Workload, Machine]:
    kv_heads = draw(st.integers(1, 2))
    workload = Workload(
        queries=draw(st.integers(1, 20)),
        keys=draw(st.integers(1, 20)),
        d=draw(st.integers(1, 6)),
        value_dim=draw(st.integers(1, 6)),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        batch=draw(st.integers(1, 2)),
        mask=draw(st.sampled_from(["dense", "causal"])),
    )
    machine = small_machine(
        draw(st.integers(20, 200)), lines=draw(st.integers(1, 9)), macs=draw(st.integers(1, 9)), modules=7
    )
    return workload, machine


@settings(max_examples=20, deadline=None)
@given(cases(), st.sampled_from(SIMULATED), st.booleans())
def test_words_are_the_planner_s_and_both_modes_agree(
    case: tuple[Workload, Machine], dataflow: Dataflow, on: bool
) -> None:
    workload, machine = case
    try:
        if dataflow.direction is Direction.BACKWARD:
            workload = replace(workload, mask="dense", direction="backward")
        plan = best_plan(workload, machine, dataflow=dataflow)
        done = simulate_plan(plan, machine, switches=Switches() if on else Switches.none())
    except DoesNotFit:
        return
    assert done.moved_words == plan.moved_words
    assert done.timeline == simulate_plan(plan, machine, switches=done.switches, by_events=True).timeline
    for engine in Engine:
        idle = sum(done.timeline.idle_by_reason(engine).values(), Fraction(0))
        assert done.timeline.busy_cycles(engine) + idle == done.cycles


@st.composite
def any_hardware(draw: st.DrawFn) -> Machine:
    return small_machine(
        draw(st.integers(20, 400)),
        lines=draw(st.integers(1, 9)),
        macs=draw(st.integers(1, 9)),
        modules=draw(st.sampled_from([1, 3, 20, 1000])),
    )


@settings(max_examples=26, deadline=None)
@given(cases(), any_hardware(), st.sampled_from(SIMULATED), st.booleans(), st.integers(1, 5))
def test_no_step_does_more_than_its_engine_has_units_for(
    case: tuple[Workload, Machine], machine: Machine, dataflow: Dataflow, on: bool, key_tile: int
) -> None:
    workload = case[0]
    try:
        if dataflow.direction is Direction.BACKWARD:
            workload = replace(workload, mask="dense", direction="backward")
        plan = best_plan(workload, machine, dataflow=dataflow)
        if dataflow is Dataflow.ATTENIO:
            tiles = Tiles.of(query_tile=plan.tiles["query_tile"], key_tile=min(key_tile, workload.keys))
            plan = plan_with(workload, machine, dataflow, tiles)
        done = simulate_plan(plan, machine, switches=Switches() if on else Switches.none())
    except (DoesNotFit, InvalidInput):
        return
    parts, work = done.hardware, done.program.work
    for step in done.program:
        if step.engine is Engine.PE:
            assert step.work.macs + step.work.map_operations <= step.cycles * parts.pe.macs, step
        assert step.work.exponentials <= (step.cycles * parts.exp.modules if step.engine is Engine.EXP else 0), step
    assert work.macs + work.map_operations <= done.timeline.busy_cycles(Engine.PE) * parts.pe.macs


@pytest.mark.parametrize("mask", ["dense", "causal"])
@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (16, 1), (37, 1), (37, 5)])
def test_the_parallel_softmax_lasts_as_long_as_the_slower_of_its_two_engines(mask: str, rows: int, keys: int) -> None:
    workload = Workload(queries=rows, keys=4 * rows * keys, d=1, mask=mask)
    for modules in (1, 4, 16, 64, 1000):
        machine = small_machine(4000, lines=4, macs=4, modules=modules)
        plan = plan_with(workload, machine, Dataflow.ATTENIO, Tiles.of(query_tile=rows, key_tile=keys))
        steps = {step.name: step for step in simulate_plan(plan, machine).program if step.rows in (0, rows)}
        exponentials = steps["exponentials"].cycles + steps["rescaling"].cycles
        operations = sum(steps[name].work.map_operations for name in ("maxima", "maps", "row sums"))
        assert operations == 3 * rows * keys + 2 * rows
        assert steps["maps"].cycles == -(-steps["maps"].work.map_operations // 16)
        lasts = max(exponentials, steps["maps"].cycles) + steps["maxima"].cycles + steps["row sums"].cycles
        assert 16 * lasts >= operations


def test_an_array_of_few_macs_is_what_many_modules_wait_for() -> None:
    done = simulate(Workload(n=256, d=1), small_machine(2**18, lines=4, macs=4, modules=1024))
    assert done.cycles >= 28_688  # its products and maps on 16 MACs
    assert "EXP unit" not in done.timeline.idle_by_reason(Engine.PE)


@settings(max_examples=17, deadline=None)
@given(
    st.sampled_from([Dataflow.ATTENIO, Dataflow.STACKED_GROUPS, Dataflow.FLASH_ATTENTION_2, Dataflow.FLAT]),
    st.integers(40, 70),
    st.integers(-20, 20),
    st.sampled_from(["causal", "window:7", "window:20"]),
    st.booleans(),
    st.data(),
)
def test_masked_programs_of_many_tiles_agree_with_events_and_with_the_planner(
    dataflow: Dataflow, queries: int, more_keys: int, mask: str, on: bool, data: st.DataObject
) -> None:
    workload = Workload(queries=queries, keys=queries + more_keys, d=2, heads=2, kv_heads=1, mask=mask)
    machine = small_machine(2000, lines=data.draw(st.integers(1, 9)), macs=data.draw(st.integers(1, 9)), kv_words=6)
    tiles = {"query_tile": data.draw(st.integers(1, 4))}
    match dataflow:
        case Dataflow.ATTENIO | Dataflow.STACKED_GROUPS:
            tiles["key_tile"] = data.draw(st.integers(1, 3))
        case Dataflow.FLASH_ATTENTION_2:
            tiles["key_tile"] = data.draw(st.integers(1, 9))
        case _ if data.draw(st.booleans()):
            tiles |= {"query_tile": 1, "resident_keys": data.draw(st.integers(1, 40))}
    if dataflow is Dataflow.STACKED_GROUPS:
        tiles["head_tile"] = 2
    plan = plan_with(workload, machine, dataflow, Tiles.of(**tiles))
    done = simulate_plan(plan, machine, switches=Switches() if on else Switches.none())
    assert done.moved_words == plan.moved_words
    assert done.timeline == simulate_plan(plan, machine, switches=done.switches, by_events=True).timeline


@pytest.mark.parametrize("dataflow", SIMULATED[:4])
def test_causal_programs_stay_short_at_any_length(dataflow: Dataflow) -> None:
    sizes = []
    for n in (2**17, 2**24, 2**28):
        done = simulate(Workload(n=n, d=64, mask="causal"), machine_named("attenio-512k"), dataflow=dataflow)
        assert done.moved_words == done.plan.moved_words
        sizes.append(len(done.program.body))
    assert max(sizes) < 1500


def test_masks_without_a_rule_may_have_tens_of_thousands_of_tiles() -> None:
    done = simulate(
        Workload(n=2**15, d=64, mask="bigbird:96:32:3"), machine_named("attenio-64k"), dataflow=Dataflow.FLAT
    )
    assert done.plan.tiles["query_tile"] == 1
    assert done.moved_words == done.plan.moved_words


@pytest.mark.parametrize("mask", ["bigbird:6:2:1", "strided:5", "shared-prefix:9"])
@pytest.mark.parametrize(
    "dataflow", [Dataflow.ATTENIO, Dataflow.STACKED_GROUPS, Dataflow.FLASH_ATTENTION_2, Dataflow.FLAT]
)
def test_masks_without_a_rule_agree_with_events(mask: str, dataflow: Dataflow) -> None:
    queries = 40 if mask.startswith("shared") else 80
    workload = Workload(queries=queries, keys=80, d=2, heads=2, kv_heads=1, batch=3, mask=mask)
    for machine in (small_machine(60, kv_words=6), small_machine(130, kv_words=6)):
        plan = best_plan(workload, machine, dataflow=dataflow)
        done = simulate_plan(plan, machine)
        assert done.moved_words == plan.moved_words
        assert done.timeline == simulate_plan(plan, machine, by_events=True).timeline


@settings(max_examples=14, deadline=None)
@given(cases(), st.sampled_from(["overlap_values", "overlap_keys", "overlap_queries"]))
def test_an_overlap_never_costs_cycles(case: tuple[Workload, Machine], overlap: str) -> None:
    workload, machine = case
    try:
        plan = best_plan(workload, machine, dataflow=Dataflow.ATTENIO)
        without = simulate_plan(plan, machine, switches=Switches(**{overlap: False}))
    except DoesNotFit:
        return
    assert simulate_plan(plan, machine).cycles <= without.cycles


@pytest.mark.parametrize("dataflow", SIMULATED[:4])
@pytest.mark.parametrize("d", [64, 128])
def test_published_plans_move_the_words_that_were_counted(dataflow: Dataflow, d: int) -> None:
    for n in (8192, 131072, 2**24):
        done = simulate(Workload(n=n, d=d), machine_named("attenio-512k"), dataflow=dataflow)
        assert done.moved_words == done.plan.moved_words


def test_no_array_is_busier_than_its_products_allow() -> None:
    done = simulate(Workload(n=8192, d=64), machine_named("attenio-512k"))
    assert done.mac_utilisation <= done.pe_utilisation < 1


def test_decode_runs_with_one_row_and_with_stacked_heads() -> None:
    workload = Workload(queries=1, keys=4096, d=128, heads=8, kv_heads=2)
    machine = machine_named("attenio-512k")
    alone = simulate(workload, machine)
    stacked = simulate(workload, machine, dataflow=Dataflow.STACKED_GROUPS)
    assert stacked.moved_words < alone.moved_words
    assert stacked.cycles < alone.cycles


def test_a_machine_without_an_accelerator_is_refused() -> None:
    with pytest.raises(InvalidInput, match="machine h100 has no accelerator; choose one such as attenio-512k"):
        simulate(Workload(n=128, d=64), machine_named("h100"))


def test_a_head_wider_than_the_key_buffer_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="KV buffer holds 128 words, and 1 x 256 words of keys do not fit"):
        simulate(Workload(n=128, d=256), machine_named("attenio-512k"))


def test_a_cache_too_small_for_one_row_is_refused() -> None:
    with pytest.raises(DoesNotFit, match=r"attenio needs at least .* words of fast memory"):
        simulate(Workload(n=128, d=64), small_machine(100, kv_words=64))


def test_other_words_than_sixteen_bits_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"works on words of 16 bits.*fp32"):
        simulate(Workload(n=128, d=64, dtype="fp32"), machine_named("attenio-512k"))


@settings(max_examples=12, deadline=None)
@given(
    st.integers(20, 50),
    st.integers(0, 9),
    st.integers(1, 3),
    st.integers(1, 7),
    st.sampled_from(["causal", "window:12", "window:17"]),
)
def test_a_masked_gradient_moves_the_planner_s_words_and_agrees_with_events(
    queries: int, more_keys: int, key_tile: int, query_tile: int, mask: str
) -> None:
    keys = queries + more_keys
    workload = Workload(queries=queries, keys=keys, d=2, heads=2, kv_heads=1, mask=mask, direction="backward")
    machine = small_machine(2000)
    tiles = Tiles.of(query_tile=query_tile, key_tile=key_tile)
    plan = plan_with(workload, machine, Dataflow.KEY_STATIONARY, tiles)
    done = simulate_plan(plan, machine)
    assert done.moved_words == plan.moved_words
    assert done.timeline == simulate_plan(plan, machine, by_events=True).timeline


def test_a_causal_gradient_takes_about_half_as_long_as_a_dense_one() -> None:
    dense, causal = (
        simulate(
            Workload(n=8192, d=64, mask=mask, direction="backward"),
            machine_named("attenio-512k"),
            dataflow=Dataflow.KEY_STATIONARY,
        )
        for mask in ("dense", "causal")
    )
    assert dense.plan.tiles["query_tile"] == 32
    assert dense.mac_utilisation > 0.7
    assert 0.5 < causal.cycles / dense.cycles < 0.6


def test_a_gradient_with_rows_or_keys_that_nobody_needs_is_refused() -> None:
    workload = Workload(queries=128, keys=64, d=64, mask="causal", direction="backward")
    with pytest.raises(InvalidInput, match="the gradient is timed on dense, causal and window masks"):
        simulate(workload, machine_named("attenio-512k"), dataflow=Dataflow.KEY_STATIONARY)
