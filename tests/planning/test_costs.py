from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.masks import Causal, Dense, Documents
from attenio.planning import plan_with
from attenio.planning.costs import cost, tile_names
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

LAWS = settings(max_examples=20, deadline=None, derandomize=True)
dataflows = pytest.mark.parametrize("dataflow", Dataflow.towards("training"), ids=lambda dataflow: dataflow.value)


def tiles_of(dataflow: Dataflow, sizes: list[int]) -> Tiles:
    (names, *_) = tile_names(dataflow)
    return Tiles(tuple(zip(names, sizes, strict=False)))


sizes = st.lists(st.integers(1, 12), min_size=8, max_size=8)


@dataflows
@LAWS
@given(sizes=sizes, n=st.integers(1, 12), batch=st.integers(1, 4), kv_heads=st.integers(1, 3))
def test_sequences_and_kv_heads_multiply_words_and_not_the_peak(
    dataflow: Dataflow, sizes: list[int], n: int, batch: int, kv_heads: int
) -> None:
    tiles = tiles_of(dataflow, sizes)
    single = Workload(n=n, d=3, value_dim=2, heads=2, kv_heads=1, mask="causal", direction=dataflow.direction)
    one = cost(single, dataflow, tiles)
    many = replace(single, heads=2 * kv_heads, kv_heads=kv_heads, batch=batch)
    assert cost(many, dataflow, tiles).moved_words == batch * kv_heads * one.moved_words
    assert cost(many, dataflow, tiles).peak_words == one.peak_words


@dataflows
@LAWS
@given(sizes=sizes, lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9), causal=st.booleans())
def test_documents_cost_what_their_sequences_cost(
    dataflow: Dataflow, sizes: list[int], lengths: list[int], causal: bool
) -> None:
    tiles = tiles_of(dataflow, sizes)
    way, mask = dataflow.direction, Causal() if causal else Dense()
    packed = Workload(n=sum(lengths), d=3, mask=Documents(lengths=tuple(lengths), causal=causal), direction=way)
    each = [cost(Workload(n=n, d=3, mask=mask, direction=way), dataflow, tiles) for n in lengths]
    found = cost(packed, dataflow, tiles)
    assert found.moved_words == sum(one.moved_words for one in each)
    assert found.peak_words == max(one.peak_words for one in each)


@dataflows
def test_every_dataflow_has_the_leading_term_of_its_order(dataflow: Dataflow) -> None:
    n, d = 2**14, 64
    workload = Workload(n=n, d=d, direction=dataflow.direction)
    words = cost(workload, dataflow, tiles_of(dataflow, [32] * 8)).moved_words
    leading = {
        Dataflow.STANDARD: 3 * n * n * d // 32 + 6 * n * n,
        Dataflow.FLAT: 2 * n * n * d // 32,
        Dataflow.FLASH_ATTENTION_1: 3 * n * n * (d + 4 / 3) / 32,
        Dataflow.FLASH_ATTENTION_2: 2 * n * n * d // 32,
        Dataflow.ATTENIO: 2 * n * n * d // 32,
        Dataflow.SQUARE_TILING: 3 * n * n * d // 32 + 3 * n * n,
        Dataflow.RANK_ONE_TILING: 3 * n * n * d // 32 + 3 * n * n,
        Dataflow.SCORE_STATIONARY: 5 * n * n * d // 32,
        Dataflow.SPLIT_KEYS: 2 * n * n * d // 32 + n * n * (3 * d + 4) // 32,
        Dataflow.STACKED_GROUPS: 2 * n * n * d // 32,
        # tiles of 32 rows, 32 slots and two groups of 32 columns; tiles of 32 keys and 32 slots
        Dataflow.KEPT_KEYS: 3 * n * n * d // 32,
        Dataflow.KEPT_ROWS: n * n * (3 * d + 4) // 32,
        Dataflow.KEY_STATIONARY: n * n * (4 * d + 2) // 32,
        Dataflow.QUERY_STATIONARY: 6 * n * n * d // 32,
        Dataflow.KEPT_ROW_GRADIENTS: n * n * (4 * d + 3) // 32,
        Dataflow.TWO_PASS: 2 * n * n * d // 32 + n * n * (2 * d + 2) // 32,
        # ten halves of products, and scores written twice, read once more and in tiles of columns
        Dataflow.TILED_PRODUCTS: 4 * n * n * d // 32 + 3 * (n * n * d // 32 + n * n * d // 32) + 3 * n * n,
        Dataflow.SPILLED_GRADIENTS: n * n * (2 * d + 2) // 32 + n * n + 2 * n * n * d // 32,
        Dataflow.FUSED_VALUES: 6 * n * n * d // 32 + 2 * (n * n * d // 32 + n * n * d // 32) + n * n,
    }
    assert words == pytest.approx(leading[dataflow], rel=0.02)


