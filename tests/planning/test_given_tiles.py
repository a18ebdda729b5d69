"""Tiles that a caller gives are of use, and of units of the machine, or refused in a line that says what is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue import machine_named
from attenio.errors import AttenioError, InvalidInput
from attenio.granularity import FREE_TILES
from attenio.machine import Machine
from attenio.planning import best_plan_for, plan_with
from attenio.planning.costs import cost, problems_of, tile_names
from attenio.planning.given_tiles import check_given_tiles
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems
from attenio.planning.problems.largest_tiles import largest_size
from attenio.workload import Workload

from .strategies import all_tiles, directed, workloads

LAWS = settings(max_examples=30, deadline=None, derandomize=True)
exact = pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)
# A degree is of an approximation, states are counted where they are refused.
WITHOUT_LENGTH = {"degree", "resident_states", "saved_state"}
# Beyond these none would exchange, more sums have places than there are, and columns are of a form each.
_OTHER_WORDS_BEYOND = {"exchanged_rows", "waiting_sums", "value_columns", "depth_tile"}
ROOMY = Machine.with_fast_bytes(60 * 1024)


def test_every_tile_of_every_dataflow_has_a_largest_size() -> None:
    problems = problems_of(Workload(n=8, d=3), Dataflow.ATTENIO)
    for dataflow in Dataflow:
        for names in tile_names(dataflow):
            tiles = Tiles.of(**dict.fromkeys(names, 1))
            without = {name for name in names if largest_size(problems, tiles, name) is None}
            assert without <= WITHOUT_LENGTH


def _are_of_use(problems: Problems, tiles: Tiles) -> bool:
    return all(
        found is None or tiles[name] <= found[0] for name in tiles for found in [largest_size(problems, tiles, name)]
    )


@exact
@LAWS
@given(data=st.data(), workload=workloads(longest=4, widest=2))
def test_a_tile_beyond_the_largest_is_refused_and_would_have_been_cut(
    dataflow: Dataflow, data: st.DataObject, workload: Workload
) -> None:
    workload = workload.towards(dataflow.direction)
    problems = problems_of(workload, dataflow)
    every = list(all_tiles(workload, dataflow))
    first = data.draw(st.integers(0, max(0, len(every) - 1)))
    tiles = next((tiles for tiles in every[first:] + every[:first] if _are_of_use(problems, tiles)), None)
    if tiles is None:
        return
    name = data.draw(st.sampled_from(sorted(tiles)))
    found = largest_size(problems, tiles, name)
    assert found is not None
    larger = {more: Tiles.of(**{**tiles, name: found[0] + more}) for more in (0, 1, 9)}
    spills = name == "query_tile" and "resident_keys" in tiles  # which flat does one row at a time
    refused = f"{name} is {found[0] + 1:,}, " + ("make it 1$" if spills else f"and .*; give .*{found[0]:,}$")
    with pytest.raises(InvalidInput, match=refused):
        check_given_tiles(workload, dataflow, larger[1], FREE_TILES)
    if found[0] > 0 and not spills and name not in _OTHER_WORDS_BEYOND:
        most, more, many = (cost(workload, dataflow, each) for each in larger.values())
        assert most == more == many


@LAWS
@given(workload=directed(longest=20, widest=4), fast_words=st.integers(8, 600), data=st.data())
def test_the_tiles_of_the_best_plan_are_never_refused(workload: Workload, fast_words: int, data: st.DataObject) -> None:
    for dataflow in Dataflow.towards(workload.direction):
        try:
            plan = best_plan_for(workload, fast_words, dataflow=dataflow)
        except AttenioError:
            continue
        check_given_tiles(workload, dataflow, plan.tiles, FREE_TILES)


def test_all_tiles_of_approximations_have_an_end_too() -> None:
    workload = Workload(n=24, d=4, value_dim=3, mask="causal", tolerance=0.05, entry_bound=0.4)
    for dataflow, sizes, words in (
        (
            "feature-state",
            {"degree": 2, "key_tile": 25},
            "key_tile is 25, and the problem has 24 keys; give at most 24",
        ),
        ("value-columns", {"degree": 2, "value_columns": 5, "key_tile": 1}, "4 columns of values and of ones; give at"),
        (
            "feature-blocks",
            {"degree": 2, "coordinate_group": 6, "value_columns": 1, "key_tile": 1},
            "5 columns of queri",
        ),
        (
            "window-and-features",
            {"degree": 2, "window": 30, "key_tile": 1},
            "window is 30, and the problem has 24 keys",
        ),
    ):
        with pytest.raises(InvalidInput, match=words):
            plan_with(workload, ROOMY, dataflow, Tiles.of(**sizes))


def test_what_other_tiles_leave_is_an_end() -> None:
    def refused(mask: str, dataflow: str, **sizes: int) -> str:
        workload = Workload(n=24, d=4, mask=mask, direction=Dataflow.named(dataflow).direction)
        with pytest.raises(InvalidInput) as problem:
            plan_with(workload, ROOMY, dataflow, Tiles.of(**sizes))
        return str(problem.value)

    causal = "causal", "kept-row-gradients"
    first_keys = "first_keys is 100, and the problem has 24 keys; give at most 24"
    assert refused(*causal, first_keys=100, standing_rows=1) == first_keys
    assert "last_keys=20 leave 4 of the 24 keys; give at most 4" in refused(
        *causal, last_keys=20, key_tile=5, standing_sums=0, exchanged_positions=0
    )
    assert "exchanged_positions is 3, and no more than 2 query rows may stay at a turn" in refused(
        *causal, last_keys=20, key_tile=2, standing_sums=0, exchanged_positions=3
    )
    assert "are last keys; give 0" in refused(*causal, last_keys=24, key_tile=1, standing_sums=0, exchanged_positions=3)
    assert "no more than half of the 24 keys may stay at a turn; give at most 12" in refused(
        "dense", "kept-keys", stacked_rows=4, exchanged_keys=13
    )
    assert "exchanged_rows=20 take" in refused(
        "causal", "kept-keys", exchanged_rows=20, exchanges=2, last_rows=3, kept_keys=2
    )


@pytest.mark.parametrize(
    ("dataflow", "sizes", "refused"),
    [
        ("flash-attention-2", (64, 3), "key_tile is 3, and {}; give a multiple of 16 or the whole 999, or use {}"),
        ("stacked-groups", (3, 8, 16), "query_tile is 3, and {}; give a multiple of 8 or the whole 999, or use {}"),
        ("flash-attention-1", (999, 998), "key_tile is 998, and {}; give a multiple of 16 or the whole 999, or use {}"),
        ("kept-keys", (64, 16, 64), "kept-keys makes one score at a time, and {}; use attenio, or {}"),
        ("kept-row-gradients", (64, 64), "kept-row-gradients makes one score at a time, and {}; use two-pass, or {}"),
    ],
)
def test_tiles_of_which_a_machine_has_no_units_are_refused_alike(
    dataflow: str, sizes: tuple[int, ...], refused: str
) -> None:
    tiles = Tiles(tuple(zip(tile_names(Dataflow.named(dataflow))[0], sizes, strict=True)))
    way = Dataflow.named(dataflow).direction
    workload, machine = Workload(n=999, d=64, heads=8, kv_heads=1, direction=way), machine_named("h100")
    with pytest.raises(InvalidInput) as problem:
        plan_with(workload, machine, dataflow, tiles)
    units = "this machine computes with tiles of 64 rows and 16 keys"
    assert str(problem.value) == refused.format(units, "free tiles (--free-tiles)")
    assert plan_with(workload, machine.with_free_tiles(), dataflow, tiles).moved_words > 0


@pytest.mark.parametrize(
    ("dataflow", "sizes", "instead"),
    [
        ("score-stationary", {"resident_rows": 64, "key_tile": 16}, "query_tile, key_tile"),
        ("query-stationary", {"query_tile": 64, "kept_keys": 64}, "query_tile, key_tile"),
        (
            "two-pass",
            {"query_tile": 64, "kept_keys": 16, "stationary_keys": 64, "kept_rows": 64},
            "query_tile, head_tile, key_tile, stationary_keys, passing_queries",
        ),
    ],
)
def test_forms_that_make_single_scores_are_refused_with_one_that_does_not(
    dataflow: str, sizes: dict[str, int], instead: str
) -> None:
    workload = Workload(n=999, d=64, direction=Dataflow.named(dataflow).direction)
    with pytest.raises(InvalidInput) as problem:
        plan_with(workload, "h100", dataflow, Tiles.of(**sizes))
    assert f"{dataflow} with {', '.join(sizes)} makes one score or product at a time, and" in str(problem.value)
    assert f"; give it {instead}, or use free tiles" in str(problem.value)


def test_heads_of_a_group_are_counted() -> None:
    workload = Workload(n=8, d=4, heads=4, kv_heads=2)
    with pytest.raises(
        InvalidInput, match="head_tile is 3, and the problem has 2 query heads for each KV head; give at"
    ):
        plan_with(workload, ROOMY, "stacked-groups", Tiles.of(query_tile=2, head_tile=3, key_tile=1))


def test_whole_lengths_are_units() -> None:
    workload = Workload(n=50, d=64)
    assert plan_with(workload, "h100", "attenio", Tiles.of(query_tile=50, key_tile=50)).moved_words == 4 * 50 * 64
    with pytest.raises(InvalidInput, match=r"query_tile is 49, .*; give the whole 50, or use"):
        plan_with(workload, "h100", "attenio", Tiles.of(query_tile=49, key_tile=50))
