from dataclasses import replace

import pytest

from attenio.dataflows import execute
from attenio.dataflows.host import HOST_LIMIT_BYTES, check_host_memory
from attenio.errors import DoesNotFit
from attenio.machine import Machine
from attenio.planning import plan_with
from attenio.planning.nested import LevelTiles, NestedPlan
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.training import training_plan_for
from attenio.workload import Workload

from .laws import GRADIENT_TILES, READING_TILES, SMALL_TILES, planned

# Partial results of rows or of columns are in slow memory, not scores.
PARTIAL = (
    Dataflow.SPLIT_KEYS,
    Dataflow.SPILLED_GRADIENTS,
    Dataflow.KEPT_KEYS,
    Dataflow.KEPT_ROWS,
    Dataflow.KEPT_ROW_GRADIENTS,
)
SPILLING = {
    Dataflow.STANDARD: 2,
    Dataflow.SQUARE_TILING: 1,
    Dataflow.RANK_ONE_TILING: 1,
    Dataflow.TILED_PRODUCTS: 2,
    Dataflow.FUSED_VALUES: 1,
}


@pytest.mark.parametrize("dataflow", Dataflow.towards("training"))
def test_only_dataflows_that_spill_scores_are_refused_at_a_length_of_64k(dataflow):
    workload = Workload(n=2**16, d=8, direction=dataflow.direction)
    plan = planned(workload, dataflow, (SMALL_TILES | GRADIENT_TILES)[dataflow], 1000)
    if dataflow in SPILLING or dataflow in PARTIAL:
        with pytest.raises(DoesNotFit, match=r"GiB of it for intermediates .* use a smaller n, or a dataflow"):
            check_host_memory(plan)
    else:
        check_host_memory(plan)


@pytest.mark.parametrize(("dataflow", "copies"), SPILLING.items())
def test_the_limit_is_on_the_spilled_scores(dataflow, copies):
    n = int((HOST_LIMIT_BYTES / 4 / copies) ** 0.5)
    tiles, way = (SMALL_TILES | GRADIENT_TILES)[dataflow], dataflow.direction
    check_host_memory(planned(Workload(n=n * 99 // 100, d=1, direction=way), dataflow, tiles, 1000))
    with pytest.raises(DoesNotFit):
        check_host_memory(planned(Workload(n=n + 1, d=1, direction=way), dataflow, tiles, 1000))


def test_saved_probabilities_count_for_every_head_and_sequence():
    workload = Workload(n=2**12, d=1, heads=32, direction="backward")
    check_host_memory(planned(workload, Dataflow.TILED_PRODUCTS, GRADIENT_TILES[Dataflow.TILED_PRODUCTS], 1000))
    reading = planned(replace(workload, heads=64), Dataflow.TILED_PRODUCTS, READING_TILES, 1000)
    with pytest.raises(DoesNotFit, match="or a dataflow that does not spill such as two-pass"):
        check_host_memory(reading)
    training = training_plan_for(replace(workload, heads=64), 12, saved="probabilities")
    with pytest.raises(DoesNotFit, match="for intermediates in slow memory"):
        execute(training)


def test_inputs_beyond_the_limit_are_refused_before_they_are_made():
    workload = Workload(n=2**30, d=64)
    with pytest.raises(DoesNotFit, match=r"for inputs, outputs and fast memory, over the limit of 4 GiB; use a"):
        execute(planned(workload, Dataflow.ATTENIO, SMALL_TILES[Dataflow.ATTENIO], 1000))
    nested = NestedPlan(
        workload=workload,
        fast_words=(1000,),
        head_tile=1,
        tiles=(LevelTiles(query_tile=1, key_tile=1),),
        moved_words=(0,),
        peak_words=(0,),
    )
    with pytest.raises(DoesNotFit, match="for inputs, outputs and fast memory"):
        execute(nested)


def test_tiles_beyond_the_limit_are_refused_too():
    plan = planned(Workload(n=64, d=2), Dataflow.ATTENIO, SMALL_TILES[Dataflow.ATTENIO], 2**40)
    check_host_memory(plan)
    with pytest.raises(DoesNotFit, match="fast memory, over the limit of 4 GiB"):
        check_host_memory(replace(plan, peak_words=2**30))


@pytest.mark.parametrize("more", [{}, {"summed_keys": 512}])
def test_whole_windows_take_the_room_of_the_window_however_long(more):
    tiles = Tiles.of(whole_rows=512, whole_keys=512, **more)
    workload = Workload(n=2**20, d=4, mask="window:64", direction="backward")
    check_host_memory(planned(workload, Dataflow.TILED_PRODUCTS, tiles, 2**16))
    wide = Workload(n=2**20, d=4, mask="window:2048", direction="backward")
    with pytest.raises(DoesNotFit, match="GiB of it for intermediates in slow memory"):
        check_host_memory(planned(wide, Dataflow.TILED_PRODUCTS, tiles, 2**16))


def test_whole_windows_of_a_length_whose_scores_no_memory_holds_are_run():
    workload = Workload(n=24000, d=2, mask="window:16", direction="backward")
    tiles = Tiles.of(whole_rows=1024, whole_keys=1024)
    plan = plan_with(workload, Machine.with_fast_bytes(2**19), Dataflow.TILED_PRODUCTS, tiles)
    done = execute(plan)
    assert done.moved_words == plan.moved_words
    assert done.max_abs_error < 1e-2