def test_saved_probabilities_spare_their_recomputation() -> None:
    n, d = 2**10, 64
    workload = Workload(n=n, d=d, heads=2, kv_heads=1, direction="backward")
    sizes = dict.fromkeys(tile_names(Dataflow.TILED_PRODUCTS)[0], 8) | {"score_rows": 32, "score_keys": 16}
    saved = {name.replace("score", "gradient"): size for name, size in sizes.items()}
    made, read = (cost(workload, Dataflow.TILED_PRODUCTS, Tiles.of(**each)) for each in (sizes, saved))
    assert made.moved_words - read.moved_words == 2 * (n * n * (d + 1) // 16 + n * n * d // 32 + n * n)
    assert made.peak_words == read.peak_words


def test_words_beyond_64_bits_are_exact() -> None:
    tiles = Tiles.of(query_tile=1, key_tile=1)
    one = cost(Workload(n=2**30, d=2**16, mask="causal"), "attenio", tiles).moved_words
    assert one == 2**30 * 2**17 + 2**29 * (2**30 + 1) * 2**17
    many = Workload(n=2**30, d=2**16, heads=2**20, batch=2**20, mask="causal")
    assert cost(many, "attenio", tiles).moved_words == 2**40 * one


def test_wrong_tiles_are_refused_by_name() -> None:
    workload = Workload(n=8, d=2)
    with pytest.raises(InvalidInput, match="attenio takes the tiles query_tile, key_tile; got query_tile"):
        cost(workload, "attenio", Tiles.of(query_tile=4))
    meant = r"^unknown tile 'qery_tile'; did you mean query_tile\? attenio takes the tiles query_tile, key_tile$"
    with pytest.raises(InvalidInput, match=meant):
        cost(workload, "attenio", Tiles.of(qery_tile=4, key_tile=1))
    with pytest.raises(InvalidInput, match="flat takes the tiles query_tile, or query_tile, resident_keys; got none"):
        cost(workload, "flat", Tiles.of())
    with pytest.raises(InvalidInput, match="key_tile is 0; it must be at least 1"):
        cost(workload, "attenio", Tiles.of(query_tile=4, key_tile=0))
    with pytest.raises(InvalidInput, match="flat spills one row at a time; query_tile is 2, make it 1"):
        cost(workload, "flat", Tiles.of(query_tile=2, resident_keys=0))


def test_of_many_sets_of_tiles_the_nearest_is_named_first_and_shortly() -> None:
    workload = Workload(n=8, d=2, direction="backward")
    others = "or 11 other sets; 'attenio run --dataflow kept-row-gradients --tiles list' has them"
    for names, said in (
        (
            ("first_key", "standing_rows"),
            "unknown tile 'first_key'; did you mean first_keys? {} first_keys, standing_rows",
        ),
        (
            ("masked_turn_row", "key_tile"),
            "unknown tile 'masked_turn_row'; did you mean masked_turn_rows? {} masked_tu",
        ),
        (
            ("first_keys", "standing_row"),
            "unknown tile 'standing_row'; did you mean standing_rows? {} first_keys, stand",
        ),
        (("xyz",), "unknown tile 'xyz'; {} key_tile, kept_rows, " + others),
        (("ring_rows", "row_sums"), "{} ring_rows, or 11 other sets; got ring_rows, row_sums; 'attenio run"),
    ):
        with pytest.raises(InvalidInput) as problem:
            cost(workload, "kept-row-gradients", Tiles.of(**dict.fromkeys(names, 1)))
        assert str(problem.value).startswith(said.format("kept-row-gradients takes the tiles"))
        assert "list' has them" in str(problem.value) and len(str(problem.value)) < 250


@pytest.mark.parametrize("size", [4.5, float("nan"), "4", None, [4], True, np.array([1, 2])])
def test_a_size_is_no_number_to_be_rounded(size: object) -> None:
    with pytest.raises(InvalidInput, match=r"^query_tile is .*; give a whole number$"):
        Tiles.of(query_tile=size)  # type: ignore[arg-type]


def test_sizes_of_numpy_are_taken() -> None:
    tiles = Tiles.of(query_tile=np.int64(4), key_tile=np.array(2))  # type: ignore[arg-type]
    assert tiles == Tiles.of(query_tile=4, key_tile=2)


@pytest.mark.parametrize("tiles", [None, {"query_tile": 4, "key_tile": 1}, (4, 1), "query_tile=4"])
def test_what_is_no_tiles_is_refused_in_a_line(tiles: object) -> None:
    for ask in (cost, lambda workload, *asked: plan_with(workload, "h100", *asked)):
        with pytest.raises(InvalidInput, match=r"^tiles is .*; give Tiles, such as Tiles.of"):
            ask(Workload(n=8, d=2), "attenio", tiles)
